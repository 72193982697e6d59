//! Checks, campaigns and benchmarks of this workspace.

mod api;
#[path = "../../benches/gateway.rs"]
mod bench_gateway;
#[path = "../../benches/mcp.rs"]
mod bench_mcp;
#[path = "../../benches/notices.rs"]
mod bench_notices;
#[path = "../../benches/recovery.rs"]
mod bench_recovery;
#[path = "../../benches/scan.rs"]
mod bench_scan;
#[path = "../../benches/search.rs"]
mod bench_search;
#[path = "../../benches/suite.rs"]
mod bench_suite;
#[path = "../../benches/tokens.rs"]
mod bench_tokens;
mod campaign;
mod check;
mod deny;
mod dist;
mod features;
mod metadata;
mod modules;
mod picture;
mod puppet;
mod rng;
mod sink;
mod smoke;
mod source;
mod types;
mod usage;
mod wait;
mod words;

use anyhow::{Result, bail};
use std::process::Command;
use usage::{Asked, USAGE};

fn main() -> Result<()> {
    if let Some(failed) = api::stand_in() {
        return Err(failed.into());
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let named = match words.first() {
        // A copy of this program that it starts itself.
        Some(own) if own.starts_with("__") => Vec::new(),
        _ => match usage::read(&args)? {
            Asked::Help(text) => {
                println!("{text}");
                return Ok(());
            }
            Asked::Run(named) => named,
        },
    };
    match words[..] {
        ["__agent", ..] => campaign::gateway_agent(&args[1..]),
        ["__hook", ..] => sink::hook(&args[1..]),
        ["__receiver", ..] => sink::receiver(&args[1..]),
        ["__gateway-agent"] => bench_gateway::agent(),
        ["__mcp-echo"] => bench_mcp::echo(),
        ["__puppet", ..] => puppet::main(&args[1..]),
        ["__smoke", ..] => smoke::run(&Flags(&args[1..])),
        ["campaign", "agents", ..] => campaign::agents(&named, &Flags(&args[2..])),
        ["campaign", "clients", ..] => campaign::clients(&named, &Flags(&args[2..])),
        ["campaign", "core", ..] => campaign::core(&Flags(&args[2..])),
        ["campaign", "flood", ..] => campaign::flood(&Flags(&args[2..])),
        ["campaign", "fuzz", ..] => campaign::fuzz(&Flags(&args[2..])),
        ["campaign", "gateway", ..] => campaign::gateway(&Flags(&args[2..])),
        ["campaign", "histories", ..] => campaign::histories(&Flags(&args[2..])),
        ["campaign", "mcp", ..] => campaign::mcp(&Flags(&args[2..])),
        ["campaign", "nameserver", ..] => campaign::nameserver(&Flags(&args[2..])),
        ["campaign", "notices", ..] => campaign::notices(&Flags(&args[2..])),
        ["campaign", "places", ..] => campaign::places(&named, &Flags(&args[2..])),
        ["campaign", "stop", ..] => campaign::stop(&Flags(&args[2..])),
        ["campaign", "upgrade", ..] => campaign::upgrade(&Flags(&args[2..])),
        ["api", ..] => api::run(&Flags(&args[1..])),
        ["__echo"] => bench_suite::echo(),
        ["check"] => check::run(),
        ["dist", ..] => dist::run(&Flags(&args[1..])),
        ["picture", ..] => picture::run(&Flags(&args[1..])),
        ["bench", "plots"] => bench_suite::draw(),
        // Half of the measured code runs in this program.
        ["bench", ..] if cfg!(debug_assertions) => in_release(&args),
        ["bench", "gateway", ..] => bench_gateway::run(&Flags(&args[2..])),
        ["bench", "mcp", ..] => bench_mcp::run(&Flags(&args[2..])),
        ["bench", "notices", ..] => bench_notices::run(&Flags(&args[2..])),
        ["bench", "tokens"] => bench_tokens::run(),
        ["bench", "recovery", ..] => bench_recovery::run(&Flags(&args[2..])),
        ["bench", "scan", ..] => bench_scan::run(&Flags(&args[2..])),
        ["bench", "search", ..] => bench_search::run(&Flags(&args[2..])),
        ["bench", ..] => bench_suite::run(&named, &Flags(&args[1..])),
        _ => bail!("{USAGE}"),
    }
}

/// Makes the same call with a release build of this program.
fn in_release(args: &[String]) -> Result<()> {
    use std::os::unix::process::CommandExt;
    let failed = cargo().args(["run", "--quiet", "--release", "--package", "xtask", "--"]).args(args).exec();
    Err(failed.into())
}

/// The cargo that runs this program, or the one in the path.
pub(crate) fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// Flags of the form `--name value`.
pub(crate) struct Flags<'a>(&'a [String]);

impl Flags<'_> {
    /// Whether a flag without a value was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|a| a == name)
    }

    pub(crate) fn get<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(at) = self.0.iter().position(|a| a == name) else { return Ok(None) };
        match self.0.get(at + 1).map(|v| v.parse()) {
            Some(Ok(value)) => Ok(Some(value)),
            Some(Err(_)) | None => bail!("{name} needs a value\n{USAGE}"),
        }
    }
}
