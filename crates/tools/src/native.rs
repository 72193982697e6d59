//! Our own tools: `run` and its companions. One call answers with the whole result or with a process to ask for later.

use crate::args::{Args, short};
use crate::on_delivered::OnDelivered;
use crate::plan::directory_in;
use crate::process::{ProcessCall, answer_of, failed, fields, id_of};
use crate::start::{Started, starting_to_tell, warn};
use crate::this_call::{CallWait, ThisCall};
use crate::timed_wait::{Left, WantedOutput, Yielded, begin, wait};
use crate::unchanged::UNCHANGED;
use crate::{Answer, Host, answer, cap, notices, unknown};
use outlast_client::{At, Client, ClientError, EnvVar, Fate, History, Kill, Page, ProcessInfo, Spec, Take, Tell, Time, Told, Waited};
use serde_json::{Map, Value, json};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

pub(crate) const NAMES: [&str; 7] = ["run", "wait", "log", "list", "kill", "write", "notices"];

/// How long `run` waits for an end by default.
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(10);
/// How many tokens of output an answer has by default.
pub(crate) const DEFAULT_TOKENS: usize = 2_500;
/// The most notices in one answer.
const MAX_NOTICES: u32 = 16;
/// How many delivered notices are read, to count those that are not shown.
const MAX_COUNTED_TOLD: u32 = 100;
/// Room for the note about notices that are not shown.
const TOLD_NOTE_CHARS: usize = 150;
/// A notice that was delivered longer ago is not shown again.
const MAX_TOLD_AGE: Duration = Duration::from_secs(24 * 3600);
/// How long a notice is leased for an answer that is being sent.
const NOTICE_LEASE: Duration = Duration::from_secs(60);

/// Answers a call.
pub(crate) async fn answer_to(
    client: &Client,
    host: &Host,
    (call, on_delivered): (&ThisCall, &OnDelivered),
    tool: &str,
    arguments: &Value,
) -> Answer {
    match read(tool, arguments, host) {
        Ok(asked) => asked.done(client, host, call, on_delivered).await.unwrap_or_else(|e| failed(host.profile, &e)),
        Err(refusal) => refusal,
    }
}

/// Checks the arguments of a call.
pub(crate) fn understood(tool: &str, arguments: &Value, host: &Host) -> Result<(), Answer> {
    read(tool, arguments, host).map(drop)
}

/// Whether a call runs a command that is expected to end, and waits for its end.
pub(crate) fn waits_for_end(tool: &str, arguments: &Value, host: &Host) -> bool {
    match read(tool, arguments, host) {
        Ok(NativeCall::Run { spec, wait, .. }) => !wait.most.is_zero() && spec.tell.watch.is_empty(),
        Ok(_) | Err(_) => false,
    }
}

fn read(tool: &str, arguments: &Value, host: &Host) -> Result<NativeCall, Answer> {
    match Args::of(arguments).and_then(|args| NativeCall::of(tool, &args, host)) {
        Ok(Some(call)) => Ok(call),
        Ok(None) => Err(unknown(tool, &NAMES)),
        Err(error) => Err(answer([("error", error.into())])),
    }
}

/// A parsed call.
#[derive(Debug)]
enum NativeCall {
    Run { spec: Box<Spec>, wait: CallWait, limited: Option<String>, tokens: usize },
    Wait { id: String, wait: CallWait, limited: Option<String>, tokens: usize },
    Process(ProcessCall),
    Write { id: String, text: String, close: bool },
    Notices { wait: Duration, told: bool },
}

