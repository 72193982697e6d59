//! `terminal/create`: starts a command.

use super::{Done, TerminalSeen, Terminals, refused};
use crate::message::{Failure, INTERNAL, INVALID_PARAMS};
use outlast_client::{ClientError, ProcessInfo, Reason, Run, Spec, Tell};
use serde::Deserialize;
use serde_json::json;
use std::path::Path;

/// The parameters.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Create {
    session_id: String,
    command: String,
    #[serde(default)]
    args: Option<Vec<String>>,
    #[serde(default)]
    env: Option<Vec<Variable>>,
    #[serde(default)]
    cwd: Option<String>,
    #[serde(default)]
    output_byte_limit: Option<u64>,
}

#[derive(Debug, Clone, Deserialize)]
struct Variable {
    name: String,
    value: String,
}

impl Create {
    pub(super) fn session(&self) -> &str {
        &self.session_id
    }

    /// The request to the engine. `dir` is the directory of the session.
    fn spec(&self, dir: Option<String>) -> Result<Spec, Failure> {
        let dir = self.cwd.clone().or(dir);
        if let Some(dir) = &dir
            && !Path::new(dir).is_absolute()
        {
            return Err(Failure::new(INVALID_PARAMS, format!("the directory {dir:?} is not absolute: give the whole path")));
        }
        let args = self.args.as_deref().unwrap_or_default();
        let mut spec = if args.is_empty() && is_line(&self.command, dir.as_deref()) {
            Spec::shell(self.command.as_str())
        } else {
            Spec::argv(std::iter::once(&self.command).chain(args).map(String::as_str))
        };
        if let Some(dir) = dir {
            spec = spec.in_dir(dir.as_str());
        }
        for Variable { name, value } in self.env.iter().flatten() {
            spec = spec.with_env(name.as_str(), value.as_str());
        }
        // The agent may be gone when the command ends. It then gets a notice when it is back.
        Ok(spec.telling(Tell::end()))
    }
}

/// Whether a command without arguments is a shell line: it has a character that program names do not have, and is not a file.
fn is_line(command: &str, dir: Option<&str>) -> bool {
    let told_apart = |c: char| c.is_ascii_whitespace() || "|&;<>()$`\"'\\*?~".contains(c);
    let is_file = || command.contains('/') && Path::new(dir.unwrap_or(".")).join(command).is_file();
    command.trim().contains(told_apart) && !is_file()
}

impl Terminals {
    pub(super) async fn create(&self, create: Create, dir: Option<String>) -> Done {
        let spec = match create.spec(dir) {
            Ok(spec) => spec,
            Err(failure) => return Err(failure).into(),
        };
        let started = async {
            let client = self.client(&create.session_id).await?;
            let info = client.run_info(Run::new(spec, self.caller.clone())).await?;
            Ok::<_, ClientError>((client, info))
        };
        let (client, info) = match started.await {
            Ok(started) => started,
            Err(error) => return Err(refused(&error)).into(),
        };
        let id = info.session_id;
        if info.fate.completion_reason == Some(Reason::FailedStart) {
            return Done { seen: Some(TerminalSeen { client, id }), ..Err(failed(&create.command, &info)).into() };
        }
        self.known().limit(&create.session_id, id, create.output_byte_limit);
        let mut created = json!({ "terminalId": id });
        if !info.warnings.is_empty() {
            created["_meta"] = json!({ "outlast": { "warnings": info.warnings } });
        }
        Ok(created).into()
    }
}

/// The error for a command that did not start, and so has no terminal.
fn failed(command: &str, info: &ProcessInfo) -> Failure {
    let why = info.fate.start_error.as_deref().unwrap_or("no reason is known");
    Failure::new(INTERNAL, format!("{command:?} could not be started: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::Command;

    fn spec(text: &str, dir: Option<&str>) -> Result<Spec, Failure> {
        serde_json::from_str::<Create>(text).unwrap().spec(dir.map(Into::into))
    }

    #[test]
    fn a_program_with_arguments_is_run_as_it_stands() {
        let spec =
            spec(r#"{"sessionId":"s","command":"echo","args":["a b","$X"],"env":[{"name":"X","value":"1"}],"cwd":"/tmp"}"#, Some("/else"))
                .unwrap();
        assert_eq!(spec.command, Command::Argv(vec!["echo".into(), "a b".into(), "$X".into()]));
        assert_eq!((spec.cwd, spec.env.len(), spec.tell), (Some("/tmp".into()), 1, Tell::end()));
    }

    #[test]
    fn nulls_are_what_is_not_there_and_the_conversation_has_a_directory() {
        let spec = spec(
            r#"{"sessionId":"s","command":"ls","args":null,"env":null,"cwd":null,"outputByteLimit":null,"_meta":null}"#,
            Some("/work"),
        );
        let spec = spec.unwrap();
        assert_eq!((spec.command, spec.cwd), (Command::Argv(vec!["ls".into()]), Some("/work".into())));
    }

    #[test]
    fn a_line_in_place_of_a_program_is_run_by_a_shell() {
        for line in ["cd /tmp && ls", "npm test", "echo $HOME", "/bin/sh -c x", "ls|wc"] {
            assert!(is_line(line, None), "{line}");
        }
        for program in ["ls", "/bin/ls", "./configure", "a-b_c.d+e", "[", ""] {
            assert!(!is_line(program, None), "{program}");
        }
        let dir = tempfile_dir();
        std::fs::write(dir.join("my tool"), "").unwrap();
        assert!(!is_line(&format!("{}/my tool", dir.display()), None));
        assert!(!is_line("./my tool", dir.to_str()) && is_line("./my tool", Some("/")));
        std::fs::remove_dir_all(dir).unwrap();
    }

    fn tempfile_dir() -> std::path::PathBuf {
        let dir = std::env::temp_dir().join(format!("ol-acp-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        dir
    }

    #[test]
    fn a_directory_must_be_absolute() {
        let refused = spec(r#"{"sessionId":"s","command":"ls","cwd":"src"}"#, None).unwrap_err();
        assert!(refused.code == INVALID_PARAMS && refused.message.contains("\"src\""));
    }
}
