//! Checks what can be passed to a program, and the errors if something cannot.

use std::fmt;

use thiserror::Error;

use super::{CommandForm, LaunchInputs};
use crate::shell::Variable;

/// The longest single argument or `NAME=value` that Linux accepts, in bytes.
pub(crate) const STRING_LIMIT: usize = 131_071;

/// The limit for arguments and environment together, in bytes: Linux's 2 MiB less 128 KiB for what the kernel and an interpreter line add.
/// Each string counts with its terminator and its pointer.
pub(crate) const TOTAL_LIMIT: usize = (2048 - 128) * 1024;

/// Why a launch cannot be made. No variant contains a value.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum MergeError {
    /// A variable that no environment can hold.
    #[error("{source_of} variable {position}{} {fault}; give it as NAME=value", shown(.name))]
    BadVariable {
        source_of: VariableSource,
        /// Which one, counted from 1.
        position: usize,
        name: Option<String>,
        fault: VariableFault,
    },
    /// There is no program to run.
    #[error("the command is empty; give a program or a shell line")]
    NoCommand,
    /// A NUL byte, which cannot be passed to a program.
    #[error("{0} has a NUL byte in it, which no program can be given; remove it")]
    Nul(LaunchPart),
    /// More than the system passes to a program.
    #[error("{what} is {len} bytes long, and the most is {limit}; pass it in a file or on stdin")]
    TooLong { what: LaunchPart, len: usize, limit: usize },
}

/// Where a variable comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VariableSource {
    /// The caller's environment.
    Caller,
    /// An explicit variable of the request.
    Explicit,
}

impl fmt::Display for VariableSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VariableSource::Caller => "inherited",
            VariableSource::Explicit => "explicit",
        })
    }
}

/// What is wrong with a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VariableFault {
    NoName,
    /// Its name has a `=`.
    EqualsInName,
    /// A NUL byte in name or value.
    Nul,
}

impl fmt::Display for VariableFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VariableFault::NoName => "has no name",
            VariableFault::EqualsInName => "has '=' in its name",
            VariableFault::Nul => "has a NUL byte in it",
        })
    }
}

/// A part of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LaunchPart {
    Line,
    /// An argument, by its index. The program's name is 0.
    Argument(usize),
    Variable(String),
    /// Everything.
    Together,
}

impl fmt::Display for LaunchPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchPart::Line => f.write_str("the shell line"),
            LaunchPart::Argument(index) => write!(f, "argument {index}"),
            LaunchPart::Variable(name) => write!(f, "variable {name}"),
            LaunchPart::Together => f.write_str("the command with its environment"),
        }
    }
}

pub(super) fn check(source_of: VariableSource, position: usize, name: &[u8], value: &[u8]) -> Result<(), MergeError> {
    let fault = if name.contains(&0) || value.contains(&0) {
        VariableFault::Nul
    } else if name.is_empty() {
        VariableFault::NoName
    } else if name.contains(&b'=') {
        VariableFault::EqualsInName
    } else {
        return Ok(());
    };
    // Text after a '=' in a name is most likely a value.
    let name = name.split(|byte| *byte == b'=').next().unwrap_or_default();
    let name = (!name.is_empty()).then(|| show(name));
    Err(MergeError::BadVariable { source_of, position, name, fault })
}

pub(super) fn check_size(parts: &LaunchInputs<'_>, argv: &[Vec<u8>], env: &[Variable]) -> Result<(), MergeError> {
    let mut total = 0;
    let mut add = |what: &dyn Fn() -> LaunchPart, len: usize| {
        total += len + 1 + size_of::<usize>();
        if len > STRING_LIMIT {
            return Err(MergeError::TooLong { what: what(), len, limit: STRING_LIMIT });
        }
        Ok(())
    };
    for (at, argument) in argv.iter().enumerate() {
        let what = || match parts.form {
            CommandForm::Line(_) => LaunchPart::Line,
            CommandForm::Argv(_) => LaunchPart::Argument(at),
        };
        add(&what, argument.len())?;
    }
    for (name, value) in env {
        add(&|| LaunchPart::Variable(show(name)), name.len() + 1 + value.len())?;
    }
    if total > TOTAL_LIMIT {
        return Err(MergeError::TooLong { what: LaunchPart::Together, len: total, limit: TOTAL_LIMIT });
    }
    Ok(())
}

/// A name, shortened and escaped for an error.
fn show(name: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(name).escape_debug().collect();
    match text.char_indices().nth(64) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

fn shown(name: &Option<String>) -> String {
    name.as_ref().map_or_else(String::new, |name| format!(" ({name})"))
}
