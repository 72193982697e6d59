//! `outlast completions`, and the hidden verb that the scripts ask.

mod candidates;

use super::Failure;
use super::help::whole_tree;
use clap::{Args, ValueEnum};
use std::ffi::OsString;
use std::io::Write as _;

/// Print a completion script for a shell
///
/// In bash, zsh and fish, the names and ids of processes, sessions, tasks, signals and the names of conversations are completed as well.
///
/// bash: put `source <(outlast completions bash)` into ~/.bashrc.
/// zsh: write it to a file `_outlast` in a directory of $fpath.
/// fish: write it to ~/.config/fish/completions/outlast.fish.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Completions {
    /// Which shell
    shell: CompletionShell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompletionShell {
    Bash,
    Zsh,
    Fish,
    Elvish,
    #[value(name = "powershell")]
    Power,
}

impl Completions {
    pub(crate) fn perform(self) -> Result<i32, Failure> {
        let written = |shell| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut whole_tree(), "outlast", &mut script);
            script
        };
        let script = match self.shell {
            CompletionShell::Bash => include_bytes!("completions/outlast.bash").to_vec(),
            CompletionShell::Zsh => include_bytes!("completions/outlast.zsh").to_vec(),
            CompletionShell::Fish => include_bytes!("completions/outlast.fish").to_vec(),
            CompletionShell::Elvish => written(clap_complete::Shell::Elvish),
            CompletionShell::Power => written(clap_complete::Shell::PowerShell),
        };
        std::io::stdout().write_all(&script)?;
        Ok(0)
    }
}

/// Complete a word.
#[derive(Debug, Args)]
pub(crate) struct Complete {
    /// The position of the word to complete
    #[arg(long)]
    index: usize,
    /// All words of the command line, the program first
    #[arg(last = true)]
    words: Vec<OsString>,
}

impl Complete {
    /// Prints the candidates, one on each line, each with a tab and a description. Errors are not reported, because the user is typing.
    pub(crate) fn perform(self) -> i32 {
        let mut command = candidates::add(whole_tree());
        let here = std::env::current_dir().ok();
        let found = clap_complete::engine::complete(&mut command, self.words, self.index, here.as_deref()).unwrap_or_default();
        let mut out = String::new();
        for one in found {
            let help = one.get_help().map(ToString::to_string).unwrap_or_default();
            let help = help.lines().next().unwrap_or_default().replace('\t', " ");
            out += &format!("{}\t{help}\n", one.get_value().to_string_lossy());
        }
        // A shell that no longer listens misses nothing.
        let _gone = std::io::stdout().write_all(out.as_bytes());
        0
    }
}
