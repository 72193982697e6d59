//! `exec_command` and `write_stdin`: run a command, and get its new output later.

use crate::args::{Args, short};
use crate::cursors::ConversationCursors;
use crate::native::{ending, how};
use crate::on_delivered::OnDelivered;
use crate::plan::directory_in;
use crate::process::failed;
use crate::start::{STARTING, Started, starting_to_tell};
use crate::this_call::{CallWait, ThisCall};
use crate::timed_wait::{Left, WantedOutput, Yielded, begin, wait};
use crate::unchanged::UNCHANGED;
use crate::{Answer, Host, answer, unknown};
use outlast_client::{At, Client, ClientError, ProcessId, Spec, Tell, code};
use outlast_text::count_tokens;
use serde_json::{Value, json};
use std::time::Duration;

pub(crate) const EXEC: &str = "exec_command";
pub(crate) const STDIN: &str = "write_stdin";

/// How long a call waits by default, and the limits of what it may ask for.
pub(crate) const DEFAULT_WAIT: Duration = Duration::from_secs(10);
const MIN_WAIT: Duration = Duration::from_millis(250);
const MAX_WAIT: Duration = Duration::from_secs(30);
/// The limits for a call that writes nothing. It waits for the shortest time by default.
const MIN_POLL_WAIT: Duration = Duration::from_secs(5);
const MAX_POLL_WAIT: Duration = Duration::from_secs(300);
/// How long a call that writes waits by default.
const DEFAULT_WRITE_WAIT: Duration = MIN_WAIT;
/// How many tokens of output an answer has by default.
pub(crate) const DEFAULT_TOKENS: usize = 10_000;
/// The tokens of longer output are estimated: four bytes are about one token.
const MAX_COUNTED_BYTES: usize = 256 << 10;
/// The character that Ctrl-C sends in a terminal.
const INTERRUPT: &str = "\u{3}";

/// Answers a call.
pub(crate) async fn answer_to(
    client: &Client,
    host: &Host,
    (call, cursors, on_delivered): (&ThisCall, &ConversationCursors, &OnDelivered),
    tool: &str,
    arguments: &Value,
) -> Answer {
    let done = match CodexCall::of(tool, arguments, host) {
        Err(refusal) => return refusal,
        Ok(CodexCall::Exec(exec)) => exec.done(client, host, call, on_delivered).await,
        Ok(CodexCall::Stdin(stdin)) => {
            call.about.set(stdin.process);
            stdin.done(client, host, (call, cursors, on_delivered)).await
        }
    };
    done.unwrap_or_else(|e| failed(host.profile, &e))
}

/// Checks the arguments of a call.
pub(crate) fn understood(tool: &str, arguments: &Value, host: &Host) -> Result<(), Answer> {
    CodexCall::of(tool, arguments, host).map(drop)
}

/// A parsed call.
enum CodexCall {
    Exec(Box<Exec>),
    Stdin(Stdin),
}

impl CodexCall {
    fn of(tool: &str, arguments: &Value, host: &Host) -> Result<Self, Answer> {
        let read = match tool {
            EXEC => Exec::of(arguments, host).map(Box::new).map(Self::Exec),
            STDIN => Stdin::of(arguments, host).map(Self::Stdin),
            other => return Err(unknown(other, &[EXEC, STDIN])),
        };
        read.map_err(|error| answer([("error", error.into())]))
    }
}

/// A parsed call of `exec_command`.
#[derive(Debug)]
struct Exec {
    spec: Spec,
    wait: CallWait,
    tokens: usize,
}

impl Exec {
    fn of(arguments: &Value, host: &Host) -> Result<Self, String> {
        let args = Args::of(arguments)?;
        let cmd = args.text("cmd").or_else(|| args.text("command")).unwrap_or_default();
        if cmd.trim().is_empty() {
            return Err("cmd is required: the shell line to run".into());
        }
        let mut tell = Tell::default();
        if host.can_notify {
            tell = Tell::end().to(host.route.clone());
            tell.unless_waited_for = true;
        }
        let mut spec = Spec::shell(cmd.as_str()).telling(tell);
        spec.pty = args.flag("tty")?;
        spec.cwd = directory_in(&args, "workdir", host)?;
        Ok(Self { spec, wait: yielded(&args, host.usual_wait(DEFAULT_WAIT), MIN_WAIT, MAX_WAIT)?, tokens: tokens(&args)? })
    }

    async fn done(self, client: &Client, host: &Host, call: &ThisCall, on_delivered: &OnDelivered) -> Result<Answer, ClientError> {
        let info = match begin(client, host, call, &self.spec, self.wait).await {
            Ok(Started::Running(info)) => info,
            Ok(Started::UnderWay(id)) => return Ok(with_number(starting_to_tell(id, &self.spec.tell), id)),
            Err(failure) => return Ok(failure.told("Failed to start the command")),
        };
        let wanted = WantedOutput { from: Some(0), tokens: self.tokens };
        let yielded = wait(client, host, &info.session_id.to_string(), call.left_of(self.wait), wanted).await?;
        told(client, host, on_delivered, info.session_id, yielded).await
    }
}

