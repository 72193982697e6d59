//! Which program the agent of a conversation is, and the driver for it.

use super::Coordinator;
use crate::settings::{AgentPermission, AgentSettings};
use outlast_agents::{
    AcpDriver, AcpSettings, AgentName, AgentPaths, CommandDriver, CommandSettings, Driver, McpServer, PermissionMode, PermissionPolicy,
    find_agent,
};
use outlast_wire::v1::chat::AgentChoice;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How much of a name from outside is repeated.
const MAX_SHOWN_NAME_CHARS: usize = 80;

impl Coordinator {
    /// The driver for a choice of agent.
    pub(crate) fn driver(&self, key: &str, generation: &str, choice: &AgentChoice) -> Result<Box<dyn Driver>, String> {
        let limits = &self.settings.limits;
        match choice {
            AgentChoice::Command(line) => {
                let mut settings = CommandSettings::shell(line);
                settings.silence = limits.silence;
                Ok(Box::new(CommandDriver::new(self.place.clone(), settings)))
            }
            AgentChoice::Agent(name) => {
                let argv = self.argv_of(name).map_err(|(what, hint)| format!("{what}; {hint}"))?;
                let configured = self.settings.agents.get(name);
                let env_file = configured.and_then(|agent| agent.env_file.clone());
                if self.is_per_turn(choice) {
                    let mut settings = CommandSettings::new(argv);
                    (settings.env_file, settings.silence) = (env_file, limits.silence);
                    return Ok(Box::new(CommandDriver::new(self.place.clone(), settings)));
                }
                let mut settings = AcpSettings::new(argv);
                settings.env_file = env_file;
                (settings.limits.silence, settings.limits.start) = (limits.silence, limits.start);
                settings.permission = PermissionPolicy::new(match configured.map(|agent| &agent.permission) {
                    None | Some(AgentPermission::Ask) => PermissionMode::Ask,
                    Some(AgentPermission::AllowList(entries)) => PermissionMode::AllowList(entries.clone()),
                    Some(AgentPermission::Always) => PermissionMode::Always,
                })
                .denied_after(limits.permission);
                let (outlast, home) = (self.settings.outlast.to_string_lossy(), self.settings.home.to_string_lossy());
                let mcp = McpServer::outlast(outlast, home, key, generation);
                let profile = name.parse().ok().and_then(AgentName::mcp_profile);
                settings.mcp = vec![profile.map_or(mcp.clone(), |profile| mcp.with_profile(profile))];
                Ok(Box::new(AcpDriver::new(self.place.clone(), settings)))
            }
            _ => Err("this gateway does not know such a kind of agent".into()),
        }
    }

    /// Whether each turn is a command of its own.
    pub(super) fn is_per_turn(&self, choice: &AgentChoice) -> bool {
        match choice {
            AgentChoice::Command(_) => true,
            AgentChoice::Agent(name) => self.settings.agents.get(name).is_some_and(|agent| agent.is_command),
            _ => false,
        }
    }

    /// Program and arguments of an agent; or what is wrong, and what to do.
    pub(super) fn argv_of(&self, name: &str) -> Result<Vec<String>, (String, String)> {
        if let Some(agent) = self.settings.agents.get(name).filter(|agent| !agent.argv.is_empty()) {
            let program = Path::new(&agent.argv[0]);
            if program.is_absolute() && !program.exists() {
                let what = format!("there is no program {}", program.display());
                return Err((what, format!("set `argv` in [gateway.agents.{name}] of config.toml, then run `outlast gateway restart`")));
            }
            return Ok(agent.argv.clone());
        }
        let Ok(known) = name.parse::<AgentName>() else { return Err(unknown_agent(name, &self.settings.agents)) };
        let links = known_agents(&self.settings.home);
        let paths = AgentPaths { known: &links, path: &self.settings.path, user_home: &self.settings.user_home };
        find_agent(known, &paths).map_err(|e| (e.to_string(), e.hint.clone()))
    }
}

/// Where the links to the programs of agents are.
pub(crate) fn known_agents(home: &Path) -> PathBuf {
    home.join("agents")
}

/// What is wrong with the name of an agent that is neither built in nor configured, and what to do.
fn unknown_agent(name: &str, configured: &BTreeMap<String, AgentSettings>) -> (String, String) {
    let shown: String = name.chars().filter(|c| !c.is_control()).take(MAX_SHOWN_NAME_CHARS).collect();
    if configured.contains_key(name) {
        let what = format!("the agent {shown} is configured without a program");
        return (what, format!("set `argv` or `command` in [gateway.agents.{shown}] of config.toml, then run `outlast gateway restart`"));
    }
    let near = outlast_core::nearest(name, AgentName::ALL.map(AgentName::as_str).into_iter().chain(own_agents(configured)));
    let near = near.first().map(|near| format!("did you mean {near}? ")).unwrap_or_default();
    let hint = format!(
        "{near}Known agents: {}. Another one needs `argv` or `command` in [gateway.agents.NAME] of config.toml, then \
         `outlast gateway restart`",
        agent_names(configured)
    );
    (format!("there is no agent {shown}"), hint)
}

/// The names that --agent takes: the built-in ones and those of the configuration.
pub(super) fn agent_names(configured: &BTreeMap<String, AgentSettings>) -> String {
    let own: Vec<&str> = own_agents(configured).collect();
    let own = if own.is_empty() { String::new() } else { format!(", and {} in config.toml", own.join(", ")) };
    format!("{}{own}", AgentName::ALL.map(AgentName::as_str).join(", "))
}

fn own_agents(configured: &BTreeMap<String, AgentSettings>) -> impl Iterator<Item = &str> {
    configured.iter().filter(|(_, agent)| !agent.argv.is_empty()).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_name_of_an_agent_is_answered_with_those_there_are_and_how_to_add_one() {
        let agent = |argv: &[&str]| AgentSettings {
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            is_command: false,
            env_file: None,
            permission: AgentPermission::Ask,
        };
        let none = BTreeMap::new();
        let (what, hint) = unknown_agent("opencde", &none);
        assert_eq!(what, "there is no agent opencde");
        assert_eq!(
            hint,
            "did you mean opencode? Known agents: codex, opencode, kimi, hermes, gemini, qwen. Another one needs `argv` or `command` in \
             [gateway.agents.NAME] of config.toml, then `outlast gateway restart`"
        );
        let own = BTreeMap::from([("reviewer".to_owned(), agent(&["review"])), ("qwen".into(), agent(&[])), ("empty".into(), agent(&[]))]);
        let (_, hint) = unknown_agent("reviwer", &own);
        assert!(hint.starts_with("did you mean reviewer? ") && hint.contains("qwen, and reviewer in config.toml. "), "{hint}");
        let (what, hint) = unknown_agent("empty", &own);
        assert!(what.contains("without a program") && hint.contains("[gateway.agents.empty]"), "{what}: {hint}");
        let (what, hint) = unknown_agent(&"\x1bx".repeat(10_000), &own);
        assert!(what.len() < 200 && !what.contains('\x1b') && hint.starts_with("Known agents: codex"), "{what}: {hint}");
    }
}
