//! Which commands print configuration.

/// Whether a command prints the environment, or reads a file that is made to hold secrets.
pub(crate) fn prints_configuration(command: &str) -> bool {
    any_segment(command, 0)
}

/// Shells in shells are followed this deep.
const DEEPEST: usize = 3;

fn any_segment(command: &str, depth: usize) -> bool {
    segments(command).iter().any(|words| is_printer(words, depth))
}

fn is_printer(words: &[String], depth: usize) -> bool {
    let words = without_preamble(words);
    let Some((first, arguments)) = words.split_first() else {
        return false;
    };
    let program = base(first);
    if PRINTERS.contains(&program) {
        return true;
    }
    if READERS.contains(&program) && arguments.iter().any(|word| is_secret_file(word)) {
        return true;
    }
    if SHELLS.contains(&program) && depth < DEEPEST {
        let script = arguments.iter().skip_while(|word| !is_command_flag(word)).nth(1);
        return script.is_some_and(|script| any_segment(script, depth + 1));
    }
    ELSEWHERE.contains(&program)
        && arguments.iter().any(|word| PRINTERS.contains(&base(word)) || (depth < DEEPEST && any_segment(word, DEEPEST)))
}

/// Leaves out assignments, and programs that only run the next one.
fn without_preamble(mut words: &[String]) -> &[String] {
    while let Some((first, rest)) = words.split_first() {
        let is_assignment =
            first.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'));
        if !is_assignment && !RUNNERS.contains(&base(first)) {
            break;
        }
        words = rest;
    }
    words
}

fn is_command_flag(word: &str) -> bool {
    word.starts_with('-') && !word.starts_with("--") && word.ends_with('c')
}

fn is_secret_file(word: &str) -> bool {
    // A file may follow an option (`--file=.env`) or a redirection (`<.env`).
    let path = word.rsplit(['=', '<', '@']).next().unwrap_or(word);
    let name = base(path);
    let is_env = name == ".env" || name.starts_with(".env.") || name.ends_with(".env");
    let is_sample = ["example", "sample", "template", "dist"].iter().any(|end| name.ends_with(end));
    (is_env && !is_sample)
        || SECRET_FILES.contains(&name)
        || SECRET_PATHS.iter().any(|end| path.ends_with(end))
        || (path.starts_with("/proc/") && name == "environ")
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

const PRINTERS: &[&str] = &["env", "printenv", "set", "export", "declare", "typeset", "readonly"];

const RUNNERS: &[&str] = &["sudo", "doas", "command", "builtin", "exec", "time", "nohup", "nice", "then", "do", "else", "!", "{"];

/// Programs that run another one somewhere else: `docker exec app env`, `ssh host 'cd x; env'`.
const ELSEWHERE: &[&str] = &[
    "ssh",
    "docker",
    "podman",
    "nerdctl",
    "kubectl",
    "oc",
    "lxc",
    "chroot",
    "apptainer",
    "singularity",
    "bwrap",
    "timeout",
    "xargs",
    "heroku",
    "fly",
    "flyctl",
    "vagrant",
    "direnv",
    "poetry",
    "uv",
    "npx",
    "docker-compose",
];

const SHELLS: &[&str] = &["sh", "bash", "zsh", "dash", "ksh", "fish"];

const READERS: &[&str] = &[
    "cat", "tac", "head", "tail", "less", "more", "bat", "batcat", "nl", "grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "gawk",
    "mawk", "cut", "sort", "uniq", "tr", "strings", "jq", "yq", "xargs", "tee", "diff", "paste", "column", "fold", "pr", "od", "xxd",
    "hexdump",
];

const SECRET_FILES: &[&str] = &[
    ".envrc",
    "environment",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".kshrc",
    ".cshrc",
    ".tcshrc",
    "config.fish",
    ".netrc",
    "_netrc",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pgpass",
    ".my.cnf",
    ".git-credentials",
    ".bash_history",
    ".zsh_history",
    ".s3cfg",
    ".boto",
    "credentials",
    "credentials.json",
    "credentials.toml",
    "auth.json",
    "secrets.json",
    "secrets.yml",
    "secrets.yaml",
    "secrets.toml",
    "secrets.env",
    ".mcp.json",
    "mcp.json",
    ".claude.json",
];

const SECRET_PATHS: &[&str] = &[
    "outlast/config.toml",
    ".codex/config.toml",
    ".claude/settings.json",
    ".claude/settings.local.json",
    ".gemini/settings.json",
    ".docker/config.json",
    ".kube/config",
    ".aws/config",
    "gh/hosts.yml",
];

/// The simple commands of a shell line, each as its words. Quotes are followed, expansions are not.
fn segments(command: &str) -> Vec<Vec<String>> {
    let mut segments = vec![Vec::new()];
    let mut word = String::new();
    let mut in_word = false;
    let mut quote = None::<char>;
    let mut characters = command.chars().peekable();
    let end_word = |word: &mut String, in_word: &mut bool, segments: &mut Vec<Vec<String>>| {
        if std::mem::take(in_word)
            && let Some(last) = segments.last_mut()
        {
            last.push(std::mem::take(word));
        }
    };
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None | Some('"'), '\\') => {
                word.extend(characters.next());
                in_word = true;
            }
            (Some(_), _) => word.push(character),
            (None, '\'' | '"') => {
                quote = Some(character);
                in_word = true;
            }
            (None, '|' | '&' | ';' | '\n' | '(' | ')' | '`') => {
                end_word(&mut word, &mut in_word, &mut segments);
                segments.push(Vec::new());
            }
            (None, _) if character.is_whitespace() => {
                end_word(&mut word, &mut in_word, &mut segments);
            }
            (None, _) => {
                word.push(character);
                in_word = true;
            }
        }
    }
    end_word(&mut word, &mut in_word, &mut segments);
    segments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_print_configuration() {
        let commands = [
            "env",
            "printenv",
            "printenv | sort",
            "cd /srv && env",
            "/usr/bin/env",
            "FOO=1 sudo printenv HOME",
            "set",
            "export -p",
            "declare -x",
            "true; echo $(env)",
            "sleep 1 & env",
            "bash -lc 'cd x && printenv'",
            "docker exec app env",
            "ssh host printenv",
            "ssh host 'cd x && env'",
            "cat .env",
            "cat ./app/.env.production",
            "head -5 prod.env",
            "grep TOKEN ~/.bashrc",
            "sed -n 1,5p \"$HOME/.zshrc\"",
            "awk '{print}' < .env",
            "cat /proc/self/environ | tr '\\0' '\\n'",
            "cat ~/.config/outlast/config.toml",
            "cat ~/.aws/credentials",
        ];
        for command in commands {
            assert!(prints_configuration(command), "{command}");
        }
    }

    #[test]
    fn other_commands() {
        let commands = [
            "",
            "ls",
            "echo env",
            "cat src/env.rs",
            "cat .env.example",
            "grep -r set src",
            "cargo build",
            "echo 'a | env'",
            "settle && exporter",
            "touch .env",
            "python -c 'print(1)'",
        ];
        for command in commands {
            assert!(!prints_configuration(command), "{command}");
        }
    }
}
