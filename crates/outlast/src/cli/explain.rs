//! Texts for users who type a verb that is meant to be run by other programs.

use super::{Context, Failure};
use std::io::IsTerminal as _;

/// A verb that is run by other programs, and reads what they write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Explained {
    Mcp,
    Hook,
    AcpProxy,
}

/// Whether standard input is a terminal: then no program writes to it.
pub(crate) fn is_typed() -> bool {
    std::io::stdin().is_terminal()
}

impl Explained {
    /// The verb of this name.
    pub(crate) fn named(verb: &str) -> Option<Self> {
        match verb {
            "mcp" => Some(Self::Mcp),
            "hook" => Some(Self::Hook),
            "acp-proxy" => Some(Self::AcpProxy),
            _ => None,
        }
    }

    /// The explanation: what the verb is for, and how it is set up.
    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Mcp => include_str!("explain/mcp.txt"),
            Self::Hook => include_str!("explain/hook.txt"),
            Self::AcpProxy => include_str!("explain/acp_proxy.txt"),
        }
    }
}

/// Explains the verb. With `--json`, which a program asked for, it is refused.
pub(crate) fn tell(ctx: &Context, verb: Explained) -> Result<i32, Failure> {
    if ctx.out.json {
        let hint = "pipe into it what that program would write; without --json it explains on a terminal how it is set up";
        return Err(Failure::refused("standard input is a terminal, and this verb reads what another program writes", hint));
    }
    ctx.out.text(verb.text())?;
    Ok(0)
}
