//! Starts a command, shows its output as it comes, and exits with its code. Ctrl-C ends this program, not the command.
//!
//! ```text
//! cargo run -p outlast-client --example follow -- 'make test'
//! ```
//!
//! `OUTLAST_HOME` sets the home, as it does for `outlast`, which has to be in `PATH`.

use outlast_client::{Chunk, Client, Connect, From, Run, Spec, caller};
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<ExitCode, Box<dyn Error>> {
    let command = std::env::args_os().nth(1).ok_or("usage: follow COMMAND")?;
    let to = Connect::of_env(std::env::vars_os()).ok_or("set OUTLAST_HOME, or HOME")?.starting("outlast");
    let client = Client::connect(&to).await?;
    let here = caller(std::env::vars_os(), &std::env::current_dir()?);
    let process = client.run(Run::new(Spec::shell(command), here)).await?;
    eprintln!("{} started", process.id());

    let mut chunks = process.follow(From::Byte(0));
    while let Some(chunk) = chunks.next().await? {
        match chunk {
            Chunk::Bytes { bytes, .. } => std::io::stdout().write_all(&bytes)?,
            Chunk::Gap { from, to, why } => eprintln!("[bytes {from} to {to} are gone: {why}]"),
        }
    }
    let end = process.wait(None).await?;
    // The exit status may be unknown, and a signal is no exit code.
    let code = end.fate.exit_code.flatten().and_then(|code| u8::try_from(code).ok());
    Ok(code.map_or(ExitCode::FAILURE, ExitCode::from))
}
