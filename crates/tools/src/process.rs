//! `process`: manages processes in the background.

use crate::args::{Args, short};
use crate::output::Output;
use crate::pages::Pages;
use crate::this_call::{CallWait, SHORTEST_WAIT, ThisCall};
use crate::tokens::end_of;
use crate::{Answer, Host, Profile, answer, cap};
use outlast_client::{At, Client, ClientError, Kill, LogPage, Page, ProcessInfo, Scope, Status, code};
use outlast_core::limits;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

pub(crate) const ACTIONS: [&str; 8] = ["list", "poll", "log", "wait", "kill", "write", "submit", "close"];

/// Room for the other fields of an answer with lines of a log.
const REST_CHARS: usize = 4_000;

/// A parsed call of `process`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProcessCall {
    /// List the processes.
    List,
    /// Show the status of a process.
    Poll {
        /// The process.
        id: String,
        /// The most tokens of output in the answer.
        tokens: Option<usize>,
    },
    /// Read a page of its output.
    Log {
        /// The process.
        id: String,
        /// The page.
        page: Page,
        /// The most tokens of output in the answer.
        tokens: Option<usize>,
    },
    /// Wait for its end.
    Wait {
        /// The process.
        id: String,
        /// The most seconds to wait.
        seconds: Option<u64>,
        /// The most tokens of output in the answer.
        tokens: Option<usize>,
    },
    /// Stop it.
    Kill {
        /// The process.
        id: String,
        /// How to stop it.
        how: Kill,
        /// The most tokens of output in the answer.
        tokens: Option<usize>,
    },
    /// Write to its input.
    Write {
        /// The process.
        id: String,
        /// The text.
        data: String,
        /// Whether to append a newline.
        line: bool,
    },
    /// Close its input.
    Close {
        /// The process.
        id: String,
    },
}

impl ProcessCall {
    /// The same call, with the process's name or short id replaced by its id.
    async fn with_id(mut self, client: &Client, call: &ThisCall) -> Result<Self, ClientError> {
        let given = match &mut self {
            Self::List => return Ok(self),
            Self::Poll { id, .. }
            | Self::Log { id, .. }
            | Self::Wait { id, .. }
            | Self::Kill { id, .. }
            | Self::Write { id, .. }
            | Self::Close { id } => id,
        };
        *given = id_of(client, call, given).await?;
        Ok(self)
    }

    /// Parses the arguments of a call. The error is the answer to the call.
    pub fn of(arguments: &Value) -> Result<Self, Answer> {
        let wrong = |error: String| answer([("error", error.into())]);
        let args = Args::of(arguments).map_err(wrong)?;
        let action = args.text("action").unwrap_or_default().trim().to_ascii_lowercase();
        if !ACTIONS.contains(&action.as_str()) {
            let what =
                if action.is_empty() { "action is required".to_owned() } else { format!("Unknown process action: {}", short(&action)) };
            return Err(wrong(format!("{what}. Use: {}", ACTIONS.join(", "))));
        }
        if action == "list" {
            return Ok(Self::List);
        }
        let id = args.text("session_id").unwrap_or_default().trim().to_owned();
        if id.is_empty() {
            return Err(wrong(format!("session_id is required for {action}")));
        }
        let data = || args.text("data").unwrap_or_default();
        let tokens = || args.size("max_output_tokens").map_err(wrong);
        Ok(match action.as_str() {
            "poll" => Self::Poll { id, tokens: tokens()? },
            "log" => {
                let offset = args
                    .whole("offset", 0)
                    .map_err(|e| wrong(format!("{e}: the first line to show; leave it out for the end of the log")))?;
                let limit = args.whole("limit", 1).map_err(wrong)?;
                let mut page = Page::default();
                (page.offset, page.limit) = (offset, limit);
                Self::Log { id, page, tokens: tokens()? }
            }
            "wait" => Self::Wait { id, seconds: args.whole("timeout", 1).map_err(wrong)?, tokens: tokens()? },
            "kill" => Self::Kill { id, how: Kill::default(), tokens: tokens()? },
            "write" => Self::Write { id, data: data(), line: false },
            "submit" => Self::Write { id, data: data(), line: true },
            // "close" is the only action left.
            _ => Self::Close { id },
        })
    }
}

/// The id of the process that a call names by its id, the beginning of one, or its name. A whole id is not looked up.
pub(crate) async fn id_of(client: &Client, call: &ThisCall, given: &str) -> Result<String, ClientError> {
    if let Ok(id) = given.parse() {
        call.about.set(id);
        return Ok(given.to_owned());
    }
    match client.find(given).await {
        Ok(found) => {
            call.about.set(found.session_id);
            Ok(found.session_id.to_string())
        }
        // An engine of an earlier release does not know the request. It knows ids.
        Err(ClientError::Refused(e)) if e.code == code::BAD_REQUEST => Ok(given.to_owned()),
        Err(e) => Err(e),
    }
}

