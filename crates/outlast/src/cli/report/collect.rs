//! What a report is made of. Each part is there whatever is wrong with the others.

use super::super::{Context, Failure, doctor, engine, times};
use super::mask::Mask;
use super::{Entry, configuration};
use crate::os;
use outlast_client::{Client, History, Owner, ProcessInfo, Scope};
use serde_json::json;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::time::Duration;

/// How long an engine may take for one answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How much of the end of a log is taken.
const LOG_BYTES: u64 = 128 << 10;
/// How many processes are listed, the newest.
const MAX_PROCESSES: usize = 500;
/// How many notices of a state are counted.
const MAX_COUNTED: u32 = 1_000;
/// How many files of the home are looked at.
const MAX_FILES: usize = 100_000;
/// The states of a notice, as `events history` shows them.
const STATES: [&str; 7] = ["pending", "seen", "leased", "delivered", "consumed", "superseded", "dropped"];

/// All parts. `has_commands`: whether commands and names of processes are among them.
pub(super) async fn everything(ctx: &Context, mask: &Mask, has_commands: bool) -> Vec<Entry> {
    let client = client(ctx).await;
    let file = std::fs::read(&ctx.settings.file).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let home = &ctx.settings.home;
    vec![
        Entry { name: "doctor.txt", about: "what `outlast doctor --quick` finds", text: mask.text(&doctor(ctx, &client).await) },
        Entry { name: "machine.txt", about: "kernel, container, file system, limits", text: mask.text(&machine(home)) },
        Entry {
            name: "config.txt",
            about: "settings; no values of secrets",
            text: configuration::shown(&ctx.settings, file.as_deref(), mask),
        },
        Entry { name: "engine.log", about: "the end of the engine's log, masked", text: log(home, "engine.log", mask) },
        Entry { name: "gateway.log", about: "the end of the gateway's log, masked", text: log(home, "gateway.log", mask) },
        Entry {
            name: "processes.json",
            about: if has_commands { "processes with masked commands, no output" } else { "processes without commands, no output" },
            text: processes(home, &client, mask, has_commands).await,
        },
        Entry { name: "notices.txt", about: "how many notices are in which state", text: mask.text(&notices(&client).await) },
        Entry { name: "home.txt", about: "sizes of what is in the home", text: mask.text(&sizes(home)) },
    ]
}

/// The engine that runs, as a user without a session sees it. None is started.
async fn client(ctx: &Context) -> Result<Client, Failure> {
    match within(engine::running(ctx)).await? {
        Some(client) => Ok(client.with_owner(Owner::default())),
        None => Err(Failure::refused("no engine runs", "")),
    }
}

/// An answer, or that there was none in time.
async fn within<T, E: Into<Failure>>(answer: impl Future<Output = Result<T, E>>) -> Result<T, Failure> {
    match tokio::time::timeout(ANSWER_TIMEOUT, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => Err(Failure::refused(format!("the engine did not answer within {} s", ANSWER_TIMEOUT.as_secs()), "")),
    }
}

async fn doctor(ctx: &Context, client: &Result<Client, Failure>) -> String {
    let found = match client {
        Ok(client) => within(doctor::ask(client)).await,
        Err(e) => Err(Failure::refused(e.error(), "")),
    };
    doctor::looked_at(ctx, &found)
}

fn machine(home: &Path) -> String {
    let place = os::Surroundings::here();
    let mut facts = vec![
        ("outlast", env!("CARGO_PKG_VERSION").to_owned()),
        ("target", format!("{} {}", std::env::consts::ARCH, if cfg!(target_env = "musl") { "musl" } else { "gnu" })),
        ("kernel", os::kernel()),
        ("container", place.container.map_or_else(|| "none".into(), |container| format!("{container:?}"))),
        ("process 1", place.init),
        ("systemd", place.has_systemd.to_string()),
        ("file system", os::file_system(home).map_or_else(|| "unknown".into(), |(kind, lasting)| format!("{kind} ({lasting:?})"))),
        ("processors", std::thread::available_parallelism().map_or_else(|e| e.to_string(), |n| n.to_string())),
        ("root", rustix::process::geteuid().is_root().to_string()),
        ("cgroup v2", Path::new("/sys/fs/cgroup/cgroup.controllers").exists().to_string()),
    ];
    let mut lines_of = |file: &str, names: &[&'static str], sign: char| {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        for name in names {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(sign).map(str::trim));
            facts.extend(value.map(|value| (*name, value.trim_matches('"').to_owned())));
        }
    };
    lines_of("/etc/os-release", &["PRETTY_NAME"], '=');
    lines_of("/proc/meminfo", &["MemTotal", "MemAvailable"], ':');
    lines_of("/proc/self/status", &["Seccomp", "NoNewPrivs", "CapEff", "CapBnd"], ':');
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let limits = limits.lines().filter(|line| ["Max open files", "Max processes", "Max file size"].iter().any(|l| line.starts_with(l)));
    let facts = facts.iter().map(|(name, value)| format!("{name:<13} {value}"));
    facts.chain(limits.map(str::to_owned)).map(|line| line + "\n").collect()
}

