//! Reads the arguments of every command from its usage. Arguments that the usage does not name are refused before anything runs.

use anyhow::{Result, bail};

pub(crate) const USAGE: &str = "\
usage: cargo xtask api [--record]
       cargo xtask check
       cargo xtask dist [--to DIR] [--try]
       cargo xtask picture [--to FILE] [--program PATH]
       cargo xtask campaign agents [NAME]... [--prefix DIR] [--program PATH]
       cargo xtask campaign clients [NAME]... [--prefix DIR] [--only SCENE] [--record] [--facts FILE] [--program PATH]
       cargo xtask campaign core [--rounds N] [--seed S] [--homes N] [--only ROUND] [--home-on DIR [--fill]] [--program PATH]
       cargo xtask campaign flood [--seconds N] [--program PATH]
       cargo xtask campaign fuzz [--seconds N] [--target NAME]
       cargo xtask campaign gateway [--rounds N] [--seed S] [--homes N] [--only ROUND] [--program PATH] [--agent NAME [--prefix DIR]]
       cargo xtask campaign histories [--cases N] [--orders N]
       cargo xtask campaign mcp [--only conformance|inspector|python] [--program PATH]
       cargo xtask campaign nameserver [--seconds N] [--program PATH]
       cargo xtask campaign notices [--rounds N] [--seed S] [--homes N] [--only ROUND] [--program PATH]
       cargo xtask campaign places [PLACE]... [--program PATH] [--list] [--record] [--tests]
       cargo xtask campaign stop [--rounds N] [--seed S] [--program PATH]
       cargo xtask campaign upgrade [--from COMMIT | --old PATH] [--program PATH]
       cargo xtask bench [start|rate|end|output|memory|queries|crash] [--rounds N] [--quick] [--without PEER,...] [--idle-wait SECONDS] [--program PATH]
       cargo xtask bench gateway [--ends N] [--opens N] [--conversations N] [--rounds N] [--home-on DIR] [--program PATH]
       cargo xtask bench mcp [--calls N] [--rounds N] [--agents N] [--program PATH]
       cargo xtask bench notices [--ends N] [--old N] [--program PATH]
       cargo xtask bench plots
       cargo xtask bench recovery [--processes N] [--rounds N] [--program PATH]
       cargo xtask bench scan [--rounds N] [--millis N] [--program PATH]
       cargo xtask bench search [--rounds N]
       cargo xtask bench tokens";

/// One line of the usage.
struct Line {
    text: &'static str,
    command: Vec<&'static str>,
    switches: Vec<&'static str>,
    with_value: Vec<&'static str>,
    /// Whether words may follow the command, and which, if only some may.
    words: Option<Vec<&'static str>>,
}

fn lines() -> impl Iterator<Item = Line> {
    USAGE.lines().map(|text| {
        let mut tokens = text.split_whitespace().skip_while(|token| *token != "xtask").skip(1).peekable();
        let mut line = Line { text, command: Vec::new(), switches: Vec::new(), with_value: Vec::new(), words: None };
        while let Some(token) = tokens.next_if(|token| !token.starts_with(['[', '-'])) {
            line.command.push(token);
        }
        while let Some(token) = tokens.next() {
            let name = token.trim_matches(['[', ']', '.']);
            let has_value = !token.ends_with(']') && tokens.peek().is_some_and(|next| !next.starts_with(['[', '-', '|']));
            match name.starts_with("--") {
                true if has_value => {
                    line.with_value.push(name);
                    tokens.next();
                }
                true => line.switches.push(name),
                false if name == "|" => {}
                false => line.words = Some(if name.contains('|') { name.split('|').collect() } else { Vec::new() }),
            }
        }
        line
    })
}

/// A parsed call.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The usage of this command.
    Help(String),
    /// The command, with these words among its arguments that are neither flags nor their values.
    Run(Vec<String>),
}