impl NativeCall {
    /// `None` if there is no such tool.
    fn of(tool: &str, args: &Args<'_>, host: &Host) -> Result<Option<Self>, String> {
        let id = || match args.text("process").unwrap_or_default().trim() {
            "" => Err(format!("process is required for {tool}: the name that run answered with")),
            id => Ok(id.to_owned()),
        };
        let tokens = || args.size("max_output_tokens").map(|n| n.unwrap_or(DEFAULT_TOKENS));
        Ok(Some(match tool {
            "run" => Self::run(args, host)?,
            "wait" => {
                let (wait, limited) = wait_of(args, "seconds", host.usual_wait(host.wait_limit), host.wait_limit)?;
                Self::Wait { id: id()?, wait, limited, tokens: tokens()? }
            }
            "log" => {
                let mut page = Page::default();
                (page.offset, page.limit) = (args.whole("offset", 0)?, args.whole("limit", 1)?);
                let tokens = args.size("max_output_tokens")?.or((page == Page::default()).then_some(DEFAULT_TOKENS));
                Self::Process(ProcessCall::Log { id: id()?, page, tokens })
            }
            "list" => Self::Process(ProcessCall::List),
            "kill" => {
                let how = args.whole("grace_seconds", 0)?.map_or_else(Kill::default, |s| Kill::within(Duration::from_secs(s)));
                Self::Process(ProcessCall::Kill { id: id()?, how, tokens: Some(tokens()?) })
            }
            "write" => {
                let (mut text, close) = (args.text("text").unwrap_or_default(), args.flag("close")?);
                if args.flag("enter")? {
                    text.push('\n');
                }
                if text.is_empty() && !close {
                    return Err("nothing to write: give text, enter=true for a newline, or close=true to end the input".into());
                }
                Self::Write { id: id()?, text, close }
            }
            "notices" => Self::Notices { wait: time(args, "wait_seconds", Duration::ZERO)?.min(host.wait_limit), told: args.flag("told")? },
            _ => return Ok(None),
        }))
    }

    fn run(args: &Args<'_>, host: &Host) -> Result<Self, String> {
        let mut spec = match args.get("command") {
            Some(Value::String(line)) if !line.trim().is_empty() => Spec::shell(line.as_str()),
            Some(Value::Array(_)) => {
                let words = args.texts("command")?;
                if words.is_empty() {
                    return Err("command is empty: a program and its arguments, or a shell line".into());
                }
                Spec::argv(words)
            }
            _ => return Err("command is required: a shell line, or a list of a program and its arguments".into()),
        };
        let (wait, limited) = wait_of(args, "wait_seconds", host.usual_wait(DEFAULT_WAIT), host.foreground_limit)?;
        let notify = args.get("notify").is_none() || args.flag("notify")?;
        let mut tell = Tell::default();
        if host.can_notify {
            tell.completion = notify;
            tell.watch = args.texts("watch")?;
        }
        if !tell.is_nothing() {
            tell.unless_waited_for = tell.completion && !wait.most.is_zero();
            tell.route = host.route.clone();
        }
        spec = spec.telling(tell);
        spec.cwd = directory_in(args, "cwd", host)?;
        spec.pty = args.flag("pty")?;
        if args.flag("input")? && !spec.pty {
            spec = spec.with_input();
        }
        spec.timeout = args.whole("timeout_seconds", 1)?.map(Duration::from_secs);
        spec.name = args.text("name").filter(|name| !name.trim().is_empty());
        for EnvVar { name, value } in env(args)? {
            spec = spec.with_env(name, value);
        }
        Ok(Self::Run { spec: Box::new(spec), wait, limited, tokens: args.size("max_output_tokens")?.unwrap_or(DEFAULT_TOKENS) })
    }