/// The end of a log, and of the one before it if this one is short.
fn log(home: &Path, name: &str, mask: &Mask) -> String {
    let end = |name: &str, bytes: u64| -> std::io::Result<String> {
        let mut file = std::fs::File::open(home.join(name))?;
        let from = file.metadata()?.len().saturating_sub(bytes);
        file.seek(SeekFrom::Start(from))?;
        let mut end = Vec::new();
        file.take(bytes).read_to_end(&mut end)?;
        let text = String::from_utf8_lossy(&end).into_owned();
        // Of a line without its beginning a secret might not be recognised.
        Ok(if from == 0 { text } else { text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap_or_default() })
    };
    match end(name, LOG_BYTES) {
        Ok(text) => {
            let before = end(&format!("{name}.old"), LOG_BYTES.saturating_sub(text.len() as u64)).unwrap_or_default();
            mask.text(&(before + &text))
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => "there is none\n".into(),
        Err(e) => format!("cannot be read: {e}\n"),
    }
}

async fn processes(home: &Path, client: &Result<Client, Failure>, mask: &Mask, has_commands: bool) -> String {
    let listed = match client {
        Ok(client) => within(client.list(&Scope::default(), true)).await.map_err(|e| e.error().to_owned()),
        Err(e) => Err(e.error().to_owned()),
    };
    let all = match listed {
        Ok(mut all) => {
            all.sort_by_key(|p| std::cmp::Reverse(p.started_at));
            let shown: Vec<_> = all.iter().take(MAX_PROCESSES).map(|p| process(p, mask, has_commands)).collect();
            json!({"known": all.len(), "processes": shown})
        }
        Err(why) => json!({"known": null, "why": mask.text(&why), "folders": folders(home)}),
    };
    serde_json::to_string_pretty(&all).unwrap_or_default() + "\n"
}

/// A process without what is the user's own: its directory, owner, input and output.
fn process(p: &ProcessInfo, mask: &Mask, has_commands: bool) -> serde_json::Value {
    let mut shown = json!({
        "id": p.session_id,
        "phase": p.phase,
        "pid": p.pid,
        "exit_code": p.fate.exit_code.flatten(),
        "signal": p.fate.signal,
        "completion_reason": p.fate.completion_reason,
        "termination_source": p.fate.termination_source,
        "started_at": p.started_at,
        "ended_at": p.fate.ended_at,
        "found_ended_at": p.fate.found_ended_at,
        "output_bytes": p.output_bytes,
        "pty": p.pty,
        "has_session": p.session_key.is_some(),
        "notify_on_complete": p.notify_on_complete,
        "watch_patterns": p.watch_patterns.len(),
        "left_running": p.left.len(),
        "start_error": p.fate.start_error.as_deref().filter(|_| has_commands).map(|e| mask.text(e)),
        "warnings": p.warnings.iter().map(|w| mask.text(w)).collect::<Vec<_>>(),
    });
    if has_commands {
        shown["name"] = json!(p.name.as_deref().map(|name| mask.command(name)));
        shown["command"] = json!(mask.command(&p.command));
    }
    shown
}

/// The folders of processes, for a home whose engine cannot be asked.
fn folders(home: &Path) -> Vec<serde_json::Value> {
    let entries = std::fs::read_dir(home.join("proc")).into_iter().flatten().flatten().take(MAX_PROCESSES);
    let mut left = MAX_FILES;
    let folder = |entry: std::fs::DirEntry| {
        let size = size_of(&entry.path(), &mut left);
        json!({"name": entry.file_name().to_string_lossy(), "bytes": size.bytes, "files": size.files})
    };
    entries.map(folder).collect()
}

async fn notices(client: &Result<Client, Failure>) -> String {
    let client = match client {
        Ok(client) => client,
        Err(e) => return format!("not known: {}\n", e.error()),
    };
    let in_state = |state| within(client.history(History::default().in_state(state).limit(MAX_COUNTED).newest_first()));
    let counted = |count: usize| if count >= MAX_COUNTED as usize { format!("{count} or more") } else { count.to_string() };
    let mut text = String::new();
    for state in STATES {
        let count = match in_state(state).await {
            Ok(all) => counted(all.len()),
            Err(e) => format!("not known: {}", e.error()),
        };
        text += &format!("{state:<11} {count}\n");
    }
    let dead = match within(client.dead(Some(1))).await {
        Ok(dead) => dead.total().to_string(),
        Err(e) => format!("not known: {}", e.error()),
    };
    text + &format!("dead letters of sinks: {dead}\n")
}

#[derive(Default)]
struct Size {
    bytes: u64,
    files: usize,
}

fn sizes(home: &Path) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let mut text = match std::fs::metadata(home) {
        Ok(meta) => format!("{}  mode {:o}\n", home.display(), meta.mode() & 0o7777),
        Err(e) => return format!("{}: {e}\n", home.display()),
    };
    let mut left = MAX_FILES;
    let mut entries: Vec<_> = std::fs::read_dir(home).into_iter().flatten().flatten().collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let size = size_of(&entry.path(), &mut left);
        let name = entry.file_name();
        text += &format!("{:<28} {:>10}  {} files\n", name.to_string_lossy(), times::size(size.bytes), size.files);
    }
    if left == 0 {
        text += &format!("only the first {MAX_FILES} files were counted\n");
    }
    text
}

/// What a file or a directory takes. Links are not followed. At most `left` files are looked at.
fn size_of(path: &Path, left: &mut usize) -> Size {
    let mut size = Size::default();
    let mut paths = vec![path.to_owned()];
    while let Some(path) = paths.pop().filter(|_| *left > 0) {
        *left -= 1;
        let Ok(meta) = path.symlink_metadata() else { continue };
        if meta.is_dir() {
            paths.extend(std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()));
        } else {
            size.bytes += meta.len();
            size.files += 1;
        }
    }
    size
}
