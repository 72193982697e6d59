//! How long each client waits for an answer.
//!
//! Decision 350: docs/decisions/tools-mcp.md.

use outlast_tools::Profile;
use std::time::Duration;

/// What is known of how long a client waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Patience {
    /// The client does not give up before this. An answer that comes later may not reach its model. `None` if it waits for minutes or for ever.
    pub(crate) gives_up_after: Option<Duration>,
    /// How long a call may take that does not say how long to wait. `None` for the tools' own default.
    pub(crate) answer_within: Option<Duration>,
}

/// When a client gives up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GivesUp {
    Never,
    /// This many seconds after its call.
    After(u64),
    /// This many seconds after its call, or after the last progress message if it asks for them. They come more often than that.
    AfterSilence(u64),
}

/// Clients by the beginning of the name that they give, in lower case, and when they give up, as measured: docs/agents/README.md.
const KNOWN: [(&str, GivesUp); 12] = [
    ("gemini-cli-mcp-client", GivesUp::Never),
    ("qwen-cli-mcp-client", GivesUp::After(300)),
    ("@cline/", GivesUp::After(60)),
    ("cline", GivesUp::After(60)),
    ("codex", GivesUp::After(300)),
    ("opencode", GivesUp::AfterSilence(60)),
    ("kimi-code", GivesUp::After(60)),
    ("hermes", GivesUp::After(300)),
    ("fastmcp", GivesUp::After(300)),
    ("fast-agent-mcp", GivesUp::Never),
    // Documented, not measured: its default is longer than a day.
    ("claude-code", GivesUp::Never),
    ("claude code", GivesUp::Never),
];

/// The name of every client that is made with the Python SDK and gives none of its own. openai-agents is one, and gives up first.
const PYTHON_SDK: &str = "mcp";
const SHORTEST_KNOWN: Duration = Duration::from_secs(5);
/// The default of the TypeScript SDK, whose clients have names of their own.
const TYPESCRIPT_SDK: Duration = Duration::from_secs(60);
/// How long a call takes by default if its client may give up after [`SHORTEST_KNOWN`].
const CAREFUL: Duration = Duration::from_secs(4);
/// What is left for starting, reading and sending, if a call waits as long as the client allows.
const MARGIN: Duration = Duration::from_secs(5);

impl Patience {
    /// By the client's name, or by the profile that the server was started with: Hermes gives the Python SDK's name. `has_progress`: the call
    /// asks for progress messages.
    pub(crate) fn of(name: &str, profile: Option<Profile>, has_progress: bool) -> Self {
        let name = name.trim().to_lowercase();
        let by_name = |name: &str| KNOWN.iter().find(|(known, _)| name.starts_with(known));
        let by_profile = || profile.filter(|one| *one != Profile::Native).and_then(|one| by_name(one.name()));
        match by_name(&name).or_else(by_profile) {
            Some((_, gives_up)) => {
                let gives_up_after = match *gives_up {
                    GivesUp::Never => None,
                    GivesUp::AfterSilence(_) if has_progress => None,
                    GivesUp::After(seconds) | GivesUp::AfterSilence(seconds) => Some(Duration::from_secs(seconds)),
                };
                Self { gives_up_after, answer_within: gives_up_after.map(|time| time - MARGIN) }
            }
            None => {
                let gives_up_after = if name == PYTHON_SDK { SHORTEST_KNOWN } else { TYPESCRIPT_SDK };
                Self { gives_up_after: Some(gives_up_after), answer_within: Some(CAREFUL) }
            }
        }
    }

    /// Whether the client may have given up on an answer that took this long.
    pub(crate) fn is_over(self, took: Duration) -> bool {
        self.gives_up_after.is_some_and(|time| took >= time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_without_a_wait_is_answered_before_its_client_gives_up() {
        let seconds = |name: &str, profile| {
            let known = Patience::of(name, profile, false);
            (known.answer_within.map(|t| t.as_secs()), known.gives_up_after.map(|t| t.as_secs()))
        };
        for (name, want) in [
            ("mcp", (Some(4), Some(5))),
            ("", (Some(4), Some(60))),
            ("my-program", (Some(4), Some(60))),
            ("@cline/core", (Some(55), Some(60))),
            ("kimi-code", (Some(55), Some(60))),
            ("codex-mcp-client", (Some(295), Some(300))),
            ("qwen-cli-mcp-client-outlast", (Some(295), Some(300))),
            ("Gemini-CLI-mcp-client", (None, None)),
        ] {
            assert_eq!(seconds(name, None), want, "{name}");
        }
        assert_eq!(seconds("mcp", Some(Profile::Hermes)), (Some(295), Some(300)), "Hermes gives no name of its own");
        assert_eq!(seconds("mcp", Some(Profile::Native)), (Some(4), Some(5)));
        assert_eq!(seconds("opencode", None), (Some(55), Some(60)));
        assert_eq!(Patience::of("opencode", None, true).gives_up_after, None, "each progress message has it wait again");
        assert_eq!(Patience::of("kimi-code", None, true).gives_up_after, Some(Duration::from_secs(60)));
        for (name, _) in KNOWN {
            let Patience { gives_up_after, answer_within } = Patience::of(name, None, false);
            assert!(gives_up_after.is_none() || answer_within < gives_up_after, "{name}");
        }
    }
}