    async fn done(self, client: &Client, host: &Host, call: &ThisCall, on_delivered: &OnDelivered) -> Result<Answer, ClientError> {
        match self {
            Self::Run { spec, wait: asked, limited, tokens } => {
                let info = match begin(client, host, call, &spec, asked).await {
                    Ok(Started::Running(info)) => info,
                    Ok(Started::UnderWay(id)) => return Ok(renamed(starting_to_tell(id, &spec.tell))),
                    Err(failure) => return Ok(renamed(failure.told("Failed to start the command"))),
                };
                let id = info.session_id.to_string();
                if asked.most.is_zero() {
                    return Ok(running(&info, &spec.tell, host));
                }
                let yielded = wait(client, host, &id, call.left_of(asked), WantedOutput { from: Some(0), tokens }).await?;
                match yielded.ended.is_some() {
                    true => Ok(at_once(client, host, yielded).await),
                    false => {
                        let mut all = running(&info, &spec.tell, host);
                        limited.iter().for_each(|note| cap::add_note(&mut all, note));
                        put(&mut all, &yielded);
                        Ok(all)
                    }
                }
            }
            Self::Wait { id, wait: asked, limited, tokens } => {
                let id = id_of(client, call, &id).await?;
                let yielded = wait(client, host, &id, call.left_of(asked), WantedOutput { from: Some(0), tokens }).await?;
                if yielded.ended.is_some() {
                    // The caller knows its id, which may be a task's, so the process stays and can be asked for again.
                    let mut all = over(&yielded);
                    if let Some(Waited { left, .. }) = yielded.ended.as_ref().filter(|waited| !waited.left.is_empty()) {
                        all.insert("note".into(), host.profile.left_running(&yielded.id, left).into());
                    }
                    all.insert("process".into(), yielded.id.into());
                    return Ok(all);
                }
                let mut all = answer([("process", yielded.id.as_str().into()), ("status", "running".into())]);
                put(&mut all, &yielded);
                all.insert("note".into(), "Still running. You need not wait: go on, and its end will be told.".into());
                limited.iter().for_each(|note| cap::add_note(&mut all, note));
                Ok(all)
            }
            Self::Process(ask) => Ok(renamed(answer_of(client, host, call, ask).await)),
            Self::Write { id, text, close } => {
                let id = id_of(client, call, &id).await?;
                let mut all = Answer::new();
                if !text.is_empty() {
                    all.extend(fields(&client.write(&id, text.as_bytes(), At::End).await?));
                }
                if close {
                    all.extend(fields(&client.close(&id).await?));
                }
                Ok(renamed(all))
            }
            Self::Notices { wait, told } => {
                let take = Take::default().limit(MAX_NOTICES).lease(NOTICE_LEASE).wait_at_most(wait).asked();
                let due = client.take(&take).await?.notices;
                let mut all = Answer::new();
                let given = notices::put(&mut all, &due, notices::asked_for, host.result_chars);
                on_delivered.told(&due, given).await;
                if told {
                    add_told(client, &mut all, host.result_chars).await?;
                }
                Ok(all)
            }
        }
    }
}

/// Adds the notices that were delivered in the last day in front of those of an answer, as many of the newest as fit, and notes how many are
/// left out.
async fn add_told(client: &Client, all: &mut Answer, most: usize) -> Result<(), ClientError> {
    let wanted = History::default().in_state("delivered").newest_first().limit(MAX_COUNTED_TOLD);
    let since = (SystemTime::now() - MAX_TOLD_AGE).duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros());
    let found = client.history(wanted).await?;
    let is_all = found.len() < MAX_COUNTED_TOLD as usize;
    let is_recent = |at: &Time| u128::try_from(at.micros()).is_ok_and(|at| at >= since);
    let told: Vec<(Told, Time)> = found.into_iter().filter_map(|one| one.settled_at.filter(is_recent).map(|at| (one, at))).collect();
    let newest = &told[..told.len().min(MAX_NOTICES as usize)];
    let left_out = told.len() - notices::put_told(all, newest, most.saturating_sub(TOLD_NOTE_CHARS));
    if left_out > 0 {
        let (least, s) = (if is_all { "" } else { "at least " }, if left_out == 1 { "" } else { "s" });
        let note = format!("{least}{left_out} older notice{s} not shown; `outlast events history --state delivered` shows all");
        cap::add_note(all, &note);
    }
    Ok(())
}

