//! The hooks that wake agents: whether each can do so now.

use super::super::hook::{WakeCheck, check_wake};
use super::{Check, Context};
use std::path::Path;

const NAME: &str = "wake";

pub(super) async fn checks(ctx: &Context) -> Vec<Check> {
    let mut all = Vec::new();
    for sink in &ctx.settings.sinks.calls {
        all.extend(check_wake(sink).await.map(|found| judge(&sink.name, found, &ctx.world.program)));
    }
    all
}

/// `own` is this program.
fn judge(name: &str, found: WakeCheck, own: &Path) -> Check {
    match found {
        WakeCheck::Works(program) => {
            let is_this = program.canonicalize().is_ok_and(|path| own.canonicalize().is_ok_and(|own| own == path));
            let by = if is_this { String::new() } else { format!(", by {}, which is another program than this one", program.display()) };
            Check::ok(NAME, format!("the hook {name} reaches the agent it is for{by}"))
        }
        WakeCheck::NotTried => {
            Check::ok(NAME, format!("the program of the hook {name} is there; `outlast hook test {name}` runs it, which may wake an agent"))
        }
        WakeCheck::ShellLine => {
            Check::ok(NAME, format!("the hook {name} is a line for a shell; `outlast hook test {name}` runs it, which may wake an agent"))
        }
        WakeCheck::Fails(why) => Check::degraded(NAME, &["P4"], format!("the hook {name} cannot wake an agent now: {why}"))
            .means("an agent that does nothing is not notified; one that calls a tool of Outlast gets its notices with the answer")
            .hint("correct its `command` in config.toml, or start what it needs; `outlast config show` lists the hooks"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::shown;
    use super::*;

    #[test]
    fn each_finding_says_what_it_means() {
        let (own, other) = (Path::new("/bin/sh"), "/opt/outlast");
        let all = [
            WakeCheck::Works(own.into()),
            WakeCheck::Works(other.into()),
            WakeCheck::NotTried,
            WakeCheck::ShellLine,
            WakeCheck::Fails(format!("there is no {other}")),
        ];
        insta::assert_snapshot!(shown(&all.map(|found| judge("wake-codex", found, own))));
    }
}
