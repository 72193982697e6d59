//! An engine inside another program, which is also its own keeper, so it needs no other program.
//!
//! ```text
//! cargo run -p outlast-engine --example embed -- HOME COMMAND
//! ```
//!
//! Call it twice with a command that takes a while: the second call finds what the first one left running.

use outlast_client::{Client, Run, Scope, Spec, Tell, caller};
use outlast_engine::{Config, Engine, KeeperProgram, UserInfo};
use std::error::Error;
use std::ffi::OsString;

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args_os().skip(1);
    let (first, rest) = (args.next(), args.collect::<Vec<OsString>>());
    // The engine starts this program as a keeper. That has to come before threads, and before anything is printed.
    if first.as_deref() == Some("__keeper".as_ref()) {
        std::process::exit(outlast_keeper::main(rest));
    }
    let (Some(home), [command]) = (first, &rest[..]) else { return Err("usage: embed HOME COMMAND".into()) };
    tokio::runtime::Runtime::new()?.block_on(run(home, command.clone()))
}

async fn run(home: OsString, command: OsString) -> Result<(), Box<dyn Error>> {
    let config = Config::embedded(home, KeeperProgram::this_program(), UserInfo::of_env(std::env::vars_os()));
    let engine = Engine::start(config).await?;
    // So that `outlast list` and other clients can use the home meanwhile.
    engine.listen().await?;
    let client = Client::over(engine.connect()).await?;

    for process in client.list(&Scope::default(), false).await? {
        println!("{} still runs: {}", process.session_id, process.command);
    }
    let here = caller(std::env::vars_os(), &std::env::current_dir()?);
    let process = client.run(Run::new(Spec::shell(command).telling(Tell::end()), here)).await?;
    println!("{} started", process.id());

    engine.stop().await;
    Ok(())
}
