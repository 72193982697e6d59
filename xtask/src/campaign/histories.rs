//! `cargo xtask campaign histories`: which matches are reported, to which taker and how often notices are given, and which turns of a conversation start, in histories of any
//! kind, against a second reading of the rules. Notices also in as many orders of those who ask at the same time.

use crate::Flags;
use anyhow::{Result, ensure};
use std::time::Instant;

/// What is played: the package, the tests, and in a sentence.
const ALL: [(&str, &str, &str); 4] = [
    ("outlast-core", "watch::histories", "histories of matches of each kind"),
    ("outlast-engine", "notices::tests::histories", "histories of notices"),
    ("outlast-engine", "notices::tests::takers", "orders of takers"),
    ("outlast-gateway", "rules::histories", "histories of conversations"),
];

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let cases = flags.get("--cases")?.unwrap_or(1_000_000_u64);
    // An order takes ten times as long as a history.
    let orders = flags.get("--orders")?.unwrap_or(cases / 10);
    let test = |package: &str| {
        let mut command = crate::cargo();
        command.args(["test", "--quiet", "--release", "--package", package, "--lib"]);
        command
    };
    for package in ["outlast-core", "outlast-engine", "outlast-gateway"] {
        ensure!(test(package).arg("--no-run").status()?.success(), "the tests do not build");
    }
    for (package, name, what) in ALL {
        let (began, count) = (Instant::now(), if name.ends_with("takers") { orders } else { cases });
        let mut command = test(package);
        command.args([name, "--", "--nocapture"]).env("PROPTEST_CASES", cases.to_string()).env("OUTLAST_SHUTTLE", orders.to_string());
        ensure!(
            command.status()?.success(),
            "one of the {what} was told wrongly; what is printed above is the shortest such, or its order"
        );
        println!("campaign histories: {count} {what}, {:.0} s, 0 told wrongly", began.elapsed().as_secs_f64());
    }
    Ok(())
}
