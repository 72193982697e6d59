//! The clients of agents: calls the command in their configuration to see whether it works.

use super::super::install::{InstalledEntry, Scope, ServerCommand, installed_entries};
use super::super::out::tame;
use super::{Check, Context};
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

const NAME: &str = "agents";
/// How long a client's command may take to list its tools. It usually takes a fraction of that; clients themselves wait for 5 s and more.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long it may take to exit once its input is closed.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// How much it may print. A list of tools has a few KiB.
const MAX_OUTPUT: u64 = 4 << 20;
/// How much of its standard error is read.
const MAX_ERRORS: u64 = 4 << 10;

pub(super) async fn checks(ctx: &Context) -> Vec<Check> {
    let all = installed_entries(ctx);
    if all.is_empty() {
        return vec![Check::ok(NAME, "no client is configured to use Outlast (`outlast install claude` configures one)")];
    }
    let mut checks = Vec::new();
    for one in all {
        checks.push(check(&one, &ctx.world.program).await);
    }
    checks
}

/// What a server did when it was started and asked for its tools.
#[derive(Debug, PartialEq, Eq)]
enum ProbeResult {
    Works {
        tools: usize,
        version: String,
    },
    /// There is no such program.
    Gone,
    CannotRun(String),
    /// It exited, with this on standard error.
    Ended(String),
    Silent,
    /// It answered, but not as an MCP server does.
    Strange(String),
}

async fn check(one: &InstalledEntry, program: &Path) -> Check {
    let client = one.client.name();
    let named = format!("{client}: {}", one.file.display());
    let again = match one.scope {
        Scope::User => format!("outlast install {client}"),
        Scope::Project => format!("outlast install {client} --project"),
    };
    let command = match &one.command {
        Ok(command) => command,
        Err(why) => {
            return Check::degraded(NAME, &[], format!("{client}: {why}"))
                .means("whether it uses Outlast is not known")
                .hint("correct the file");
        }
    };
    // A project directory may come from another person. Its command is run only if that is this program.
    let is_this_program = Path::new(&command.argv[0]).canonicalize().is_ok_and(|path| program.canonicalize().is_ok_and(|own| own == path));
    if one.scope == Scope::Project && !is_this_program {
        return Check::degraded(NAME, &[], format!("{named} names another program, {}, which is not run here", tame(&command.argv[0])))
            .means("whether it works is not known")
            .hint(format!("`{again}` makes it name this program"));
    }
    judge(&named, &again, &command.argv[0], probe(command).await)
}

fn judge(named: &str, again: &str, program: &str, found: ProbeResult) -> Check {
    let program = tame(program);
    let broken = |what: String| Check::broken(NAME, format!("{named}: {what}")).means("the client has no tools of Outlast");
    match found {
        ProbeResult::Works { tools, version } if version == env!("CARGO_PKG_VERSION") => {
            Check::ok(NAME, format!("{named}: works, {tools} tools"))
        }
        ProbeResult::Works { tools, version } => Check::degraded(
            NAME,
            &[],
            format!("{named}: works, {tools} tools, of version {version}; this is {}", env!("CARGO_PKG_VERSION")),
        )
        .means("the client uses another version than you do")
        .hint(format!("`{again}` makes it use this one (it names {program})")),
        ProbeResult::Gone => {
            broken(format!("it names {program}, which does not exist")).hint(format!("`{again}` makes it name this program"))
        }
        ProbeResult::CannotRun(why) => {
            broken(format!("{program} cannot be run: {why}")).hint(format!("`{again}` makes it name this program"))
        }
        ProbeResult::Ended(words) if words.contains("unrecognized subcommand") || words.contains("unrecognized verb") => {
            broken(format!("{program} has no `mcp` command: it is older than the entry"))
                .hint(format!("upgrade it, or run `{again}` with a newer program"))
        }
        ProbeResult::Ended(words) => {
            broken(format!("{program} exited before it answered{}", said(&words))).hint("run it by hand, with the arguments of the entry")
        }
        ProbeResult::Silent => broken(format!("{program} did not answer within {} s", ANSWER_TIMEOUT.as_secs()))
            .hint("check whether `outlast engine status` answers"),
        ProbeResult::Strange(words) => broken(format!("{program} does not answer as an MCP server{}", said(&words)))
            .hint(format!("`{again}` makes it name this program")),
    }
}

