//! Takes secrets out of what is kept and shown of a request.

use crate::bytes::random;
use crate::masks::{self, pieces};
use crate::shell::{self, ProgramError};
use outlast_core::{Command, EnvVar, OsText, Spec};
use outlast_store::spec::Masks;
use outlast_text::{Redactor, secret_name};
use outlast_wire::v1::Error;

/// What was removed from a spec.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in crate::serve) struct Scrubbed {
    pub(super) command: bool,
    pub(super) env: Vec<OsText>,
}

/// Whether a variable with this name holds a secret.
fn is_secret(variable: &EnvVar) -> bool {
    secret_name(&variable.name.to_lossy()) || shell::is_blocked(variable.name.as_bytes()).is_some()
}

/// The digests that find secret values in the output, and whether they cover all values.
pub(super) fn masks(spec: &Spec, redactor: &Redactor) -> (Option<Masks>, bool) {
    let secrets: Vec<EnvVar> = spec.env.iter().filter(|v| redactor.is_on() && is_secret(v)).cloned().collect();
    let mut key = [0; 32];
    random(&mut key);
    masks::keep(&secrets, key)
}

/// Removes secrets from what is kept and shown of a request: those that the redactor knows, and the values of variables with a secret's
/// name.
pub(super) struct Scrub<'a> {
    pub(super) redactor: &'a Redactor,
    given: Vec<String>,
}

impl<'a> Scrub<'a> {
    pub(super) fn new(spec: &Spec, redactor: &'a Redactor) -> Self {
        let secrets = spec.env.iter().filter(|v| redactor.is_on() && is_secret(v));
        let given = secrets.flat_map(|v| pieces(v.value.as_bytes())).map(|p| String::from_utf8_lossy(p).into_owned()).collect();
        Self { redactor, given }
    }

    /// A text without the values of the secret variables.
    pub(super) fn without_given(&self, text: &str) -> String {
        // Values may overlap or contain each other, so all are found before any is removed.
        let mut found: Vec<std::ops::Range<usize>> =
            self.given.iter().flat_map(|value| text.match_indices(value.as_str())).map(|(at, value)| at..at + value.len()).collect();
        found.sort_by_key(|range| range.start);
        let (mut shown, mut copied) = (String::new(), 0);
        for range in found {
            if range.start >= copied {
                shown += &text[copied..range.start];
                shown += "***";
            }
            copied = copied.max(range.end);
        }
        shown + &text[copied..]
    }

    /// A label as it is kept. If the key is a secret's name, the value is a secret.
    fn label(&self, key: String, value: &str) -> (String, String) {
        let value = match self.redactor.is_on() && secret_name(&key) {
            true => "***".to_owned(),
            false => self.without_given(&self.redactor.command_line(value)),
        };
        (self.without_given(&self.redactor.command_line(&key)), value)
    }

    /// An error that a caller sees.
    pub(super) fn error(&self, mut error: Error) -> Error {
        for text in [&mut error.error, &mut error.hint] {
            *text = self.without_given(&self.redactor.command_line(text));
        }
        error
    }

    /// Why a program cannot be started, as it is kept and shown.
    pub(super) fn program_error(&self, error: ProgramError, command: &Command) -> ProgramError {
        match error {
            ProgramError::NotFound { name } => match self.command(command) {
                Command::Argv(args) if !args.is_empty() => ProgramError::NotFound { name: args[0].to_lossy().into_owned() },
                _ => ProgramError::NotFound { name: self.without_given(&self.redactor.command_line(&name)) },
            },
            ProgramError::NotExecutable { path } => {
                ProgramError::NotExecutable { path: self.path(&path.as_path().into(), command).as_path().to_owned() }
            }
        }
    }

    /// The path of a command's program or directory, as an error names it.
    pub(super) fn path(&self, path: &OsText, command: &Command) -> OsText {
        let mut shown = path.to_lossy().into_owned();
        if let (Command::Argv(raw), Command::Argv(kept)) = (command, self.command(command))
            && let (Some(raw), Some(kept)) = (raw.first(), kept.first())
            && raw != kept
        {
            shown = shown.replace(&*raw.to_lossy(), &kept.to_lossy());
        }
        shown = self.without_given(&self.redactor.command(&shown));
        if shown == path.to_lossy() { path.clone() } else { OsText::from(shown) }
    }

    /// The command as it is kept.
    pub(super) fn command(&self, command: &Command) -> Command {
        // Bytes that are not UTF-8 must not keep a secret beside them from being masked.
        let kept = |raw: &OsText, masked: &str| match self.without_given(masked) {
            shown if shown == raw.to_lossy() => raw.clone(),
            shown => OsText::from(shown),
        };
        match command {
            Command::Shell(line) => Command::Shell(kept(line, &self.redactor.command_line(&line.to_lossy()))),
            Command::Argv(args) => {
                let plain: Vec<_> = args.iter().map(OsText::to_lossy).collect();
                Command::Argv(args.iter().zip(self.redactor.arguments(&plain)).map(|(raw, masked)| kept(raw, &masked)).collect())
            }
        }
    }
}

/// The spec as it is kept: secrets in command, name and labels are masked, values of secret variables are removed.
pub(in crate::serve) fn without_secrets(mut spec: Spec, redactor: &Redactor) -> (Spec, Scrubbed) {
    let scrub = Scrub::new(&spec, redactor);
    let command = scrub.command(&spec.command);
    spec.name = spec.name.map(|name| scrub.without_given(&redactor.command_line(&name)));
    spec.labels = spec.labels.into_iter().map(|(key, value)| scrub.label(key, &value)).collect();
    let mut scrubbed = Scrubbed { command: command != spec.command, env: Vec::new() };
    spec.command = command;
    for variable in &mut spec.env {
        let value = variable.value.to_lossy();
        if redactor.is_on() && (is_secret(variable) || redactor.command(&value) != value) {
            variable.value = OsText::default();
            scrubbed.env.push(variable.name.clone());
        }
    }
    (spec, scrubbed)
}
