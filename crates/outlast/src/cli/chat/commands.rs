//! Commands at the prompt, which begin with a slash.

use super::super::table::cut;
use outlast_core::nearest;

/// How much of a refused line is quoted.
const MAX_QUOTED_WIDTH: usize = 40;

/// One of our commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlashCommand {
    New,
    /// Resume what is suspended or interrupted, or an earlier generation by its number.
    Resume(Option<u64>),
    Stop,
    Status,
    History,
    Restart,
    Help,
    Quit,
}

/// All commands, with name and description.
pub(super) const ALL: [(SlashCommand, &str, &str); 8] = [
    (SlashCommand::New, "/new", "start a new generation of this conversation: the agent forgets what was said"),
    (
        SlashCommand::Resume(None),
        "/resume",
        "continue a suspended conversation, or an interrupted reply; /resume N goes back to generation N",
    ),
    (SlashCommand::Stop, "/stop", "stop the reply, as Ctrl-C does"),
    (SlashCommand::Status, "/status", "show how the conversation stands"),
    (SlashCommand::History, "/history", "list the generations of this conversation: what was said from one /new to the next"),
    (SlashCommand::Restart, "/restart", "restart the gateway; the conversation continues"),
    (SlashCommand::Help, "/help", "show this"),
    (SlashCommand::Quit, "/quit", "leave, like Ctrl-D; the agent keeps writing its reply"),
];

/// The meaning of a line at the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entered {
    Nothing,
    Command(SlashCommand),
    /// An unknown command, or one with wrong arguments; with the message for the user.
    Refused(String),
    Words(String),
}

/// Parses a line. With two slashes at its start it is a message, by which the gateway gives the agent a command of its own. If the first word
/// has a second slash, it is a path, and the line is a message.
pub(super) fn read(line: &str) -> Entered {
    let text = line.trim();
    if text.is_empty() {
        return Entered::Nothing;
    }
    if text.starts_with("//") {
        return Entered::Words(text.to_owned());
    }
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let first = if first == "/exit" { "/quit" } else { first };
    if first.strip_prefix('/').is_none_or(|name| name.contains('/')) {
        return Entered::Words(text.to_owned());
    }
    let Some((command, ..)) = ALL.iter().find(|(_, name, _)| *name == first) else { return Entered::Refused(unknown(first)) };
    match (command, rest) {
        (command, "") => Entered::Command(*command),
        (SlashCommand::Resume(_), number) => match number.parse() {
            Ok(number) => Entered::Command(SlashCommand::Resume(Some(number))),
            Err(_) => Entered::Refused(format!(
                "{first} takes the number of an earlier generation, not `{}`; /history lists them",
                quoted(number)
            )),
        },
        (_, words) => Entered::Refused(format!(
            "{first} takes no arguments; `/{first} {}` gives it to the agent, as a command of its own",
            quoted(words)
        )),
    }
}

fn unknown(name: &str) -> String {
    if name == "/" {
        return "there is no command without a name: /help shows the commands".into();
    }
    let known = ALL.map(|(_, name, _)| &name[1..]);
    let near = nearest(&name[1..], known).first().map_or(":".to_owned(), |near| format!("; did you mean /{near}?"));
    let name = quoted(name);
    format!("there is no {name}{near} /help shows the commands, `/{name}` gives it to the agent, as a command of its own")
}

fn quoted(text: &str) -> String {
    cut(text, MAX_QUOTED_WIDTH)
}

/// The commands that start with this line.
pub(super) fn complete(line: &str) -> Vec<&'static str> {
    if !line.starts_with('/') {
        return Vec::new();
    }
    ALL.iter().map(|(_, name, _)| *name).filter(|name| name.starts_with(line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_command_or_words() {
        assert_eq!(read("  "), Entered::Nothing);
        assert_eq!(read(" /new "), Entered::Command(SlashCommand::New));
        assert_eq!(read("/exit"), Entered::Command(SlashCommand::Quit));
        assert_eq!(read("/resume"), Entered::Command(SlashCommand::Resume(None)));
        assert_eq!(read("/resume  2 "), Entered::Command(SlashCommand::Resume(Some(2))));
        assert_eq!(read("//new"), Entered::Words("//new".into()));
        assert_eq!(read("//"), Entered::Words("//".into()));
        for words in ["/etc/hosts is odd", "/etc/", "a /new", "a / b"] {
            assert_eq!(read(words), Entered::Words(words.into()));
        }
    }

    #[test]
    fn a_command_with_wrong_arguments_is_answered_with_what_is_wrong() {
        let refused = |line: &str| match read(line) {
            Entered::Refused(why) => why,
            other => panic!("{line}: {other:?}"),
        };
        for (_, name, _) in ALL.iter().filter(|(command, ..)| *command != SlashCommand::Resume(None)) {
            let want = format!("{name} takes no arguments; `/{name} x y` gives it to the agent, as a command of its own");
            assert_eq!(refused(&format!("{name}  x y")), want);
        }
        for number in ["two", "-1", "2 3", "99999999999999999999"] {
            let want = format!("/resume takes the number of an earlier generation, not `{number}`; /history lists them");
            assert_eq!(refused(&format!("/resume {number}")), want);
        }
        assert_eq!(
            refused("/knew"),
            "there is no /knew; did you mean /new? /help shows the commands, `//knew` gives it to the agent, as a command of its own"
        );
        assert!(refused("/Status").contains("did you mean /status?"), "{}", refused("/Status"));
        assert_eq!(
            refused("/frobnicate it"),
            "there is no /frobnicate: /help shows the commands, `//frobnicate` gives it to the agent, as a command of its own"
        );
        for line in ["/", "/ x", "/1", "/new-one", "/é"] {
            assert!(refused(line).starts_with("there is no "), "{line}");
        }
        assert!(refused(&format!("/stop {}", "x".repeat(1000))).len() < 200);
    }

    #[test]
    fn commands_are_completed() {
        assert_eq!(complete("/re"), ["/resume", "/restart"]);
        assert_eq!(complete("/q"), ["/quit"]);
        assert_eq!(complete("/").len(), ALL.len());
        assert!(complete("re").is_empty() && complete("/x").is_empty());
    }
}