/// Reads the arguments of a call, and refuses those that its command does not have.
pub(crate) fn read(args: &[String]) -> Result<Asked> {
    let is_called = |line: &Line| line.command.len() <= args.len() && line.command.iter().zip(args).all(|(word, arg)| word == arg);
    let line = lines().filter(is_called).max_by_key(|line| line.command.len());
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        return Ok(Asked::Help(line.map_or_else(|| help_for(args), |line| usage_of(line.text))));
    }
    let Some(line) = line else { bail!("{}", help_for(args)) };
    let (name, usage) = (line.command.join(" "), usage_of(line.text));
    let mut words = Vec::new();
    let mut rest = args[line.command.len()..].iter();
    while let Some(arg) = rest.next() {
        let arg = arg.as_str();
        if line.with_value.contains(&arg) {
            if rest.next().is_none_or(|value| value.starts_with("--")) {
                bail!("{arg} needs a value\n{usage}");
            }
        } else if arg.starts_with('-') && !line.switches.contains(&arg) {
            bail!("{name} has no flag {arg}\n{usage}");
        } else if !arg.starts_with('-') {
            match &line.words {
                Some(known) if known.is_empty() || known.contains(&arg) => words.push(arg.to_owned()),
                Some(_) | None => bail!("{name} does not take {arg:?}\n{usage}"),
            }
        }
    }
    Ok(Asked::Run(words))
}

fn usage_of(line: &str) -> String {
    format!("usage: {}", line.trim_start_matches("usage:").trim())
}

/// The lines of a group of commands, such as `campaign`, or all of them.
fn help_for(args: &[String]) -> String {
    let group: Vec<String> =
        lines().filter(|line| line.command.first().copied() == args.first().map(String::as_str)).map(|line| usage_of(line.text)).collect();
    if group.is_empty() { USAGE.to_owned() } else { group.join("\n") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> Result<Asked> {
        read(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    fn words(text: &str) -> Vec<String> {
        match asked(text) {
            Ok(Asked::Run(words)) => words,
            other => panic!("{text}: {other:?}"),
        }
    }

    /// Such a word used to be ignored, and the whole campaign ran.
    #[test]
    fn help_is_the_usage_of_the_command_and_what_it_does_not_have_is_refused() {
        let Ok(Asked::Help(help)) = asked("campaign gateway --help") else { panic!("no help") };
        assert!(help.starts_with("usage: cargo xtask campaign gateway [--rounds N]") && help.lines().count() == 1, "{help}");
        let Ok(Asked::Help(help)) = asked("campaign -h") else { panic!("no help") };
        assert!(help.contains("campaign core") && !help.contains("bench"), "{help}");
        assert_eq!(asked("--help").unwrap(), Asked::Help(USAGE.to_owned()));
        for (refused, why) in [
            ("campaign gateway --round 3", "campaign gateway has no flag --round"),
            ("campaign gateway 3", "campaign gateway does not take \"3\""),
            ("campaign gateway --rounds", "--rounds needs a value"),
            ("campaign gateway --rounds --seed 1", "--rounds needs a value"),
            ("campaign core --quick", "campaign core has no flag --quick"),
            ("campaign nothing", "usage: cargo xtask campaign agents"),
            ("bench sleep", "bench does not take \"sleep\""),
            ("bench tokens --rounds 3", "bench tokens has no flag --rounds"),
            ("check now", "check does not take \"now\""),
            ("", "usage: cargo xtask api"),
        ] {
            let error = asked(refused).unwrap_err().to_string();
            assert!(error.starts_with(why), "{refused}: {error}");
        }
    }

    #[test]
    fn what_a_command_has_is_taken() {
        assert!(words("campaign core --rounds 3 --home-on /x --fill --program outlast").is_empty());
        assert!(words("campaign upgrade --old outlast").is_empty());
        assert!(words("campaign mcp --only inspector").is_empty());
        assert!(words("api --record").is_empty());
        assert_eq!(words("campaign agents kimi --prefix dir hermes"), ["kimi", "hermes"]);
        assert_eq!(words("campaign places --tests docker"), ["docker"]);
        assert_eq!(words("bench --quick start --without pueue,tmux"), ["start"]);
    }
}
