//! A file of a client, and the entries of ours that it should have.

use super::edit::{EditError, json, toml, yaml};
use super::own_command::{OwnCommand, ServerCommand, has_address};
use super::{Failure, File, is_within, refusal, wakes};
use crate::cli::out::tame;
use serde_json::Value;
use std::path::PathBuf;

/// A file, and the entries that it should have.
pub(super) struct Target {
    pub(super) path: PathBuf,
    pub(super) edits: FileEdits,
    /// Whether it is the configuration of Outlast, which an engine reads when it starts.
    pub(super) is_own_config: bool,
    /// Notes about settings in it that the user changed and that are kept.
    pub(super) kept_notes: Vec<String>,
}

impl Target {
    pub(super) fn new(path: PathBuf, edits: FileEdits) -> Self {
        Self { path, edits, is_own_config: false, kept_notes: Vec::new() }
    }

    /// A target in the configuration of Outlast.
    pub(super) fn in_own_config(self, kept_notes: Vec<String>) -> Self {
        Self { is_own_config: true, kept_notes, ..self }
    }

    /// The names and commands of its waking hooks, as they are in the file.
    pub(super) fn waking_commands(&self) -> Vec<(&'static str, Vec<String>)> {
        let FileEdits::Toml(all) = &self.edits else { return Vec::new() };
        let Ok(file) = File::read(&self.path) else { return Vec::new() };
        let command = |edit: &toml::TomlEdit| match edit {
            toml::TomlEdit::Row { list, name, .. } if self.is_own_config => {
                let row = toml::row(file.text(), list, name).ok().flatten()?;
                let words = row.get("command")?.as_array()?.iter().map(|word| word.as_str().map(str::to_owned));
                Some((*name, words.collect::<Option<_>>()?))
            }
            _ => None,
        };
        all.iter().filter_map(command).collect()
    }

    /// Whether an earlier `outlast install` changed this text. In our own configuration, an entry for any client counts.
    pub(super) fn has_own_entries(&self, text: &str) -> bool {
        let has_hook = |name: &str| toml::row(text, "hook", name).is_ok_and(|row| row.is_some());
        (self.is_own_config && wakes::names().any(has_hook)) || self.edits.take(text).is_ok_and(|without| without != text)
    }

    /// A text without our entries. From our own configuration, the entries for all clients are removed.
    pub(super) fn without_own_entries(&self, text: &str) -> Option<String> {
        let rows = wakes::names().filter(|_| self.is_own_config);
        let rows = rows.map(|name| toml::TomlEdit::Row { list: "hook", name, fields: Vec::new(), defaults: Vec::new() });
        let text = rows.into_iter().try_fold(text.to_owned(), |text, row| toml::take(&text, &row)).ok()?;
        self.edits.take(&text).ok()
    }

    /// Whether a change would lose part of the text. A new path of our own program does not count.
    pub(super) fn loses(&self, before: &str, after: &str, own: &OwnCommand) -> bool {
        let rows = wakes::names().filter(|_| self.is_own_config).filter_map(|name| toml::row(before, "hook", name).ok().flatten());
        let rows = rows.filter_map(|row| serde_json::to_value(row).ok());
        let calls = rows.chain(self.edits.entry(before).ok().flatten()).filter_map(|entry| ServerCommand::of(&entry));
        let calls = calls.filter(|call| !call.argv[0].is_empty());
        let moved = calls.fold(before.to_owned(), |text, call| text.replace(&call.argv[0], &own.program));
        !is_within(before, after) && !is_within(&moved, after)
    }

    /// Describes an entry named `outlast` that starts another program, if there is one.
    pub(super) fn foreign_entry(&self, file: &File, own: &OwnCommand) -> Result<Option<String>, Failure> {
        // The tables in our own configuration are all ours.
        if self.is_own_config {
            return Ok(None);
        }
        let Some(entry) = self.edits.entry(file.text()).map_err(|e| refusal(self, &e))? else { return Ok(None) };
        if own.is_ours(&entry) {
            return Ok(None);
        }
        // Arguments and address are left out, because they may contain secrets.
        let program = ServerCommand::of(&entry).filter(|_| !has_address(&entry)).map(|call| tame(&call.argv[0]));
        Ok(Some(program.map_or_else(|| "it has an address, or is called in another way".into(), |program| format!("it calls {program}"))))
    }
}

pub(super) enum FileEdits {
    Json(Vec<json::JsonEdit>),
    Toml(Vec<toml::TomlEdit>),
    Yaml(yaml::YamlEdit),
}

impl FileEdits {
    pub(super) fn put(&self, text: &str) -> Result<String, EditError> {
        match self {
            Self::Json(all) => all.iter().try_fold(text.to_owned(), |text, edit| json::put(&text, edit)),
            Self::Toml(all) => all.iter().try_fold(text.to_owned(), |text, edit| toml::put(&text, edit)),
            Self::Yaml(edit) => yaml::put(text, edit),
        }
    }

    /// The edits are undone in reverse order, so that each finds the text that it made.
    pub(super) fn take(&self, text: &str) -> Result<String, EditError> {
        match self {
            Self::Json(all) => all.iter().rev().try_fold(text.to_owned(), |text, edit| json::take(&text, edit)),
            Self::Toml(all) => all.iter().rev().try_fold(text.to_owned(), |text, edit| toml::take(&text, edit)),
            Self::Yaml(edit) => yaml::take(text, edit),
        }
    }

    /// Our entries alone, to be shown or pasted.
    pub(super) fn alone(&self) -> String {
        self.put("").unwrap_or_default()
    }

    /// A file without settings, in a form that the client can read.
    pub(super) fn empty_file(&self) -> &'static str {
        match self {
            Self::Json(_) => "{}\n",
            Self::Toml(_) | Self::Yaml(_) => "",
        }
    }

    /// The entry of the MCP server `outlast` in a text.
    pub(super) fn entry(&self, text: &str) -> Result<Option<Value>, EditError> {
        match self {
            Self::Json(all) => match all.first() {
                Some(json::JsonEdit::Member { path, .. }) => json::get(text, path),
                _ => Ok(None),
            },
            Self::Toml(all) => {
                let found = match all.first() {
                    Some(toml::TomlEdit::Table { path, .. }) => toml::get(text, path)?,
                    Some(toml::TomlEdit::Row { list, name, .. }) => toml::row(text, list, name)?,
                    None => None,
                };
                Ok(found.and_then(|v| serde_json::to_value(v).ok()))
            }
            Self::Yaml(edit) => yaml::get(text, edit),
        }
    }
}
