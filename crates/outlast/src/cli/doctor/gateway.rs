//! The gateway: whether it runs or could be started, and whether its database can be read.

use super::super::gateway::not_installed;
use super::{Check, Context};
use outlast_client::{Chat, Connect, GatewayStatus};
use std::path::Path;
use std::process::Output;
use std::time::Duration;

/// How long the check of the database may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(30);
/// How many rows that cannot be read are named; the others are counted.
const MAX_NAMED_ROWS: usize = 5;

/// No checks in a home that never had a conversation.
pub(super) async fn checks(ctx: &Context) -> Vec<Check> {
    let mut all: Vec<Check> = ctx.settings.gateway.faults.iter().map(|fault| misconfigured(ctx, fault)).collect();
    if ctx.settings.home.join("gateway.db").exists() {
        all.extend(memory(ctx).await);
    }
    all
}

fn misconfigured(ctx: &Context, fault: &str) -> Check {
    Check::broken("gateway", fault)
        .means("no gateway can be started, so conversations wait")
        .hint(format!("correct or remove it in {}", ctx.settings.file.display()))
}

async fn memory(ctx: &Context) -> Vec<Check> {
    let found = match Chat::connect(&Connect::to(&ctx.settings.home)).await {
        Ok(chat) => chat.status().await,
        Err(error) => Err(error),
    };
    match found {
        Ok(status) => running(&status),
        Err(error) if error.is_not_running() => idle(ctx).await,
        Err(error) => vec![
            Check::broken("gateway", format!("it does not answer: {error}"))
                .means("conversations wait")
                .hint("`outlast gateway restart`; `gateway.log` in the home may say more"),
        ],
    }
}

fn running(status: &GatewayStatus) -> Vec<Check> {
    let what = format!("runs as pid {}", status.pid);
    if status.notes.is_empty() { vec![Check::ok("gateway", what)] } else { unreadable(&status.notes) }
}

/// Runs the check of the program that would be started.
async fn idle(ctx: &Context) -> Vec<Check> {
    let Some(program) = ctx.world.gateway() else {
        let missing = not_installed(&ctx.world.program);
        return vec![Check::broken("gateway", missing.error()).means("conversations wait").hint(missing.hint())];
    };
    match look(ctx, &program).await {
        Ok(output) if output.status.success() => {
            let rows: Vec<String> = String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect();
            match rows.is_empty() {
                true => vec![Check::ok("gateway", "does not run, and all that it remembers can be read")],
                false => unreadable(&rows),
            }
        }
        // Faults of the configuration are reported above.
        Ok(_) if !ctx.settings.gateway.faults.is_empty() => Vec::new(),
        Ok(output) => vec![cannot_start(&ctx.settings.home, &String::from_utf8_lossy(&output.stderr))],
        Err(error) => vec![
            Check::broken("gateway", format!("{} cannot be run: {error}", program.display()))
                .means("conversations wait")
                .hint("install `outlast` and `outlast-gateway` of one release side by side"),
        ],
    }
}

async fn look(ctx: &Context, program: &Path) -> std::io::Result<Output> {
    let mut command = tokio::process::Command::new(program);
    command.arg("--home").arg(&ctx.settings.home).arg("--check").stdin(std::process::Stdio::null()).kill_on_drop(true);
    tokio::time::timeout(CHECK_TIMEOUT, command.output()).await?
}

fn cannot_start(home: &Path, said: &str) -> Check {
    let what = said.lines().next_back().unwrap_or_default().trim_start_matches("outlast-gateway: ");
    Check::broken("gateway", format!("it cannot be started: {what}")).means("conversations wait; processes are not concerned").hint(
        format!(
            "if {} is damaged, restore it from a copy, or move it away: conversations then start anew",
            home.join("gateway.db").display()
        ),
    )
}

fn unreadable(rows: &[String]) -> Vec<Check> {
    let mut all: Vec<Check> = rows.iter().take(MAX_NAMED_ROWS).map(|row| Check::degraded("gateway", &["P1"], row)).collect();
    if let Some(more) = rows.len().checked_sub(MAX_NAMED_ROWS).filter(|more| *more > 0) {
        all.push(Check::degraded("gateway", &["P1"], format!("{more} more rows of gateway.db cannot be read")));
    }
    if let Some(last) = all.pop() {
        all.push(last.means("their content is left out; everything else works").hint("restore gateway.db from a copy if you miss it"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;
    use super::*;

    #[test]
    fn a_gateway_that_cannot_start_or_read_is_told_with_what_to_do() {
        let mut checks = vec![cannot_start(
            Path::new("/home/me/outlast"),
            "outlast-gateway: cannot use /home/me/outlast/gateway.db: file is not a database\n",
        )];
        let row = |n: usize| format!("a row of turns cannot be read ({n}): \"jumping\" is none of the words that may be here");
        checks.extend(unreadable(&(1..=7).map(row).collect::<Vec<_>>()));
        let mut status = GatewayStatus::new(7, "0.1.0", "/home", "2026-01-01T00:00:00Z".parse().unwrap());
        checks.extend(running(&status));
        status.notes = vec!["turn 3 belongs to the conversation agent:main:local:dm:main, which cannot be read".into()];
        checks.extend(running(&status));
        insta::assert_snapshot!(shown(&checks));
    }
}
