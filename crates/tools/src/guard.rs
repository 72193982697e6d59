//! Refuses commands that do not belong in the foreground: commands that detach, and commands that never return.
//!
//! Decision 58: docs/decisions/tools-mcp.md.

use crate::shell::{Line, Simple};
use std::fmt;

/// Why a command is refused in the foreground.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Misuse {
    /// It detaches: `nohup`, `disown`, `setsid`.
    Detaches(String),
    /// It starts a background job with `&`.
    Background,
    /// It does not return.
    LongLived(String),
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Detaches(word) => write!(
                f,
                "Foreground command uses '{word}', which would hide its process, its output and its end. Leave '{word}' out and call again with background=true: such a \
                 process outlasts the call by itself, and notify_on_complete=true tells you when it ends."
            ),
            Self::Background => f.write_str(
                "Foreground command puts something into the background with '&', whose output and end would be missed. Leave the '&' out and call again with \
                 background=true; if it is part of an argument, such as a URL, quote it.",
            ),
            Self::LongLived(what) => write!(
                f,
                "'{what}' starts a long-lived process, a server or a watcher, which would not return in the foreground. Call again with background=true, then find out \
                 with a second call whether it is ready, for instance with curl or the log of the process."
            ),
        }
    }
}

/// Why a command must not run in the foreground; `None` if it may.
///
/// ```
/// use outlast_tools::{Misuse, misuse};
///
/// assert_eq!(misuse("pnpm dev"), Some(Misuse::LongLived("pnpm dev".into())));
/// assert_eq!(misuse("pnpm add vite"), None);
/// assert_eq!(misuse("make & make install"), Some(Misuse::Background));
/// ```
pub fn misuse(command: &str) -> Option<Misuse> {
    let line = Line::read(command);
    let calls: Vec<ProgramCall<'_>> = line.commands.iter().filter_map(ProgramCall::of).collect();
    let detaches = || calls.iter().find(|c| matches!(c.name, "nohup" | "disown" | "setsid")).map(|c| Misuse::Detaches(c.name.into()));
    let background = || line.background.then_some(Misuse::Background);
    let long_lived = || calls.iter().filter(|c| !c.bounded).find_map(|c| long_lived(&c.words, MAX_DEPTH)).map(Misuse::LongLived);
    detaches().or_else(background).or_else(long_lived)
}

/// A program and its arguments, without wrappers such as `sudo`, `env` and `timeout`.
struct ProgramCall<'a> {
    name: &'a str,
    words: Vec<&'a str>,
    /// Whether `timeout` ends it.
    bounded: bool,
}

impl<'a> ProgramCall<'a> {
    /// `None` if the command calls no program, or only asks it for its help or version.
    fn of(command: &'a Simple) -> Option<Self> {
        let all: Vec<&str> = command.words.iter().map(String::as_str).collect();
        let mut words = &all[..];
        let about_itself = words.iter().any(|w| matches!(*w, "--help" | "--version")) || matches!(words, [_, .., "-h" | "-v"]);
        if about_itself {
            return None;
        }
        let mut bounded = false;
        loop {
            let skip = match base(words.first()?) {
                word if is_assignment(word) => 1,
                "if" | "then" | "else" | "elif" | "do" | "while" | "until" | "!" | "{" | "}" | "builtin" | "cross-env" => 1,
                // `command -v` only looks the command up.
                "command" if matches!(words.get(1), Some(&("-v" | "-V"))) => return None,
                "command" | "time" | "stdbuf" => flags(words, &[]),
                "exec" => flags(words, &["-a"]),
                "sudo" | "doas" => flags(words, &["-u", "--user", "-g", "--group", "-h", "--host", "-D", "--chdir", "-C"]),
                "env" => flags(words, &["-u", "--unset", "-C", "--chdir"]),
                "nice" => flags(words, &["-n", "--adjustment"]),
                "ionice" => flags(words, &["-c", "--class", "-n", "--classdata"]),
                "timeout" => {
                    bounded = true;
                    // The time follows its flags.
                    flags(words, &["-s", "--signal", "-k", "--kill-after"]) + 1
                }
                _ => break,
            };
            words = words.get(skip..)?;
        }
        let (name, rest) = words.split_first()?;
        Some(Self { name: base(name), words: [&[base(name)], rest].concat(), bounded })
    }
}

/// The program without its directory.
fn base(word: &str) -> &str {
    match word.rsplit('/').next() {
        Some(name) if !name.is_empty() && !is_assignment(word) => name,
        _ => word,
    }
}

/// `NAME=value`
pub(crate) fn is_assignment(word: &str) -> bool {
    let name = word.split('=').next().unwrap_or_default();
    let name = name.strip_suffix('+').unwrap_or(name);
    name.len() < word.len() && !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_name)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// The number of words of a command and its flags, with the values of those flags that take one.