/// Answers a call.
pub(crate) async fn answer_to(client: &Client, host: &Host, call: &ThisCall, arguments: &Value) -> Answer {
    match ProcessCall::of(arguments) {
        Ok(ask) => answer_of(client, host, call, ask).await,
        Err(refusal) => refusal,
    }
}

/// Answers a parsed call.
pub(crate) async fn answer_of(client: &Client, host: &Host, call: &ThisCall, ask: ProcessCall) -> Answer {
    let killing = matches!(ask, ProcessCall::Kill { .. });
    match done(client, host, call, ask).await {
        Ok(all) => all,
        Err(ClientError::Refused(e)) if killing && e.code == code::ALREADY_EXITED => {
            let mut all = answer([("status", "already_exited".into()), ("exit_code", json!(e.exit_code.flatten()))]);
            if let Some(stopped) = &e.stopped_left {
                all.extend(fields(stopped));
            }
            all
        }
        Err(e) => failed(host.profile, &e),
    }
}

async fn done(client: &Client, host: &Host, call: &ThisCall, ask: ProcessCall) -> Result<Answer, ClientError> {
    Ok(match ask.with_id(client, call).await? {
        ProcessCall::List => list(client).await?,
        ProcessCall::Poll { id, tokens } => {
            let mut all = fields(&client.poll(&id).await?);
            shorten(&mut all, "output_preview", tokens);
            all
        }
        ProcessCall::Log { id, page, tokens: None } => fields(&log(client, host, &id, page).await?),
        ProcessCall::Log { id, page, tokens: Some(tokens) } => {
            // The lines that matter are searched in the whole log, unless the call names a part.
            let pages = Pages::read(client, &id, page).await?;
            let mut all = fields(&pages.page);
            put(&mut all, Output::brief_of(&pages, host, tokens));
            all
        }
        ProcessCall::Wait { id, seconds, tokens } => wait(client, host, call, &id, seconds, tokens).await?,
        ProcessCall::Kill { id, how, tokens } => {
            let mut all = fields(&client.kill(&id, how).await?);
            brief_end(client, host, &id, &mut all, tokens).await;
            all
        }
        ProcessCall::Write { id, data, line: false } => fields(&client.write(&id, data.as_bytes(), At::End).await?),
        ProcessCall::Write { id, data, line: true } => fields(&client.submit(&id, data.as_bytes(), At::End).await?),
        ProcessCall::Close { id } => fields(&client.close(&id).await?),
    })
}

/// The processes of the caller's task and session.
async fn list(client: &Client) -> Result<Answer, ClientError> {
    let owner = client.owner();
    let scope = Scope { task: owner.task.clone(), session: owner.session.clone() };
    let mut known = client.list(&scope, true).await?;
    known.retain(|one| !one.is_set_aside);
    let (shown, left_out) = latest(known);
    let mut all = answer([("processes", json!(shown))]);
    if left_out > 0 {
        all.insert("note".into(), format!("{left_out} older finished processes are not shown").into());
    }
    Ok(all)
}

/// All running processes, then the finished ones that ended last, and how many are left out.
fn latest(mut all: Vec<ProcessInfo>) -> (Vec<ProcessInfo>, usize) {
    let mut finished: Vec<_> = all.iter().filter(|p| p.status == Status::Exited).map(|p| (p.fate.ended_by(), p.session_id)).collect();
    finished.sort();
    let left_out = finished.len().saturating_sub(limits::LIST_FINISHED);
    let oldest: BTreeSet<_> = finished.into_iter().take(left_out).map(|(_, id)| id).collect();
    all.retain(|p| !oldest.contains(&p.session_id));
    all.sort_by_key(|p| p.status == Status::Exited);
    (all, left_out)
}

/// A page that fits into an answer.
async fn log(client: &Client, host: &Host, id: &str, page: Page) -> Result<LogPage, ClientError> {
    let whole = client.log(id, page).await?;
    let room = host.result_chars.saturating_sub(REST_CHARS);
    if cap::text_width(&whole.output) <= room {
        return Ok(whole);
    }
    let mut used = 2;
    let mut fits = |line: &&str| {
        used += cap::text_width(line);
        used <= room
    };
    let lines = match page.offset {
        Some(_) => whole.output.split('\n').take_while(&mut fits).count(),
        None => whole.output.rsplit('\n').take_while(&mut fits).count(),
    };
    // A line that is too long for an answer is cut later.
    client.log(id, page.limit(lines.max(1) as u64)).await
}

