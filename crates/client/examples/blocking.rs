//! The same client without async: runs all commands at once, waits for them, and prints how they ended.
//!
//! ```text
//! cargo run -p outlast-client --example blocking -- 'make lint' 'make test'
//! ```

use outlast_client::blocking::Client;
use outlast_client::{Connect, Page, Run, Spec, caller};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let to = Connect::of_env(std::env::vars_os()).ok_or("set OUTLAST_HOME, or HOME")?.starting("outlast");
    let client = Client::connect(&to)?;
    let here = caller(std::env::vars_os(), &std::env::current_dir()?);
    let mut started = Vec::new();
    for command in std::env::args_os().skip(1) {
        started.push(client.run(Run::new(Spec::shell(command), here.clone()))?.to_string());
    }
    for id in started {
        let end = client.wait(&id, None)?;
        let code = end.fate.exit_code.flatten().map_or("unknown".into(), |code| code.to_string());
        println!("{}: {code}", end.command);
        let log = client.log(&id, Page::last(5))?;
        log.output.lines().for_each(|line| println!("    {line}"));
    }
    Ok(())
}
