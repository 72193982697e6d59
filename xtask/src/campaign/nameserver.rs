//! `cargo xtask campaign nameserver`: webhooks are due, and the name server never answers. All other requests must stay fast.
//!
//! Needs root: it uses a mount namespace of its own, in which the machine's resolver asks a socket of ours.

use crate::Flags;
use anyhow::{Context, Result, ensure};
use outlast_client::{Client, Connect, Scope};
use outlast_testkit::product::Product;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// The longest 99th percentile of the time for a list.
const MOST: Duration = Duration::from_millis(50);
/// An address of this machine that no name server of its own uses.
const SILENT: &str = "127.53.53.53";
const WEBHOOKS: usize = 4;
const NOTICES: usize = 16;
/// Set for the copy of this program that runs in the namespace.
const INSIDE: &str = "OUTLAST_CAMPAIGN_INSIDE";

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: campaign nameserver: it needs root for a mount namespace");
        return Ok(());
    }
    let program = super::program(flags)?;
    let seconds = flags.get("--seconds")?.unwrap_or(60_u64);
    if std::env::var_os(INSIDE).is_none() {
        let here = ["campaign", "nameserver", "--seconds", &seconds.to_string(), "--program"].map(str::to_owned);
        let failed =
            Command::new("unshare").args(["--mount", "--"]).arg(std::env::current_exe()?).args(here).arg(program).env(INSIDE, "1").exec();
        return Err(failed).context("cannot run unshare");
    }
    let product = Product::new(program);
    let _silent = UdpSocket::bind((SILENT, 53)).context("cannot be a name server")?;
    let resolv = product.work().join("resolv.conf");
    std::fs::write(&resolv, format!("nameserver {SILENT}\n"))?;
    let mounted = Command::new("mount").arg("--bind").arg(&resolv).arg(std::fs::canonicalize("/etc/resolv.conf")?).status()?;
    ensure!(mounted.success(), "cannot mount {} over /etc/resolv.conf", resolv.display());
    let hook = |n| format!("[[webhook]]\nname = \"w{n}\"\nurl = \"https://hook{n}.example.invalid/\"\nsecret_env = \"CAMPAIGN_SECRET\"\n");
    product.configure(&(0..WEBHOOKS).map(hook).collect::<String>());
    let product = product.with_env("CAMPAIGN_SECRET", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
    for n in 0..NOTICES {
        product.run_with(&["--notify", "--session", &format!("s{n}")], "true");
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let mut took = runtime.block_on(lists(&product, Duration::from_secs(seconds)))?;
    took.sort_unstable();
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    println!("campaign nameserver: {seconds} s without an answer, {WEBHOOKS} webhooks, {NOTICES} notices for each");
    println!("  list: {} times, p50 {:.1?}, p99 {:.1?}, most {:.1?}", took.len(), at(0.5), at(0.99), at(1.0));
    let late = product.json(["engine", "status"])["degraded"].to_string();
    ensure!((0..WEBHOOKS).all(|n| late.contains(&format!("the sink w{n} did not take"))), "the webhooks were not tried: {late}");
    ensure!(at(0.99) <= MOST, "more than {MOST:?}");
    Ok(())
}

async fn lists(product: &Product, last: Duration) -> Result<Vec<Duration>> {
    let client = Client::connect(&Connect::to(product.home().root)).await?;
    let (began, mut took) = (Instant::now(), Vec::new());
    while began.elapsed() < last {
        let asked = Instant::now();
        client.list(&Scope::default(), true).await?;
        took.push(asked.elapsed());
        // A pause between two measurements, until `last` is over. It waits for nothing.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(took)
}