async fn wait(
    client: &Client,
    host: &Host,
    call: &ThisCall,
    id: &str,
    seconds: Option<u64>,
    tokens: Option<usize>,
) -> Result<Answer, ClientError> {
    let most = host.wait_limit;
    let asked = seconds.map(Duration::from_secs);
    let clamped = asked.filter(|time| *time > most);
    let wait = CallWait { most: asked.unwrap_or_else(|| host.usual_wait(most)).min(most), is_named: asked.is_some() };
    let mut all = fields(&client.wait(id, Some(call.left_of(wait).max(SHORTEST_WAIT))).await?);
    if let Some(asked) = clamped {
        let note = format!("Requested wait of {}s was clamped to configured limit of {}s", asked.as_secs(), most.as_secs_f64());
        all.insert("timeout_note".into(), note.into());
    }
    match all["status"] == "exited" {
        true => brief_end(client, host, id, &mut all, tokens).await,
        // Reading the log now could consume the notice of an end that is not in this answer.
        false => shorten(&mut all, "output", tokens),
    }
    Ok(all)
}

/// Replaces the end of the output by the lines that matter, for a process whose end is in the answer.
async fn brief_end(client: &Client, host: &Host, id: &str, all: &mut Answer, tokens: Option<usize>) {
    let Some(tokens) = tokens else { return };
    match Output::brief(client, host, id, tokens).await {
        Ok(output) => put(all, output),
        // The log cannot be read, so the end of the output stays.
        Err(_) => shorten(all, "output", Some(tokens)),
    }
}

fn put(all: &mut Answer, output: Output) {
    all.remove("output_cut");
    all.insert("output".into(), output.text.into());
    all.insert("output_tokens".into(), json!(output.tokens));
}

/// Cuts a field to an end of at most `tokens` tokens.
fn shorten(all: &mut Answer, field: &str, tokens: Option<usize>) {
    if let (Some(tokens), Some(Value::String(text))) = (tokens, all.get(field)) {
        let (end, cut) = end_of(text, tokens);
        let before = all.get("output_cut").and_then(Value::as_u64).unwrap_or(0) + cut as u64;
        let end = end.to_owned();
        all.insert(field.into(), end.into());
        if before > 0 {
            all.insert("output_cut".into(), before.into());
        }
    }
}

pub(crate) fn fields(said: &impl Serialize) -> Answer {
    match serde_json::to_value(said) {
        Ok(Value::Object(all)) => all,
        // Answers of the engine are always objects.
        _ => answer([("status", "error".into()), ("error", "the answer cannot be written".into())]),
    }
}

/// The answer for an error, with a hint in the words of the tools.
pub(crate) fn failed(profile: Profile, e: &ClientError) -> Answer {
    let hint = match e.code() {
        code::NOT_FOUND | code::BAD_ID => format!("{}{}", near(e.hint()), profile.known()),
        code::NO_INPUT => format!("only a process that was started with {} takes input", profile.input()),
        code::ALREADY_EXITED => format!("{} shows its output", profile.log()),
        code::AMBIGUOUS_ID => format!("give the whole {}", profile.process()),
        code::OTHER_CONVERSATION => "leave it alone unless your user wants it; force=true does it anyway".into(),
        code::BAD_REQUEST => String::new(),
        _ => e.hint().to_owned(),
    };
    let mut all = answer([("status", e.status().into()), ("error", e.to_string().into()), ("code", e.code().into())]);
    if !hint.is_empty() {
        all.insert("hint".into(), hint.into());
    }
    if let ClientError::Refused(refused) = e
        && let Some(code) = refused.exit_code
    {
        all.insert("exit_code".into(), json!(code));
    }
    all
}