fn flags(words: &[&str], valued: &[&str]) -> usize {
    let mut at = 1;
    while let Some(word) = words.get(at) {
        match *word {
            "--" => return at + 1,
            flag if valued.contains(&flag) => at += 2,
            flag if flag.starts_with('-') && flag.len() > 1 => at += 1,
            _ => break,
        }
    }
    at
}

/// The words after a command and its flags.
fn after_flags<'a, 'w>(words: &'w [&'a str], valued: &[&str]) -> &'w [&'a str] {
    words.get(flags(words, valued)..).unwrap_or_default()
}

const PACKAGE_FLAGS: &[&str] = &["--prefix", "-C", "--cwd", "--dir", "--filter", "-F", "-w", "--workspace"];
const COMPOSE_FLAGS: &[&str] =
    &["-f", "--file", "-p", "--project-name", "--profile", "--env-file", "--project-directory", "--parallel", "--progress", "--ansi"];

/// The deepest nesting of programs that start one another on a line.
const MAX_DEPTH: u32 = 8;

/// The part of a call that never returns, as text; `None` if the call ends by itself or is unknown.
fn long_lived(call: &[&str], depth: u32) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let (name, rest) = call.split_first()?;
    let name = base(name);
    let found = |what: &str| format!("{name} {what}");
    match name {
        "npm" | "pnpm" | "yarn" | "bun" => package_manager(name, after_flags(call, PACKAGE_FLAGS), depth),
        "npx" | "bunx" | "pnpx" => long_lived(after_flags(call, &["-p", "--package"]), depth),
        "uv" | "poetry" | "pipenv" | "pdm" | "rye" | "hatch" => match after_flags(call, &["-C", "--directory", "--project"]) {
            run @ ["run", ..] => long_lived(after_flags(run, &["--with", "--python", "-p", "--extra", "--group"]), depth),
            _ => None,
        },
        "docker" | "podman" => match after_flags(call, &["-c", "--context", "-H", "--host", "--config", "-l", "--log-level"]) {
            compose @ ["compose", ..] => stays_up(after_flags(compose, COMPOSE_FLAGS)).then(|| found("compose up")),
            _ => None,
        },
        "docker-compose" | "podman-compose" => stays_up(after_flags(call, COMPOSE_FLAGS)).then(|| found("up")),
        "next" => rest.first().filter(|w| matches!(**w, "dev" | "start")).map(|w| found(w)),
        "vite" => (!rest.iter().any(|w| matches!(*w, "build" | "optimize"))).then(|| name.to_owned()),
        "nodemon" | "uvicorn" => Some(name.to_owned()),
        "gunicorn" => (!rest.iter().any(|w| matches!(*w, "--check-config" | "--print-config"))).then(|| name.to_owned()),
        python if is_python(python) => match rest.iter().position(|w| *w == "-m").and_then(|at| rest.get(at + 1..)) {
            Some(["http.server", ..]) => Some(found("-m http.server")),
            Some(module @ ["uvicorn" | "gunicorn", ..]) => long_lived(module, depth),
            _ => None,
        },
        _ => None,
    }
}

fn package_manager(name: &str, words: &[&str], depth: u32) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    match words {
        ["workspace", _, rest @ ..] if name == "yarn" => package_manager(name, rest, depth),
        ["exec" | "dlx" | "x", ..] => long_lived(after_flags(words, &["-p", "--package"]), depth),
        ["run" | "run-script", ..] => {
            let script = after_flags(words, PACKAGE_FLAGS).first().copied().filter(|s| is_long_lived_script(s))?;
            Some(format!("{name} run {script}"))
        }
        [script, ..] if is_long_lived_script(script) => Some(format!("{name} {script}")),
        // These package managers also run an installed program by its name.
        [_, ..] if matches!(name, "pnpm" | "yarn" | "bun") => long_lived(words, depth),
        _ => None,
    }
}

fn is_long_lived_script(script: &str) -> bool {
    matches!(script, "dev" | "start" | "serve" | "watch")
}

/// Whether `up` with these flags stays in the foreground.
fn stays_up(words: &[&str]) -> bool {
    let ends = |word: &&str| match *word {
        "--detach" | "--wait" | "--no-start" | "--abort-on-container-exit" | "--abort-on-container-failure" | "--exit-code-from" => true,
        long if long.starts_with("--") => long.starts_with("--exit-code-from=") || long == "--detach=true",
        short => short.starts_with('-') && short.contains('d'),
    };
    matches!(words, ["up", flags @ ..] if !flags.iter().any(ends))
}