/// The answer for a process that has ended.
fn over(done: &Yielded) -> Answer {
    let mut all = answer([("status", "exited".into())]);
    put(&mut all, done);
    if let Some(waited) = &done.ended {
        all.extend(how(&waited.fate));
        if !waited.left.is_empty() {
            all.insert("left".into(), json!(waited.left));
        }
    }
    all.entry("exit_code").or_insert(Value::Null);
    all
}

/// The answer for a process that ended while the call that started it waited. If its whole output was answered, it is set aside: no caller
/// knows its id.
async fn at_once(client: &Client, host: &Host, done: Yielded) -> Answer {
    let mut all = over(&done);
    let Some(ended) = &done.ended else { return all };
    if Left::of(client, host, &done.id, &ended.left, done.output.cut).await.told(host.profile, &done.id, &mut all) {
        all.insert("process".into(), done.id.into());
    }
    all
}

/// How a process ended, without empty fields.
pub(crate) fn how(fate: &Fate) -> Answer {
    fields(fate).into_iter().filter(|(_, value)| !value.is_null() && value != "").collect()
}

/// The answer for a process that keeps running.
fn running(info: &ProcessInfo, tell: &Tell, host: &Host) -> Answer {
    let next = match (tell.completion, host.can_notify) {
        (true, _) => {
            "It keeps running in the background: do not run it again. Go on with something else, its end will be told. Do not poll."
        }
        (false, true) => "Nobody will be told of its end: look with log when you need to.",
        (false, false) => "This host cannot tell you of its end: ask with wait or log.",
    };
    let mut all = answer([
        ("process", json!(info.session_id)),
        ("status", "running".into()),
        ("pid", json!(info.pid)),
        ("notify", tell.completion.into()),
        ("note", next.into()),
    ]);
    if !tell.watch.is_empty() {
        all.insert("watch".into(), json!(tell.watch));
    }
    warn(&mut all, info);
    all
}

fn put(all: &mut Answer, done: &Yielded) {
    all.insert("output".into(), done.output.text.as_str().into());
    if done.output.cut {
        all.insert("output_cut".into(), true.into());
    }
    if !done.output.gaps.is_empty() {
        all.insert("gaps".into(), json!(done.output.gaps));
    }
    all.insert("waited_seconds".into(), json!((done.took.as_secs_f64() * 1_000.0).round() / 1_000.0));
}

/// Renames `session_id` to `process`, as these tools call it.
pub(crate) fn renamed(mut all: Answer) -> Answer {
    if let Some(id) = all.remove("session_id") {
        all.insert("process".into(), id);
    }
    if let Some(Value::Array(processes)) = all.get_mut("processes") {
        for one in processes.iter_mut().filter_map(Value::as_object_mut) {
            if let Some(id) = one.remove("session_id") {
                one.insert("process".into(), id);
            }
        }
    }
    all
}

/// How long a call waits, and the note if it asks for more than it may have.
fn wait_of(args: &Args<'_>, name: &str, usual: Duration, most: Duration) -> Result<(CallWait, Option<String>), String> {
    let asked = time(args, name, usual)?;
    Ok((CallWait { most: asked.min(most), is_named: args.has(name) }, over_limit(name, asked, most)))
}

/// The note if a call asks for a longer wait than it may have.
fn over_limit(name: &str, asked: Duration, most: Duration) -> Option<String> {
    (asked > most).then(|| format!("{name} is at most {}", most.as_secs()))
}

/// A time in seconds, which may have a fraction.
fn time(args: &Args<'_>, name: &str, usual: Duration) -> Result<Duration, String> {
    let Some(text) = args.text(name).filter(|text| !text.trim().is_empty()) else { return Ok(usual) };
    let seconds = text.trim().parse().ok().filter(|s: &f64| !s.is_nan() && *s >= 0.0);
    let seconds = seconds.ok_or_else(|| format!("{name} must be a number of seconds from 0 on, got {:?}", short(&text)))?;
    Ok(Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX))
}

