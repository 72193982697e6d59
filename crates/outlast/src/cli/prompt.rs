//! `outlast prompt`: what a shell shows in front of each command.

use crate::config::World;
use clap::{Args, ValueEnum};
use outlast_client::{Client, Connect, Counts};
use serde_json::json;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

/// How long an engine may take to answer. A late prompt is worse than one without numbers.
pub(crate) const PATIENCE: Duration = Duration::from_millis(100);

/// Show running processes and notices in the prompt of a shell
///
/// With the name of a shell it prints lines for its start-up file. They put `[2 running, 1 notice]` before the prompt if there is something to show:
///
/// bash: put `eval "$(outlast prompt bash)"` at the end of ~/.bashrc.
/// zsh: put `eval "$(outlast prompt zsh)"` at the end of ~/.zshrc.
/// fish: put `outlast prompt fish | source` at the end of ~/.config/fish/config.fish.
///
/// Without a shell it prints the text itself, or nothing. It starts no engine and waits at most 0.1 s for one.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Prompt {
    /// The shell
    shell: Option<PromptShell>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PromptShell {
    Bash,
    Zsh,
    Fish,
}

impl Prompt {
    /// Prints, and returns the exit code. Errors are not reported, because this runs before every prompt.
    pub(crate) fn perform(self, json: bool) -> i32 {
        let text = match self.shell {
            Some(PromptShell::Bash) => include_str!("prompt/outlast.bash").to_owned(),
            Some(PromptShell::Zsh) => include_str!("prompt/outlast.zsh").to_owned(),
            Some(PromptShell::Fish) => include_str!("prompt/outlast.fish").to_owned(),
            None => match (counts().unwrap_or_default(), json) {
                (counts, true) => format!("{}\n", json!({"running": counts.running, "waiting": counts.waiting})),
                (counts, false) => match shown(counts) {
                    text if !text.is_empty() && std::io::stdout().is_terminal() => format!("{text}\n"),
                    text => text,
                },
            },
        };
        // A shell that no longer reads misses nothing.
        let _gone = std::io::stdout().write_all(text.as_bytes());
        0
    }
}

fn counts() -> Option<Counts> {
    let world = World::here();
    let to = Connect::to(world.home().ok()?).speaking_for(world.owner());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(async { tokio::time::timeout(PATIENCE, Client::counts(&to)).await.ok()?.ok() })
}

/// `2 running, 1 notice`, or nothing.
fn shown(counts: Counts) -> String {
    let running = (counts.running > 0).then(|| format!("{} running", counts.running));
    let waiting = match counts.waiting {
        0 => None,
        1 => Some("1 notice".to_owned()),
        n => Some(format!("{n} notices")),
    };
    running.into_iter().chain(waiting).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_shows_what_there_is() {
        let text = |running, waiting| {
            let mut counts = Counts::default();
            (counts.running, counts.waiting) = (running, waiting);
            shown(counts)
        };
        assert_eq!([text(0, 0), text(2, 0), text(0, 1), text(1, 3)], ["", "2 running", "1 notice", "1 running, 3 notices"]);
    }
}
