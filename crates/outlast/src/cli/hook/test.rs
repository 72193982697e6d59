//! `outlast hook test`: calls one configured sink, and reports the outcome.

use super::super::events::took;
use super::super::one_line::tame;
use super::super::{Context, Failure, engine, times};
use clap::Args;
use outlast_client::{Body, Completion, Delivery, Notice, Owner, ProcessId, Reason, WatchMatch, code};
use outlast_core::nearest;
use outlast_sinks::{Trial, Way, try_sink};
use serde_json::{Map, Value, json};

/// The command that the notice of a test names.
const COMMAND: &str = "outlast hook test";
/// The kind of a notice about an end.
const COMPLETION: &str = "completion";
/// The variables that a report shows.
const SHOWN_VARIABLES: [&str; 3] = ["OUTLAST_NAME", "OUTLAST_EXIT_CODE", "OUTLAST_TEXT"];
/// How a hook is added, for `--help`.
const EXAMPLE: &str = "\
A hook is a table in config.toml, which the engine reads when it starts (`outlast engine restart`):
  [[hook]]
  name = \"ops\"
  command = \"echo \\\"$OUTLAST_TEXT\\\" >> notices.txt\"";
/// The process that it names. No process has this id.
const PROCESS: [u8; 6] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab];

/// Deliver a test notice to a hook or webhook of the configuration
///
/// Calls it once, from here and not from the engine: the file is read now, and a hook gets the environment of this shell. The notice is of a kind and
/// a session that the sink is for; its command is `outlast hook test`. Nothing is written down, and a failed call is not repeated.
///
/// Exits 0 if the notice was delivered (the hook exited 0, the receiver answered 2xx), 1 if not, and 125 if no sink has this name.
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLE)]
pub(super) struct Test {
    /// The name of the hook or webhook, as its table in config.toml has it
    #[arg(value_name = "NAME")]
    sink: String,
    /// The session of the notice [default: one that the sink is for]
    #[arg(long, value_name = "KEY")]
    session: Option<String>,
    /// The exit code in the notice, for a sink of completions
    #[arg(long, value_name = "N", default_value = "0", value_parser = clap::value_parser!(u8))]
    exit_code: u8,
}

impl Test {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let sinks = &ctx.settings.sinks;
        let known = || sinks.calls.iter().zip(&sinks.pushes);
        let Some((sink, push)) = known().find(|(sink, _)| sink.name == self.sink) else {
            return Err(unknown(ctx, &self.sink, &known().map(|(sink, _)| sink.name.as_str()).collect::<Vec<_>>()));
        };
        let session = self.session.or_else(|| push.sessions.first().map(|pattern| pattern.replace('*', "test")));
        let kind = match push.kinds.first() {
            Some(first) if !push.kinds.iter().any(|kind| kind == COMPLETION) => first,
            _ => COMPLETION,
        };
        if self.exit_code != 0 && kind != COMPLETION {
            let what = format!("{} gets no notices of the kind {COMPLETION}, and only those have an exit code", sink.name);
            return Err(Failure::refused(what, "leave --exit-code out"));
        }
        let way = match sink.way {
            Way::Hook(_) => "hook",
            Way::Webhook(_) => "webhook",
        };
        let is_unread = match engine::running(ctx).await? {
            Some(client) => engine::outdated(ctx, &client).await.iter().any(|key| key == way),
            None => false,
        };
        let notice = notice(&sink.name, kind, session, i32::from(self.exit_code));
        let text = outlast_text::announce(&notice);
        let trial =
            try_sink(&super::super::with_lines_for_people(sink, ctx.world.zone()), &Delivery::new(notice, text, 0, times::now(), "")).await;
        if ctx.out.json {
            let mut answer = answer(&sink.name, way, &trial);
            answer["needs_restart"] = is_unread.into();
            ctx.out.object(&answer)?;
        } else {
            ctx.out.text(&report(&sink.name, way, &trial))?;
        }
        if let Some(note) = posted_kinds(&push.kinds) {
            ctx.out.remark(&note);
        }
        if is_unread {
            ctx.out.remark(&format!(
                "note: the {way} tables were changed, and the running engine has not read them: `outlast engine restart`"
            ));
        }
        Ok(i32::from(trial.failure.is_some()))
    }
}

/// A test notice for a sink.
pub(super) fn delivery(sink: &str) -> Delivery {
    let notice = notice(sink, COMPLETION, None, 0);
    let text = outlast_text::announce(&notice);
    Delivery::new(notice, text, 0, times::now(), "")
}

/// A note about kinds that no notice of Outlast has. A mistyped one never comes.
fn posted_kinds(kinds: &[String]) -> Option<String> {
    let posted: Vec<&str> = kinds.iter().map(String::as_str).filter(|kind| !Notice::KINDS.contains(kind)).collect();
    let (which, are) = match posted.as_slice() {
        [] => return None,
        [one] => ((*one).to_owned(), "is no kind"),
        several => (several.join(", "), "are no kinds"),
    };
    Some(format!("note: {} {are} of Outlast's own notices: only `outlast events post` makes such", tame(&which)))
}

