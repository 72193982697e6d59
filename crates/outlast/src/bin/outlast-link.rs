//! The program `outlast-link`: the link to one environment, started by the engine. What it does is the crate `outlast-transport`.

use anyhow::Context as _;
use clap::Parser;
use outlast_core::EnvironmentName;
use outlast_transport::{KeeperFile, LinkSettings, backend, serve_link};
use std::io::Write as _;
use std::path::PathBuf;

/// Look after the processes in one environment
///
/// It is started by the engine when a command is to run in an environment, and ends when it has nothing to do.
#[derive(Debug, Parser)]
#[command(name = "outlast-link", version)]
struct AsLink {
    /// The home of the engine
    #[arg(long)]
    home: PathBuf,
    /// The environment
    #[arg(long)]
    on: EnvironmentName,
    /// Where the engine connects
    #[arg(long)]
    socket: PathBuf,
    /// Where the sockets of processes are
    #[arg(long)]
    run_dir: PathBuf,
    /// The environment's own directory
    #[arg(long)]
    dir: PathBuf,
    /// The keeper's program, which is put into the sandbox
    #[arg(long)]
    keeper: PathBuf,
}

fn main() -> anyhow::Result<()> {
    let args = AsLink::parse();
    outlast_keeper::close_inherited(None);
    // Without this it would end with the terminal or session of the program that started the engine.
    let _already_leader = rustix::process::setsid();
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).with_target(false).log_internal_errors(false).init();
    let keeper = KeeperFile::read(&args.keeper).with_context(|| format!("cannot read the keeper's program {}", args.keeper.display()))?;
    std::fs::create_dir_all(&args.dir).with_context(|| format!("cannot make {}", args.dir.display()))?;
    let transport = backend(&args.on, keeper, &args.dir);
    let AsLink { home, on, socket, run_dir, dir, .. } = args;
    let settings = LinkSettings { home, on, socket, run_dir, dir, transport };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("cannot wait for anything")?;
    let when_listening = || {
        // An engine that has ended meanwhile reads nothing.
        let _unread = std::io::stdout().write_all(b"r").and_then(|()| std::io::stdout().flush());
    };
    let served = runtime.block_on(serve_link(settings, when_listening));
    // A program that carries a stream may hang, and is not waited for.
    runtime.shutdown_background();
    served.context("cannot serve the link")
}
