//! Sandboxes without a daemon: namespaces of an ordinary user, and the sandboxes in which agents run commands.

use super::bench::{Bench, Ran};
use crate::campaign::agents::npm::Npm;
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy)]
pub(crate) enum Sandbox {
    Bubblewrap,
    Unshare,
    Codex { network: bool },
    Runtime { sockets: bool },
}

pub(crate) const ALL: &[(&str, &str, Sandbox)] = &[
    ("bubblewrap", "`bwrap --unshare-all`, as an ordinary user", Sandbox::Bubblewrap),
    ("unshare", "`unshare -Urmpf --mount-proc`, as an ordinary user", Sandbox::Unshare),
    ("codex", "Codex's sandbox (`:workspace`), which refuses sockets: `run` says so", Sandbox::Codex { network: false }),
    ("codex-network", "the same with network access", Sandbox::Codex { network: true }),
    ("sandbox-runtime", "`@anthropic-ai/sandbox-runtime`, which refuses sockets: `run` says so", Sandbox::Runtime { sockets: false }),
    ("sandbox-runtime-sockets", "the same with `network.allowAllUnixSockets`", Sandbox::Runtime { sockets: true }),
];

pub(crate) fn enter(bench: &Bench, name: &str, sandbox: Sandbox) -> Result<Ran> {
    let home = bench.home(name)?;
    let is_refused = matches!(sandbox, Sandbox::Codex { network: false } | Sandbox::Runtime { sockets: false });
    let smoke = bench.smoke(&home, if is_refused { &["--set", "refused"] } else { &[] });
    bench.run(match sandbox {
        Sandbox::Bubblewrap => bubblewrap(&home, &smoke)?,
        Sandbox::Unshare => unshare(&smoke)?,
        Sandbox::Codex { network } => codex(bench, &home, &smoke, network)?,
        Sandbox::Runtime { sockets } => sandbox_runtime(bench, &home, &smoke, sockets)?,
    })
}

/// A call as an ordinary user without privileges.
fn as_user(program: &str) -> Result<Command> {
    ensure!(has(program), "{program} is not installed");
    if !outlast_testkit::machine::is_root() {
        return Ok(Command::new(program));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=1000", "--regid=1000", "--clear-groups", "--", program]);
    Ok(command)
}

fn bubblewrap(home: &Path, smoke: &Command) -> Result<Command> {
    let mut command = as_user("bwrap")?;
    command.args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all", "--die-with-parent"]);
    command.arg("--bind").arg(home).arg(home).arg("--").arg(smoke.get_program()).args(smoke.get_args());
    Ok(command)
}

fn unshare(smoke: &Command) -> Result<Command> {
    let mut command = as_user("unshare")?;
    command.args(["-Urmpf", "--mount-proc", "--kill-child", "/bin/sh", "-c", "\"$@\"; exit $?", "sh"]);
    command.arg(smoke.get_program()).args(smoke.get_args());
    Ok(command)
}

/// Codex from npm, with a profile of ours: a writable workspace, with or without a network.
fn codex(bench: &Bench, home: &Path, smoke: &Command, network: bool) -> Result<Command> {
    let program = installed(bench, "@openai/codex@0.169", "codex")?;
    let settings = bench.dir("codex-home")?;
    std::fs::write(
        settings.join("config.toml"),
        format!("[permissions.places]\nextends = \":workspace\"\n[permissions.places.network]\nenabled = {network}\n"),
    )?;
    let mut command = Command::new(program);
    // It refuses to have its helpers in what it takes for the temporary directory.
    command.env("CODEX_HOME", &settings).env("TMPDIR", "/dev/shm").args(["sandbox", "-P", "places", "-C"]).arg(home).arg("--");
    command.args(["/bin/sh", "-c", "\"$@\"; exit $?", "sh"]).arg(smoke.get_program()).args(smoke.get_args());
    Ok(command)
}

fn sandbox_runtime(bench: &Bench, home: &Path, smoke: &Command, sockets: bool) -> Result<Command> {
    for program in ["bwrap", "socat", "rg"] {
        ensure!(has(program), "{program} is not installed (Debian: bubblewrap socat ripgrep)");
    }
    let program = installed(bench, "@anthropic-ai/sandbox-runtime@0.0", "srt")?;
    let settings = bench.dir("sandbox-runtime-home")?.join("settings.json");
    let wanted = serde_json::json!({
        "network": { "allowedDomains": [], "deniedDomains": [], "allowAllUnixSockets": sockets },
        "filesystem": { "denyRead": [], "allowWrite": [home], "denyWrite": [] },
    });
    std::fs::write(&settings, wanted.to_string())?;
    let mut command = Command::new(program);
    command.arg("--settings").arg(settings).arg("--").arg(smoke.get_program()).args(smoke.get_args());
    Ok(command)
}

/// A program of an npm package, which is installed below the bench once.
fn installed(bench: &Bench, package: &str, program: &str) -> Result<PathBuf> {
    let npm = Npm::at(&bench.dir("npm")?);
    if let Some(why) = npm.get(&[package])? {
        bail!("{why}");
    }
    Ok(npm.program(program))
}

pub(crate) fn has(program: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}
