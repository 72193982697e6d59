//! What begins with a slash at the prompt.

/// One of our commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlashCommand {
    New,
    /// What is suspended or interrupted, or an earlier conversation by its number.
    Resume(Option<u64>),
    Stop,
    Status,
    Restart,
    Help,
    Quit,
}

/// Each with its name and what it does.
pub(super) const ALL: [(SlashCommand, &str, &str); 7] = [
    (SlashCommand::New, "/new", "start anew: the agent forgets what was said"),
    (
        SlashCommand::Resume(None),
        "/resume",
        "continue a suspended conversation, or an interrupted reply; /resume N an earlier conversation",
    ),
    (SlashCommand::Stop, "/stop", "stop the reply, as Ctrl-C does"),
    (SlashCommand::Status, "/status", "show how the conversation stands"),
    (SlashCommand::Restart, "/restart", "restart the gateway; the conversation goes on"),
    (SlashCommand::Help, "/help", "show this"),
    (SlashCommand::Quit, "/quit", "leave, as Ctrl-D does; a reply goes on"),
];

/// What a line at the prompt is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entered {
    Nothing,
    Command(SlashCommand),
    /// It looks like a command, and is none.
    Unknown(String),
    Words(String),
}

/// Tells what a line is. Two slashes at its beginning are one slash of a message; a path is a message, too.
pub(super) fn read(line: &str) -> Entered {
    let text = line.trim();
    if text.is_empty() {
        return Entered::Nothing;
    }
    if let Some(rest) = text.strip_prefix("//") {
        return Entered::Words(format!("/{rest}"));
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    let is_word = first.len() > 1 && first.starts_with('/') && first[1..].chars().all(|c| c.is_ascii_lowercase());
    if !is_word {
        return Entered::Words(text.to_owned());
    }
    if let Some(number) = text.strip_prefix("/resume ").and_then(|rest| rest.trim().parse().ok()) {
        return Entered::Command(SlashCommand::Resume(Some(number)));
    }
    match ALL.iter().find(|(_, name, _)| *name == text) {
        Some((command, ..)) => Entered::Command(*command),
        None => Entered::Unknown(first.to_owned()),
    }
}

/// The names that begin as the line does.
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
        assert_eq!(read("/resume"), Entered::Command(SlashCommand::Resume(None)));
        assert_eq!(read("/resume  2 "), Entered::Command(SlashCommand::Resume(Some(2))));
        for other in ["/resume two", "/resume -1", "/resume 2 3"] {
            assert_eq!(read(other), Entered::Unknown("/resume".into()));
        }
        assert_eq!(read("/knew"), Entered::Unknown("/knew".into()));
        assert_eq!(read("/new plan"), Entered::Unknown("/new".into()));
        assert_eq!(read("//new"), Entered::Words("/new".into()));
        for words in ["/etc/hosts is odd", "/", "a /new", "/1"] {
            assert_eq!(read(words), Entered::Words(words.into()));
        }
    }

    #[test]
    fn commands_are_completed() {
        assert_eq!(complete("/re"), ["/resume", "/restart"]);
        assert_eq!(complete("/q"), ["/quit"]);
        assert_eq!(complete("/").len(), ALL.len());
        assert!(complete("re").is_empty() && complete("/x").is_empty());
    }
}