/// A parsed call of `write_stdin`.
#[derive(Debug)]
struct Stdin {
    process: ProcessId,
    chars: String,
    wait: CallWait,
    tokens: usize,
}

impl Stdin {
    fn of(arguments: &Value, host: &Host) -> Result<Self, String> {
        let args = Args::of(arguments)?;
        let given = args.text("session_id").unwrap_or_default();
        let process = process_of(given.trim())
            .ok_or_else(|| format!("session_id must be the number that exec_command answered with, got {:?}", short(given.trim())))?;
        let chars = args.text("chars").unwrap_or_default();
        let wait = match chars.is_empty() {
            true => {
                let least = host.usual_wait(MIN_POLL_WAIT);
                yielded(&args, least, least, MAX_POLL_WAIT)?
            }
            false => yielded(&args, DEFAULT_WRITE_WAIT, MIN_WAIT, MAX_WAIT)?,
        };
        Ok(Self { process, chars, wait, tokens: tokens(&args)? })
    }

    async fn done(
        self,
        client: &Client,
        host: &Host,
        (call, cursors, on_delivered): (&ThisCall, &ConversationCursors, &OnDelivered),
    ) -> Result<Answer, ClientError> {
        let id = self.process.to_string();
        match self.write(client, &id).await {
            // The answer shows its output and how it ended.
            Err(e) if e.code() == code::ALREADY_EXITED => {}
            written => written?,
        }
        let wanted = WantedOutput { from: cursors.get(self.process), tokens: self.tokens };
        let yielded = wait(client, host, &id, call.left_of(self.wait), wanted).await?;
        let is_unchanged =
            self.chars.is_empty() && wanted.from.is_some_and(|from| from == yielded.whole.next_byte) && yielded.ended.is_none();
        let mut all = told(client, host, on_delivered, self.process, yielded).await?;
        if is_unchanged {
            all.insert(UNCHANGED.into(), true.into());
        }
        Ok(all)
    }

    async fn write(&self, client: &Client, id: &str) -> Result<(), ClientError> {
        if self.chars.is_empty() {
            return Ok(());
        }
        let written = client.write(id, self.chars.as_bytes(), At::End).await;
        if self.chars == INTERRUPT && written.as_ref().is_err_and(|e| e.code() == code::NO_INPUT) {
            // Without a terminal, Ctrl-C means the signal.
            client.signal(id, SIGINT).await?;
            return Ok(());
        }
        written.map(drop)
    }
}

const SIGINT: i32 = 2;

/// The answer to both tools.
async fn told(client: &Client, host: &Host, on_delivered: &OnDelivered, process: ProcessId, done: Yielded) -> Result<Answer, ClientError> {
    let Yielded { id, ended, output, whole, took } = done;
    on_delivered.read(process, whole.next_byte);
    let counted = if whole.text.len() <= MAX_COUNTED_BYTES { count_tokens(&whole.text) } else { whole.text.len() / 4 };
    let mut all = answer([
        ("chunk_id", chunk_id(process, whole.next_byte).into()),
        ("wall_time_seconds", json!((took.as_secs_f64() * 10_000.0).round() / 10_000.0)),
        ("original_token_count", counted.into()),
        ("output", output.text.into()),
    ]);
    if !output.gaps.is_empty() {
        all.insert("gaps".into(), json!(output.gaps));
    }
    let Some(waited) = ended else {
        all.insert("session_id".into(), number_of(process).into());
        all.insert("process".into(), id.into());
        return Ok(all);
    };
    all.insert("exit_code".into(), json!(waited.fate.exit_code.flatten()));
    let kept = ["signal", "completion_reason", "termination_source", "start_error"];
    all.extend(how(&waited.fate).into_iter().filter(|(name, value)| kept.contains(&name.as_str()) && value != "exited"));
    if Left::of(client, host, &id, &waited.left, output.cut).await.told(host.profile, &id, &mut all) {
        all.insert("process".into(), id.into());
    }
    Ok(all)
}

/// An answer that names a process by its number.
pub(crate) fn with_number(mut all: Answer, id: ProcessId) -> Answer {
    all.insert("process".into(), json!(id));
    all.insert("session_id".into(), number_of(id).into());
    all
}

fn yielded(args: &Args<'_>, usual: Duration, least: Duration, most: Duration) -> Result<CallWait, String> {
    let asked = args.whole("yield_time_ms", 0)?.map(Duration::from_millis);
    Ok(CallWait { most: asked.unwrap_or(usual).clamp(least, most), is_named: asked.is_some() })
}

fn tokens(args: &Args<'_>) -> Result<usize, String> {
    Ok(args.size("max_output_tokens")?.unwrap_or(DEFAULT_TOKENS))
}