fn said(words: &str) -> String {
    match words.lines().map(str::trim).find(|line| !line.is_empty()) {
        Some(line) => format!(": {}", tame(line)),
        None => String::new(),
    }
}

/// Starts the server as a client does, and asks for its tools.
async fn probe(server: &ServerCommand) -> ProbeResult {
    let mut command = Command::new(&server.argv[0]);
    command.args(&server.argv[1..]).envs(server.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0).kill_on_drop(true);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return ProbeResult::Gone,
        Err(e) => return ProbeResult::CannotRun(e.to_string()),
    };
    let complaints = child.stderr.take().expect("it was piped");
    // Read at the same time, so that a full pipe never blocks the server.
    let complaints = tokio::spawn(async move {
        let mut said = Vec::new();
        let mut complaints = complaints.take(MAX_ERRORS);
        let _cut = complaints.read_to_end(&mut said).await;
        let _rest = tokio::io::copy(&mut complaints.into_inner(), &mut tokio::io::sink()).await;
        String::from_utf8_lossy(&said).into_owned()
    });
    let found = timeout(ANSWER_TIMEOUT, converse(&mut child)).await;
    leave(child).await;
    match found {
        Ok(Ok(found)) => found,
        Ok(Err(_closed)) => ProbeResult::Ended(timeout(EXIT_TIMEOUT, complaints).await.ok().and_then(Result::ok).unwrap_or_default()),
        Err(_) => ProbeResult::Silent,
    }
}

/// The first messages of a client. An error if it closes its output.
async fn converse(child: &mut Child) -> std::io::Result<ProbeResult> {
    let closed = || std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
    let mut input = child.stdin.take().ok_or_else(closed)?;
    let mut output = BufReader::new(child.stdout.take().ok_or_else(closed)?.take(MAX_OUTPUT));
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "outlast-doctor", "version": env!("CARGO_PKG_VERSION")},
    }});
    say(&mut input, &hello).await?;
    let hello = match answer(&mut output, 1).await? {
        Ok(hello) => hello,
        Err(strange) => return Ok(ProbeResult::Strange(strange)),
    };
    say(&mut input, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await?;
    say(&mut input, &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}})).await?;
    let tools = match answer(&mut output, 2).await? {
        Ok(tools) => tools,
        Err(strange) => return Ok(ProbeResult::Strange(strange)),
    };
    let version = hello["serverInfo"]["version"].as_str().unwrap_or("unknown").to_owned();
    Ok(match tools["tools"].as_array() {
        Some(tools) => ProbeResult::Works { tools: tools.len(), version },
        None => ProbeResult::Strange(tools.to_string()),
    })
}

async fn say(input: &mut tokio::process::ChildStdin, message: &Value) -> std::io::Result<()> {
    input.write_all(format!("{message}\n").as_bytes()).await?;
    input.flush().await
}

/// The result of a request, after any notifications; the text itself if it is not a result.
async fn answer(output: &mut (impl tokio::io::AsyncBufRead + Unpin), id: u64) -> std::io::Result<Result<Value, String>> {
    loop {
        let mut line = String::new();
        if output.read_line(&mut line).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        let Ok(mut message) = serde_json::from_str::<Value>(&line) else { return Ok(Err(line)) };
        if message["id"] == id && message.get("method").is_none() {
            return Ok(match message.get_mut("result") {
                Some(result) => Ok(result.take()),
                None => Err(message["error"].to_string()),
            });
        }
    }
}