/// The part of an engine's hint that names similar processes, if it has one. The rest is about the command line.
fn near(hint: &str) -> &str {
    let end = hint.find("? ").map(|at| at + 2).filter(|_| hint.starts_with("did you mean "));
    end.map_or("", |end| &hint[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(arguments: Value) -> String {
        ProcessCall::of(&arguments).unwrap_err()["error"].as_str().unwrap().to_owned()
    }

    #[test]
    fn a_hint_names_only_tools_of_its_profile() {
        let unknown =
            ClientError::Refused(outlast_client::Error::new(outlast_client::ErrorKind::Refusal, code::NOT_FOUND, "no", "`outlast list`"));
        for (profile, hint) in [
            (Profile::Native, "list() lists all processes"),
            (Profile::Hermes, "process(action=\"list\") lists all processes"),
            (Profile::Codex, "use the session_id that exec_command returned"),
        ] {
            assert_eq!(failed(profile, &unknown)["hint"], hint);
        }
    }

    #[test]
    fn a_hint_names_those_that_may_be_meant() {
        let hint = "did you mean web (proc_0123456789ab)? `outlast list --all` lists all processes";
        let unknown = ClientError::Refused(outlast_client::Error::new(outlast_client::ErrorKind::Refusal, code::NOT_FOUND, "no", hint));
        assert_eq!(failed(Profile::Native, &unknown)["hint"], "did you mean web (proc_0123456789ab)? list() lists all processes");
    }

    #[test]
    fn case_228_actions_and_ids() {
        let all = "list, poll, log, wait, kill, write, submit, close";
        assert_eq!(refused(json!({"action": "dance"})), format!("Unknown process action: dance. Use: {all}"));
        assert_eq!(refused(json!({})), format!("action is required. Use: {all}"));
        for action in &ACTIONS[1..] {
            for id in [json!(null), json!(""), json!("  ")] {
                assert_eq!(refused(json!({"action": action, "session_id": id})), format!("session_id is required for {action}"));
            }
        }
        assert_eq!(
            ProcessCall::of(&json!({"action": "poll", "session_id": 1234})),
            Ok(ProcessCall::Poll { id: "1234".into(), tokens: None })
        );
        assert_eq!(ProcessCall::of(&json!({"action": " LIST ", "session_id": 7, "nonsense": {}})), Ok(ProcessCall::List));
    }

    #[test]
    fn numbers_that_make_no_sense_get_a_clear_answer() {
        let log = |more: Value| {
            let mut all = json!({"action": "log", "session_id": "proc_ab12"});
            all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            all
        };
        let page = |offset, limit| {
            let mut page = Page::default();
            (page.offset, page.limit) = (offset, limit);
            Ok(ProcessCall::Log { id: "proc_ab12".into(), page, tokens: None })
        };
        assert_eq!(ProcessCall::of(&log(json!({}))), page(None, None));
        assert_eq!(ProcessCall::of(&log(json!({"offset": null, "limit": null}))), page(None, None));
        assert_eq!(ProcessCall::of(&log(json!({"offset": "0", "limit": "5"}))), page(Some(0), Some(5)));
        assert_eq!(ProcessCall::of(&log(json!({"offset": 1e30, "limit": 1e30}))), page(Some(u64::MAX), Some(u64::MAX)));
        for bad in [json!(-1), json!("ten"), json!([]), json!(1.5)] {
            assert!(refused(log(json!({"offset": bad}))).contains("leave it out for the end"), "{bad}");
            assert!(refused(log(json!({"limit": bad}))).contains("limit must be a whole number from 1 on"), "{bad}");
            assert!(refused(json!({"action": "wait", "session_id": "x", "timeout": bad})).contains("timeout must be"), "{bad}");
        }
    }

    #[test]
    fn case_099_a_wait_of_nothing_is_an_error() {
        for bad in [json!(0), json!(-3), json!("0")] {
            assert!(
                refused(json!({"action": "wait", "session_id": "x", "timeout": bad}))
                    .starts_with("timeout must be a whole number from 1 on")
            );
        }
    }

    #[test]
    fn data_becomes_text() {
        for (data, want) in [(json!("é"), "é"), (json!(5), "5"), (json!(true), "true"), (json!(null), ""), (json!(["a"]), "[\"a\"]")] {
            let ask = ProcessCall::of(&json!({"action": "submit", "session_id": "x", "data": data}));
            assert_eq!(ask, Ok(ProcessCall::Write { id: "x".into(), data: want.into(), line: true }));
        }
    }

    #[test]
    fn a_list_shows_what_runs_and_what_ended_last() {
        let process = |n: u32, over: bool| -> ProcessInfo {
            let mut p = json!({
                "session_id": format!("proc_{n:012x}"), "command": "x", "status": if over { "exited" } else { "running" }, "phase": "running", "pid": 1, "cwd": "/",
                "started_at": "2023-11-14T22:13:20.000000Z", "uptime_seconds": 2, "output_bytes": 1,
            });
            if over {
                p["ended_at"] = format!("2023-11-14T22:{:02}:00.000000Z", 59 - n % 60).into();
            }
            serde_json::from_value(p).unwrap()
        };
        let all: Vec<_> = (0..10).map(|n| process(n, false)).chain((100..160).map(|n| process(n, true))).collect();
        assert_eq!(latest(all.clone()), (all.clone(), 0));
        let more: Vec<_> = all.iter().cloned().chain((200..210).map(|n| process(n, true))).collect();
        let (shown, left_out) = latest(more.clone());
        assert_eq!((shown.len(), left_out), (10 + limits::LIST_FINISHED, 6));
        let oldest = |p: &&ProcessInfo| p.fate.ended_at.is_some_and(|at| at.to_string().as_str() < "2023-11-14T22:06");
        assert_eq!((more.iter().filter(oldest).count(), shown.iter().filter(oldest).count()), (6, 0));
    }

    proptest! {
        #[test]
        fn any_arguments_are_read(arguments in crate::plan::any_call(&["action", "session_id", "data", "timeout", "offset", "limit", "max_output_tokens"])) {
            if let Err(refusal) = ProcessCall::of(&arguments) {
                prop_assert!(refusal["error"].is_string());
            }
        }
    }
}
