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

/// Clients by the beginning of the name that they give, in lower case, and the seconds after which they give up, as measured: docs/agents/README.md.
const KNOWN: [(&str, Option<u64>); 12] = [
    ("gemini-cli-mcp-client", None),
    ("qwen-cli-mcp-client", Some(300)),
    ("@cline/", Some(60)),
    ("cline", Some(60)),
    ("codex", Some(300)),
    ("opencode", Some(60)),
    ("kimi-code", Some(60)),
    ("hermes", Some(300)),
    ("fastmcp", Some(300)),
    ("fast-agent-mcp", None),
    // Documented, not measured: its default is longer than a day.
    ("claude-code", None),
    ("claude code", None),
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
    /// By the client's name, or by the profile that the server was started with: Hermes gives the Python SDK's name.
    pub(crate) fn of(name: &str, profile: Option<Profile>) -> Self {
        let name = name.trim().to_lowercase();
        let by_name = |name: &str| KNOWN.iter().find(|(known, _)| name.starts_with(known));
        let by_profile = || profile.filter(|one| *one != Profile::Native).and_then(|one| by_name(one.name()));
        match by_name(&name).or_else(by_profile) {
            Some((_, seconds)) => {
                let gives_up_after = seconds.map(Duration::from_secs);
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
            let known = Patience::of(name, profile);
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
        for (name, _) in KNOWN {
            let Patience { gives_up_after, answer_within } = Patience::of(name, None);
            assert!(gives_up_after.is_none() || answer_within < gives_up_after, "{name}");
        }
    }
}
