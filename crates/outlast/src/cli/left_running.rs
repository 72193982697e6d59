//! The processes that a command left running when it ended.

use super::one_line::tame;
use outlast_client::{LeftProcess, ProcessId};

/// How many of them a line names.
const MAX_NAMED: usize = 8;

/// A remark that names them, and the command that stops them. None if there are none.
pub(crate) fn note(id: ProcessId, left: &[LeftProcess]) -> Option<String> {
    let processes = match left.len() {
        0 => return None,
        1 => "1 process is".to_owned(),
        many => format!("{many} processes are"),
    };
    Some(format!(
        "note: {processes} still running: {}; `outlast kill {id}` stops {}",
        named(left),
        if left.len() == 1 { "it" } else { "them" }
    ))
}

/// Pids and commands in one line, as many as fit.
pub(crate) fn named(left: &[LeftProcess]) -> String {
    let shown: Vec<String> = left.iter().take(MAX_NAMED).map(|left| tame(&left.to_string())).collect();
    let more = if left.len() > MAX_NAMED { format!(" and {} more", left.len() - MAX_NAMED) } else { String::new() };
    format!("{}{more}", shown.join(", "))
}
