//! Refuses requests that cannot be run, before anything is written.

use super::secrets::Scrub;
use crate::refuse;
use crate::table::LONGEST_NAME;
use outlast_core::{Command, Owner, Route, Spec, Tell, limits};
use outlast_wire::code;
use outlast_wire::v1::{Caller, Error};
use std::collections::BTreeMap;

/// Refuses what cannot be run, before anything is written. Problems that only the merged environment shows are found later.
pub(super) fn check(spec: &Spec, caller: &Caller, scrub: &Scrub<'_>) -> Result<(), Error> {
    check_request(spec, caller).map_err(|error| scrub.error(error))?;
    check_watch(spec, scrub)
}

fn check_request(spec: &Spec, caller: &Caller) -> Result<(), Error> {
    let refused = |what: String, hint: &str| Err(refuse::refusal(code::BAD_SPEC, what, hint));
    let empty = match &spec.command {
        Command::Shell(line) => line.to_lossy().trim().is_empty(),
        Command::Argv(args) => args.first().is_none_or(|a| a.as_bytes().is_empty()),
    };
    if empty {
        return refused("the command is empty".into(), "give a shell line, or a program with its arguments");
    }
    let Owner { session, task, generation } = &spec.owner;
    for (what, text) in [("session", session), ("task", task), ("generation", generation), ("name", &spec.name)] {
        let Some(text) = text else { continue };
        if text.is_empty() || text.len() > LONGEST_NAME {
            let what = format!("the {what} has {} bytes", text.len());
            return refused(what, "give 1 to 256 bytes, or leave it out");
        }
        if text.contains(char::is_control) {
            return refused(format!("the {what} has a control character in it"), "use printable text");
        }
    }
    if spec.name.as_ref().is_some_and(|name| name.starts_with('-') || name.trim().is_empty()) {
        // On a command line it would look like a flag, or would not be seen.
        return refused("the name begins with a dash, or is blank".into(), "begin it with a letter or a digit, or leave it out");
    }
    if spec.timeout.is_some_and(|t| t.is_zero()) {
        return refused("a timeout of 0 would end it before it began".into(), "give a time of more than 0, or none");
    }
    check_labels(&spec.labels)?;
    check_tell(&spec.tell)?;
    for dir in spec.cwd.iter().chain([&caller.cwd]) {
        if dir.has_nul() {
            return refused("the directory has a NUL byte in it, which no path can have".into(), "remove it");
        }
    }
    if !caller.cwd.as_path().is_absolute() {
        return refused(format!("the caller's directory {:?} is not an absolute path", caller.cwd), "send where the caller is");
    }
    Ok(())
}

/// Refuses labels that could not be written on a command line or shown on one line.
fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Error> {
    let refused = |what: String, hint: &str| Err(refuse::refusal(code::BAD_SPEC, what, hint));
    if labels.len() > limits::MAX_LABELS {
        return refused(format!("{} labels are more than the {} there may be", labels.len(), limits::MAX_LABELS), "give fewer");
    }
    for (key, value) in labels {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
        if key.is_empty() || key.len() > limits::MAX_LABEL_KEY_BYTES || !key.chars().all(is_plain) {
            return refused(format!("{key:?} cannot be the key of a label"), "a key has 1 to 64 letters, digits, and any of . _ - /");
        }
        if value.len() > limits::MAX_LABEL_VALUE_BYTES {
            return refused(format!("the value of the label {key} has {} bytes", value.len()), "give at most 4,096 bytes");
        }
        if value.contains(char::is_control) {
            return refused(format!("the value of the label {key} has a control character in it"), "use printable text");
        }
    }
    Ok(())
}

/// Refuses patterns and routes that cannot be used.
fn check_tell(tell: &Tell) -> Result<(), Error> {
    let refused = |what: String, hint: &str| Err(refuse::refusal(code::BAD_SPEC, what, hint));
    if tell.watch.len() > limits::MAX_PATTERNS {
        let what = format!("{} watch patterns are more than the {} there may be", tell.watch.len(), limits::MAX_PATTERNS);
        return refused(what, "watch for fewer, or for what they have in common");
    }
    for (n, pattern) in tell.watch.iter().enumerate() {
        if pattern.is_empty() {
            return refused(format!("watch pattern {} is empty: every line would match", n + 1), "give some text, or leave it out");
        }
        if pattern.len() > limits::MAX_PATTERN_BYTES {
            let what = format!("watch pattern {} has {} bytes", n + 1, pattern.len());
            return refused(what, "give at most 1,024 bytes");
        }
        if pattern.contains('\n') {
            let what = format!("watch pattern {} has a line break in it, and lines are matched one by one", n + 1);
            return refused(what, "give the text of one line");
        }
        if pattern.contains(|c: char| c.is_control() && c != '\t') || outlast_text::strip(pattern) != pattern.as_str() {
            let what = format!("watch pattern {} has an escape or control character in it, and lines are matched without them", n + 1);
            return refused(what, "give the text as it is read");
        }
    }
    if tell.chars.is_some_and(|n| n == 0 || n as usize > limits::LOG_VIEW_CHARS) {
        let what = format!("a notice of {} characters is out of range", tell.chars.unwrap_or(0));
        return refused(what, "give 1 to 200,000, or leave it out");
    }
    let Route { platform, chat_id, user_id, user_name, thread_id, message_id } = &tell.route;
    let parts =
        [("platform", platform), ("chat", chat_id), ("user", user_id), ("name", user_name), ("thread", thread_id), ("message", message_id)];
    for (what, text) in parts {
        if text.as_ref().is_some_and(|t| t.is_empty() || t.len() > LONGEST_NAME || t.contains(char::is_control)) {
            return refused(
                format!("the route's {what} is empty, too long, or has a control character in it"),
                "give 1 to 256 printable bytes",
            );
        }
    }
    Ok(())
}

/// Refuses a watch pattern with a secret in it: the value of a secret variable, or a text with the form of a secret. Patterns are kept and
/// shown, and a masked one would match nothing.
fn check_watch(spec: &Spec, scrub: &Scrub<'_>) -> Result<(), Error> {
    for (n, pattern) in (1..).zip(&spec.tell.watch) {
        let (has, hint) = if scrub.without_given(pattern) != *pattern {
            (
                "has a value in it that is given under a secret's name",
                "watch for the text around it, or give the value under a name that is no secret's",
            )
        } else if scrub.redactor.command(pattern) != *pattern {
            ("has the form of a secret in it, such as a token's", "watch for the text around it")
        } else {
            continue;
        };
        return Err(refuse::refusal(code::BAD_SPEC, format!("watch pattern {n} {has}, and patterns are kept and shown"), hint));
    }
    Ok(())
}