/// Variables, as an object of names and values.
fn env(args: &Args<'_>) -> Result<Vec<EnvVar>, String> {
    let wrong = |got: &Value| format!("env must be an object of names and texts, got {}", crate::args::shown(got));
    let given: Map<String, Value> = match args.get("env") {
        None => return Ok(Vec::new()),
        Some(Value::Object(given)) => given.clone(),
        Some(Value::String(text)) => serde_json::from_str(text).map_err(|_| wrong(&Value::String(text.clone())))?,
        Some(other) => return Err(wrong(other)),
    };
    let one = |(name, value): (String, Value)| {
        let value = match value {
            Value::String(text) => text,
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            other => return Err(format!("env.{name} must be a text, got {}", crate::args::type_name(Some(&other)))),
        };
        Ok(EnvVar { name: name.into(), value: value.into() })
    };
    given.into_iter().map(one).collect()
}

/// A description of how the process of an answer ended.
pub(crate) fn ending(all: &Answer) -> String {
    let word = |name: &str| all.get(name).and_then(Value::as_str);
    match (word("start_error"), word("signal"), all.get("exit_code").and_then(Value::as_i64)) {
        (Some(why), ..) => format!("failed to start: {why}"),
        (None, Some(signal), _) => format!("ended by {signal}"),
        (None, None, Some(code)) => format!("exited with code {code}"),
        (None, None, None) => "ended; its exit status is unknown".to_owned(),
    }
}