fn is_python(name: &str) -> bool {
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy")).or((name == "py").then_some(""));
    version.is_some_and(|v| v.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn case_237_what_hides_or_never_returns_is_refused() {
        for line in [
            "nohup pnpm dev > /tmp/log 2>&1 &",
            "nohup ./server",
            "cd app && nohup ./server",
            "sleep 1; /usr/bin/nohup x",
            "FOO=1 nohup x",
            "sudo -u web nohup x",
            "(nohup x)",
            "if true; then nohup x; fi",
            "echo $(nohup x &)",
        ] {
            assert_eq!(misuse(line), Some(Misuse::Detaches("nohup".into())), "{line}");
        }
        assert_eq!(misuse("x & disown"), Some(Misuse::Detaches("disown".into())));
        assert_eq!(misuse("setsid -f x"), Some(Misuse::Detaches("setsid".into())));
        for line in ["sleep 100 &", "sleep 100&", "a & b", "a & # later", "python3 -m http.server & sleep 1", "(a; b) &"] {
            assert_eq!(misuse(line), Some(Misuse::Background), "{line}");
        }
        for (line, what) in [
            ("pnpm dev", "pnpm dev"),
            ("npm start", "npm start"),
            ("npm run dev", "npm run dev"),
            ("npm run -s watch", "npm run watch"),
            ("cd web && npm run serve -- --port 80", "npm run serve"),
            ("yarn workspace web dev", "yarn dev"),
            ("pnpm --filter web dev", "pnpm dev"),
            ("npm --prefix web run dev", "npm run dev"),
            ("bun run dev | tee log", "bun run dev"),
            ("docker compose up", "docker compose up"),
            ("docker compose -f a.yml up --build web", "docker compose up"),
            ("docker-compose up", "docker-compose up"),
            ("next dev", "next dev"),
            ("npx next dev -p 3000", "next dev"),
            ("vite", "vite"),
            ("npx -y vite --host", "vite"),
            ("./node_modules/.bin/vite preview", "vite"),
            ("yarn vite", "vite"),
            ("nodemon app.js", "nodemon"),
            ("uvicorn app:app --reload", "uvicorn"),
            ("uv run uvicorn app:app", "uvicorn"),
            ("poetry run gunicorn app", "gunicorn"),
            ("python -m http.server 8000", "python -m http.server"),
            ("python3.12 -u -m http.server", "python3.12 -m http.server"),
            ("PORT=1 env X=2 python -m uvicorn app", "uvicorn"),
            ("exec gunicorn app", "gunicorn"),
        ] {
            assert_eq!(misuse(line), Some(Misuse::LongLived(what.into())), "{line}");
        }
    }

    #[test]
    fn case_239_what_only_looks_like_it_is_not_refused() {
        for line in [
            "npm install vite",
            "npm update vite",
            "npm i -D nodemon",
            "pnpm add vite",
            "yarn add next",
            "bun add vite",
            "pip install uvicorn gunicorn",
            "docker compose up -d",
            "docker compose up --detach web",
            "docker compose -f a.yml up --build -d",
            "docker-compose up -Vd",
            "docker compose up --abort-on-container-exit",
            "docker compose down && docker compose up --wait",
            "docker compose logs",
            "vite build",
            "npx vite build --mode production",
            "next build",
            "npm run build",
            "npm run dev:check",
            "npm test",
            "pnpm dev --help",
            "uvicorn --version",
            "npm run dev -h",
            "which nohup",
            "command -v nohup",
            "man setsid",
            "grep -rn nohup .",
            "echo 'nohup x &'",
            "git commit -m \"start server & nohup it\"",
            "cat > run.sh <<'EOF'\nnohup ./server &\nEOF",
            "rg vite package.json",
            "cat vite.config.ts",
            "timeout 5 npm run dev",
            "timeout -k 1 5 uvicorn app",
            "make 2>&1 | tee log",
            "make &> log",
            "python -m pytest",
            "python manage.py test",
            "curl 'http://localhost/?a=1&b=2'",
            "gunicorn --check-config app",
            "true",
            "",
        ] {
            assert_eq!(misuse(line), None, "{line}");
        }
    }

    #[test]
    fn a_refusal_says_what_to_do() {
        for misuse in [Misuse::Detaches("nohup".into()), Misuse::Background, Misuse::LongLived("vite".into())] {
            assert!(misuse.to_string().contains("background=true"), "{misuse}");
        }
        assert!(Misuse::LongLived("vite".into()).to_string().contains("long-lived"));
    }

    proptest! {
        #[test]
        fn any_command_is_judged(line in ".{0,80}") {
            misuse(&line);
        }

        #[test]
        fn any_words_are_judged(words in proptest::collection::vec(proptest::sample::select(vec![
            "npm", "pnpm", "yarn", "run", "exec", "docker", "compose", "up", "-d", "--", "sudo", "-u", "env", "timeout", "5", "python", "-m", "A=1", "workspace", "npx", "uv",
            "command", "-v", "{", "if", "&", "(", ")", ";",
        ]), 0..10)) {
            misuse(&words.join(" "));
        }
    }
}