/// The number with which these tools name a process: the twelve digits of its id, so that it means the same to every server for as long as
/// the process is kept.
pub(crate) fn number_of(process: ProcessId) -> u64 {
    let name = process.to_string();
    u64::from_str_radix(name.trim_start_matches("proc_"), 16).unwrap_or_default()
}

/// The process with this number or id.
pub(crate) fn process_of(given: &str) -> Option<ProcessId> {
    if let Ok(id) = given.parse() {
        return Some(id);
    }
    let number =
        given.parse::<u64>().ok().or_else(|| given.parse::<f64>().ok().filter(|n| n.fract() == 0.0 && *n >= 0.0).map(|n| n as u64));
    number.filter(|n| *n < 1 << 48).and_then(|n| format!("proc_{n:012x}").parse().ok())
}

/// An id for the output of an answer. It is the same for the same process and byte.
fn chunk_id(process: ProcessId, byte: u64) -> String {
    format!("{:06x}", (number_of(process) ^ byte.wrapping_mul(0x9e37_79b9)) & 0xff_ffff)
}

/// The answer as text, for a model.
pub(crate) fn text(all: &Answer) -> Option<String> {
    let Some(output) = all.get("output").and_then(Value::as_str).filter(|_| all.contains_key("chunk_id")) else {
        let word = |name: &str| all.get(name).and_then(Value::as_str);
        if let (Some(STARTING), Some(number), Some(note)) = (word("status"), all.get("session_id"), word("note")) {
            return Some(format!("Process starting with session ID {number}\nNote: {note}"));
        }
        return word("error").map(|error| word("hint").map_or_else(|| error.to_owned(), |hint| format!("{error} ({hint})")));
    };
    let field = |name: &str| all.get(name).map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).unwrap_or_default();
    let state = match all.get("session_id") {
        Some(number) => format!("Process running with session ID {number}"),
        None => format!("Process {}", ending(all)),
    };
    let note = match all.contains_key(UNCHANGED) {
        true => "Note: unchanged, there is no new output\n".to_owned(),
        false => all.get("note").and_then(Value::as_str).map(|note| format!("Note: {note}\n")).unwrap_or_default(),
    };
    Some(format!(
        "Chunk ID: {}\nWall time: {} seconds\n{state}\nOriginal token count: {}\n{note}Output:\n{output}",
        field("chunk_id"),
        field("wall_time_seconds"),
        field("original_token_count"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::caller;
    use proptest::prelude::*;

    fn host() -> Host {
        Host { profile: crate::Profile::Codex, ..Host::new(caller([], std::path::Path::new("/work"))) }
    }

    #[test]
    fn times_are_kept_within_what_codex_allows() {
        let exec = |ms: Value| Exec::of(&json!({"cmd": "ls", "yield_time_ms": ms}), &host()).unwrap().wait.most.as_millis();
        assert_eq!([exec(Value::Null), exec(json!(1)), exec(json!("2000")), exec(json!(90_000))], [10_000, 250, 2_000, 30_000]);
        let stdin = |chars: &str, ms: Value| {
            Stdin::of(&json!({"session_id": 7, "chars": chars, "yield_time_ms": ms}), &host()).unwrap().wait.most.as_millis()
        };
        assert_eq!([stdin("", Value::Null), stdin("", json!(10)), stdin("", json!(900_000))], [5_000, 5_000, 300_000]);
        assert_eq!([stdin("y\n", Value::Null), stdin("y\n", json!(90_000))], [250, 30_000]);
    }

    #[test]
    fn what_cannot_be_meant_is_said() {
        assert!(Exec::of(&json!({"cmd": " "}), &host()).unwrap_err().starts_with("cmd is required"));
        for bad in [json!(null), json!("x"), json!(-1), json!(1.5), json!(1u64 << 48)] {
            let error = Stdin::of(&json!({"session_id": bad}), &host()).unwrap_err();
            assert!(error.starts_with("session_id must be the number"), "{error}");
        }
        assert!(Exec::of(&json!({"cmd": "ls", "workdir": "a;b"}), &host()).unwrap_err().contains("workdir contains ';'"));
    }

    proptest! {
        #[test]
        fn a_number_is_a_process_and_back(bytes in any::<[u8; 6]>()) {
            let id = ProcessId::from_bytes(bytes);
            prop_assert_eq!(process_of(&number_of(id).to_string()), Some(id));
            prop_assert_eq!(process_of(&id.to_string()), Some(id));
            // As models and JSON libraries may write it.
            prop_assert_eq!(process_of(&format!("{:.1}", number_of(id) as f64)), Some(id));
        }

        #[test]
        fn any_arguments_are_read(call in crate::plan::any_call(&["cmd", "session_id", "chars", "workdir", "tty", "yield_time_ms", "max_output_tokens"])) {
            let _either = (Exec::of(&call, &host()).is_ok(), Stdin::of(&call, &host()).is_ok());
        }
    }
}
