//! The client that the user names on the command line: one of the table, or another, for which there is the generic entry.

use super::clients::{AgentClient, CLIENTS};
use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, Command, Error};
use outlast_core::nearest;
use std::ffi::OsStr;

/// Stands for every client that is not in the table.
const GENERIC: &str = "generic";

#[derive(Debug, Clone)]
pub(super) enum ChosenClient {
    Known(&'static AgentClient),
    Generic,
    /// One that is not in the table, by this name.
    Unknown(String),
}

impl ChosenClient {
    /// Its name on the command line.
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Known(client) => client.name,
            Self::Generic => GENERIC,
            Self::Unknown(name) => name,
        }
    }
}

/// The clients that can be configured.
pub(crate) fn client_names() -> Vec<String> {
    CLIENTS.iter().map(|client| client.name.to_owned()).chain([format!("{GENERIC} (any other)")]).collect()
}

/// Reads the name of a client. Only one that is nearly right is refused: for any other name there is the generic entry.
#[derive(Debug, Clone)]
pub(super) struct ClientParser;

impl TypedValueParser for ClientParser {
    type Value = ChosenClient;

    fn parse_ref(&self, cmd: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<ChosenClient, Error> {
        let given = value.to_str().ok_or_else(|| Error::new(ErrorKind::InvalidUtf8).with_cmd(cmd))?;
        let name = given.to_ascii_lowercase();
        if let Some(client) = AgentClient::named(&name) {
            return Ok(ChosenClient::Known(client));
        }
        if name == GENERIC {
            return Ok(ChosenClient::Generic);
        }
        let known = CLIENTS.iter().flat_map(|client| [client.name].into_iter().chain(client.aliases.iter().copied())).chain([GENERIC]);
        let near = nearest(&name, known);
        if near.is_empty() && !name.trim().is_empty() {
            return Ok(ChosenClient::Unknown(given.to_owned()));
        }
        let mut error = Error::new(ErrorKind::InvalidValue).with_cmd(cmd);
        let texts = |all: Vec<&str>| ContextValue::Strings(all.into_iter().map(str::to_owned).collect());
        if let Some(arg) = arg {
            error.insert(ContextKind::InvalidArg, ContextValue::String(arg.to_string()));
        }
        error.insert(ContextKind::InvalidValue, ContextValue::String(given.to_owned()));
        error.insert(ContextKind::ValidValue, texts(CLIENTS.iter().map(|client| client.name).chain([GENERIC]).collect()));
        if let Some(nearest) = near.first() {
            error.insert(ContextKind::SuggestedValue, ContextValue::String((*nearest).to_owned()));
        }
        Err(error)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let known = CLIENTS.iter().map(|client| PossibleValue::new(client.name).aliases(client.aliases).help(client.title));
        Some(Box::new(known.chain([PossibleValue::new(GENERIC).help("Any other client: prints the entry to add")])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str) -> Result<ChosenClient, String> {
        let args = ["outlast", "install", name].map(Into::into);
        match crate::cli::read(&args) {
            Ok(cli) => match cli.verb {
                crate::cli::Verb::Install(install) => Ok(install.client),
                verb => panic!("{verb:?}"),
            },
            Err(e) => Err(e.to_string()),
        }
    }

    #[test]
    fn every_name_and_alias_is_known_and_belongs_to_one_client() {
        let mut all: Vec<&str> = CLIENTS.iter().flat_map(|c| [c.name].into_iter().chain(c.aliases.iter().copied())).collect();
        for client in &CLIENTS {
            for name in [client.name].iter().chain(client.aliases) {
                assert_eq!(read(name).unwrap().name(), client.name);
                assert_eq!(read(&name.to_uppercase()).unwrap().name(), client.name);
            }
        }
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
    }

    #[test]
    fn only_a_near_miss_gets_a_tip() {
        for (slip, meant) in [
            ("claud", "claude"),
            ("cusror", "cursor"),
            ("gemni", "gemini"),
            ("opncode", "opencode"),
            ("winsurf", "windsurf"),
            ("qwen_code", "qwen-code"),
        ] {
            let tip = read(slip).unwrap_err();
            assert!(tip.contains("similar value") && tip.contains(&format!("'{meant}'")), "{slip}: {tip}");
        }
        for other in ["aider", "crush", "roo-code", "kilo", "continue", "copilot", "claude-desktop", "jetbrains", "droid", "trae", "x"] {
            assert!(matches!(read(other), Ok(ChosenClient::Unknown(name)) if name == other), "{other}: {:?}", read(other));
        }
        assert!(matches!(read("generic"), Ok(ChosenClient::Generic)));
        assert!(read(" ").is_err());
    }
}