/// Closes its input, so that it exits. If it does not, kills its process group.
async fn leave(mut child: Child) {
    drop(child.stdin.take());
    if timeout(EXIT_TIMEOUT, child.wait()).await.is_err() {
        // Not reaped yet, so that the number is still its own.
        if let Some(pid) = child.id().and_then(|pid| Pid::from_raw(pid.cast_signed())) {
            let _gone = kill_process_group(pid, Signal::KILL);
        }
        let _reaped = child.wait().await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::CheckState;
    use super::*;

    fn sh(script: &str) -> ServerCommand {
        ServerCommand { argv: ["sh", "-c", script].map(str::to_owned).into(), env: vec![("GREETING".into(), "1.2.3".into())] }
    }

    const SERVER: &str = r#"
        read -r hello
        echo '{"jsonrpc":"2.0","method":"notifications/message","params":{}}'
        echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","serverInfo":{"name":"x","version":"'$GREETING'"}}}'
        read -r initialized; read -r list
        echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"a"},{"name":"b"}]}}'
    "#;

    #[tokio::test]
    async fn what_a_command_says_is_found_out_by_a_call() {
        assert_eq!(probe(&sh(SERVER)).await, ProbeResult::Works { tools: 2, version: "1.2.3".into() });
        assert_eq!(
            probe(&sh("echo \"error: unrecognized subcommand 'mcp'\" >&2; exit 2")).await,
            ProbeResult::Ended("error: unrecognized subcommand 'mcp'\n".into())
        );
        assert_eq!(probe(&sh("echo hello; cat >/dev/null")).await, ProbeResult::Strange("hello\n".into()));
        let refused = r#"echo '{"jsonrpc":"2.0","id":1,"error":{"code":-1}}'; cat >/dev/null"#;
        assert_eq!(probe(&sh(refused)).await, ProbeResult::Strange("{\"code\":-1}".into()));
        assert_eq!(probe(&ServerCommand { argv: vec!["/no/such/outlast".into()], env: Vec::new() }).await, ProbeResult::Gone);
        assert!(matches!(probe(&ServerCommand { argv: vec!["/etc/passwd".into()], env: Vec::new() }).await, ProbeResult::CannotRun(_)));
    }

    #[tokio::test]
    async fn one_that_says_nothing_is_ended_with_all_it_started() {
        let tmp = tempfile::tempdir().unwrap();
        let note = tmp.path().join("pid");
        let script = format!("sleep 1000 & echo $! > '{}'; trap '' TERM; wait", note.display());
        assert_eq!(probe(&sh(&script)).await, ProbeResult::Silent);
        let pid = std::fs::read_to_string(note).unwrap().trim().parse().unwrap();
        outlast_testkit::product::wait_for_end(pid, Duration::from_secs(20));
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // Its new parent may not have reaped it yet.
        assert!(stat.is_empty() || stat.contains(") Z "), "{stat}");
    }

    #[test]
    fn each_finding_says_what_to_do() {
        let all = [
            ProbeResult::Works { tools: 7, version: env!("CARGO_PKG_VERSION").into() },
            ProbeResult::Works { tools: 7, version: "0.0.1".into() },
            ProbeResult::Gone,
            ProbeResult::CannotRun("Permission denied (os error 13)".into()),
            ProbeResult::Ended("\nerror: unrecognized subcommand 'mcp'\n".into()),
            ProbeResult::Ended("\nout of \x1b[31mluck\n".into()),
            ProbeResult::Silent,
            ProbeResult::Strange("hello\n".into()),
        ];
        let checks = all.map(|found| judge("codex: /home/me/.codex/config.toml", "outlast install codex", "/bin/outlast", found));
        assert!(checks.iter().all(|c| c.state == CheckState::Ok || !c.hint.is_empty() && !c.means.is_empty()));
        let text: Vec<_> = checks.iter().map(|c| format!("{:?} {}\n  means: {}\n  → {}", c.state, c.what, c.means, c.hint)).collect();
        insta::assert_snapshot!(text.join("\n").replace(env!("CARGO_PKG_VERSION"), "THIS"));
    }
}