/// The answer as text, for a model: the output, and the other facts in brackets after it.
pub(crate) fn text(all: &Answer) -> Option<String> {
    if all.contains_key(cap::NOTICES_FIELD) {
        return Some("[no notices]".into());
    }
    let known = |name: &str| all.get(name).filter(|v| !v.is_null());
    let word = |name: &str| known(name).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
    let (status, output) = (word("status")?, all.get("output").and_then(Value::as_str)?);
    let mut said = Vec::new();
    match status.as_str() {
        "exited" | "killed" | "already_exited" => said.push(ending(all)),
        other => said.push(other.to_owned()),
    }
    if known(UNCHANGED).is_some() {
        said.push("unchanged: nothing new since your last look".to_owned());
    }
    for name in ["process", "name", "completion_reason", "termination_source", "showing", "total_lines", "error", "hint", "note", "warning"]
    {
        if let Some(word) = word(name).filter(|word| !(word.is_empty() || name == "completion_reason" && word == "exited")) {
            said.push(if ["note", "error", "warning"].contains(&name) { word } else { format!("{name}: {word}") });
        }
    }
    if let Some(Value::Array(warnings)) = known("warnings") {
        said.extend(warnings.iter().filter_map(|w| w.as_str().map(str::to_owned)));
    }
    let gap = if output.is_empty() { "" } else { "\n" };
    Some(format!("{}{gap}[{}]", output.trim_end_matches('\n'), said.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::caller;
    use proptest::prelude::*;

    fn host() -> Host {
        Host { profile: crate::Profile::Native, ..Host::new(caller([], std::path::Path::new("/work"))) }
    }

    fn read(tool: &str, arguments: Value) -> Result<Option<NativeCall>, String> {
        NativeCall::of(tool, &Args::of(&arguments).unwrap(), &host())
    }

    #[test]
    fn a_run_says_what_it_wants() {
        let Ok(Some(NativeCall::Run { spec, wait, tokens, .. })) = read("run", json!({"command": "make"})) else { panic!("no run") };
        assert_eq!((wait.most, tokens), (DEFAULT_WAIT, DEFAULT_TOKENS));
        assert!(spec.tell.completion && spec.tell.unless_waited_for && !spec.pty);
        let call = json!({"command": ["ls", "-l"], "wait_seconds": 0, "notify": false, "watch": "READY", "cwd": "sub", "env": {"A": 1}, "timeout_seconds": "60"});
        let Ok(Some(NativeCall::Run { spec, wait, .. })) = read("run", call) else { panic!("no run") };
        assert_eq!(
            (wait.most, spec.tell.watch.as_slice(), spec.timeout),
            (Duration::ZERO, &["READY".to_owned()][..], Some(Duration::from_secs(60)))
        );
        assert!(!spec.tell.completion && !spec.tell.unless_waited_for);
        assert_eq!(spec.cwd.as_ref().map(|dir| dir.to_lossy().into_owned()).as_deref(), Some("/work/sub"));
    }

    #[test]
    fn a_longer_wait_than_there_is_says_so() {
        for (seconds, want) in [(600, None), (601, Some("wait_seconds is at most 600"))] {
            let Ok(Some(NativeCall::Run { wait, limited, .. })) = read("run", json!({"command": "x", "wait_seconds": seconds})) else {
                panic!("no run")
            };
            assert_eq!((wait.most.as_secs(), limited.as_deref()), (600, want));
        }
        let Ok(Some(NativeCall::Wait { wait, limited, .. })) = read("wait", json!({"process": "x", "seconds": 1e30})) else {
            panic!("no wait")
        };
        assert_eq!((wait.most.as_secs(), limited.as_deref()), (180, Some("seconds is at most 180")));
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        for (tool, arguments, want) in [
            ("run", json!({}), "command is required"),
            ("run", json!({"command": []}), "command is empty"),
            ("run", json!({"command": "x", "wait_seconds": "soon"}), "wait_seconds must be a number of seconds"),
            ("run", json!({"command": "x", "wait_seconds": -1}), "wait_seconds must be a number of seconds"),
            ("run", json!({"command": "x", "env": ["A=1"]}), "env must be an object"),
            ("run", json!({"command": "x", "env": {"A": []}}), "env.A must be a text"),
            ("wait", json!({}), "process is required for wait"),
            ("kill", json!({"process": " "}), "process is required for kill"),
            ("write", json!({"process": "proc_ab12"}), "nothing to write"),
        ] {
            let error = read(tool, arguments.clone()).unwrap_err();
            assert!(error.starts_with(want), "{tool} {arguments}: {error}");
        }
        assert!(read("dance", json!({})).unwrap().is_none());
    }

    #[test]
    fn a_model_reads_output_as_it_is() {
        let all = |value: Value| value.as_object().unwrap().clone();
        let text = |all: &Answer| super::text(all).unwrap_or_default();
        assert_eq!(
            text(&all(json!({"status": "exited", "exit_code": 3, "termination_source": "", "output": "a\nb\n"}))),
            "a\nb\n[exited with code 3]"
        );
        assert_eq!(
            text(&all(json!({"status": "running", "process": "proc_ab12000000ff", "output": "", "note": "Go on."}))),
            "[running; process: proc_ab12000000ff; Go on.]"
        );
        assert_eq!(
            text(&all(json!({"status": "exited", "exit_code": null, "completion_reason": "lost", "output": ""}))),
            "[ended; its exit status is unknown; completion_reason: lost]"
        );
        assert_eq!(
            text(&all(json!({"status": "exited", "exit_code": null, "start_error": "no such file", "output": ""}))),
            "[failed to start: no such file]"
        );
        let warned = json!({"status": "killed", "exit_code": null, "output": "", "warning": "descendants may remain"});
        assert!(text(&all(warned)).ends_with("; descendants may remain]"));
        assert_eq!(text(&all(json!({"notices": []}))), "[no notices]");
        assert_eq!(super::text(&all(json!({"error": "no"}))), None, "JSON");
    }

    proptest! {
        #[test]
        fn any_arguments_are_read(call in crate::plan::any_call(&["command", "process", "wait_seconds", "seconds", "env", "watch", "notify", "text", "close", "offset", "limit"])) {
            if let Ok(args) = Args::of(&call) {
                for tool in NAMES {
                    let _either = NativeCall::of(tool, &args, &host());
                }
            }
        }
    }
}