/// The failure if no sink has this name.
fn unknown(ctx: &Context, given: &str, known: &[&str]) -> Failure {
    let hint = match (nearest(given, known.iter().copied()).as_slice(), known) {
        (_, []) => example(ctx, given),
        ([], known) => format!("there are: {}", known.join(", ")),
        (near, _) => format!("did you mean {}?", near.join(" or ")),
    };
    let what = match known {
        [] => format!("there is no hook or webhook {given:?}: none is configured"),
        _ => format!("there is no hook or webhook {given:?}"),
    };
    Failure::new(code::NOT_FOUND, what, hint)
}

/// How a hook is added.
fn example(ctx: &Context, name: &str) -> String {
    let file = ctx.settings.file.display();
    format!(
        "add it to {file}, and then run `outlast engine restart`:\n\n    [[hook]]\n    name = {name:?}\n    command = \"echo \\\"$OUTLAST_TEXT\\\" >> notices.txt\""
    )
}

/// A notice of this kind, marked as a test.
fn notice(sink: &str, kind: &str, session: Option<String>, exit_code: i32) -> Notice {
    let message = format!("This is a test of the sink {sink}.");
    let now = times::now();
    let body = match kind {
        COMPLETION => {
            let mut end = Completion::new(COMMAND, Some(exit_code), Reason::Exited);
            (end.name, end.output, end.started_at, end.ended_at) = (Some("test".into()), message, Some(now), Some(now));
            Body::Completion(Box::new(end))
        }
        "watch_match" => {
            let mut found = WatchMatch::new(COMMAND, "test", message);
            found.name = Some("test".into());
            Body::WatchMatch(found)
        }
        kind => {
            let fields = json!({"type": kind, "message": message});
            Body::Posted(fields.as_object().cloned().unwrap_or_else(Map::new))
        }
    };
    let owner = Owner { session, ..Owner::default() };
    Notice::new(
        format!("evt_test_{}_{}", std::process::id(), now.micros()),
        now,
        Some(ProcessId::from_bytes(PROCESS)),
        &owner,
        outlast_client::Route::default(),
        body,
    )
}

fn answer(name: &str, way: &str, trial: &Trial) -> Value {
    json!({
        "sink": name,
        "kind": way,
        "status": if trial.failure.is_none() { "delivered" } else { "failed" },
        "reason": trial.failure,
        "exit_code": trial.exit_code,
        "signal": trial.signal,
        "http_status": trial.http_status,
        "output": trial.output,
        "seconds": trial.took.as_secs_f64(),
    })
}

fn report(name: &str, way: &str, trial: &Trial) -> String {
    let took = took(i64::try_from(trial.took.as_micros()).unwrap_or(i64::MAX));
    let mut text = match (&trial.failure, trial.http_status) {
        (None, Some(status)) => format!("the {way} {name} accepted the notice (HTTP {status}) after {took}\n"),
        (None, None) => format!("the {way} {name} accepted the notice (exit 0) after {took}\n"),
        (Some(why), _) => format!("the {way} {name} failed after {took}: {why}\n"),
    };
    let shown: Vec<_> = trial.variables.iter().filter(|(name, _)| SHOWN_VARIABLES.contains(name)).collect();
    if !shown.is_empty() {
        text += "it was given:\n";
        text.extend(shown.iter().map(|(name, value)| format!("  {name}={}\n", tame(value))));
    }
    if !trial.output.trim().is_empty() {
        text += if way == "hook" { "its output:\n" } else { "its answer:\n" };
        text.extend(trial.output.trim_end().lines().map(|line| format!("  {line}\n")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_trial_is_reported_with_what_was_seen() {
        let took = Duration::from_millis(35);
        let all = [
            report(
                "wake",
                "hook",
                &Trial {
                    exit_code: Some(0),
                    variables: [
                        ("OUTLAST_EVENT_ID", "evt_1"),
                        ("OUTLAST_EXIT_CODE", "3"),
                        ("OUTLAST_TEXT", "test failed (exit 3) after 4s"),
                    ]
                    .map(|(name, value)| (name, value.to_owned()))
                    .to_vec(),
                    took,
                    ..Trial::default()
                },
            ),
            report(
                "wake",
                "hook",
                &Trial { exit_code: Some(3), failure: Some("exit code 3".into()), output: "no\nroute\n".into(), took, ..Trial::default() },
            ),
            report("ops", "webhook", &Trial { http_status: Some(204), took, ..Trial::default() }),
            report(
                "ops",
                "webhook",
                &Trial { http_status: Some(500), failure: Some("answered 500".into()), output: "oops".into(), took, ..Trial::default() },
            ),
        ];
        insta::assert_snapshot!(all.concat());
    }

    #[test]
    fn the_notice_of_a_test_has_the_kind_that_the_sink_is_for() {
        for kind in ["completion", "watch_match", "deploy"] {
            let notice = notice("ops", kind, Some("agent:test".into()), 0);
            assert_eq!((notice.kind(), notice.session_key.as_str()), (kind, "agent:test"));
            assert!(outlast_text::announce(&notice).contains("This is a test of the sink ops."), "{kind}");
        }
    }
}
