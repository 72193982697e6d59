//! Labels: giving them to processes, and finding processes by them.

use super::out::tame;
use super::{Context, Failure, named};
use clap::Args;
use outlast_client::{Client, ProcessInfo, Scope, Status, code};
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

/// The key of the label that names the file of `up`.
pub(crate) const PROCFILE: &str = "procfile";

/// `KEY=VALUE`, as it is given in a flag. The engine checks both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Label {
    key: String,
    value: String,
}

impl Label {
    pub(crate) fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into() }
    }

    pub(crate) fn is_on(&self, p: &ProcessInfo) -> bool {
        p.labels.get(&self.key) == Some(&self.value)
    }
}

/// What `--label` looks for: a label, or a key with any value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum LabelFilter {
    Label(Label),
    Key(String),
}

impl LabelFilter {
    fn takes(&self, p: &ProcessInfo) -> bool {
        match self {
            Self::Label(label) => label.is_on(p),
            Self::Key(key) => p.labels.contains_key(key),
        }
    }
}

impl FromStr for LabelFilter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if !text.is_empty() && !text.contains('=') {
            return Ok(Self::Key(text.to_owned()));
        }
        let label: Label = text.parse()?;
        // `up` labels processes with the full path of their file. A user may give a relative one.
        Ok(Self::Label(match std::fs::canonicalize(&label.value) {
            Ok(path) if label.key == PROCFILE => Label::new(label.key, path.to_string_lossy()),
            _ => label,
        }))
    }
}

impl std::fmt::Display for LabelFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Label(label) => label.fmt(f),
            Self::Key(key) => f.write_str(key),
        }
    }
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.split_once('=') {
            Some((key, value)) if !key.is_empty() => Ok(Self { key: key.into(), value: value.into() }),
            _ => Err("a label is KEY=VALUE, such as app=shop".into()),
        }
    }
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.key, self.value)
    }
}

/// The flag that chooses processes by their labels.
#[derive(Debug, Args)]
pub(crate) struct LabelArgs {
    /// Only processes with this label, or with any label of this key; if given several times, those that have all of them
    #[arg(long = "label", value_name = "KEY[=VALUE]")]
    labels: Vec<LabelFilter>,
}

impl LabelArgs {
    pub(crate) fn is_given(&self) -> bool {
        !self.labels.is_empty()
    }

    /// Whether a process has all of them.
    pub(crate) fn takes(&self, p: &ProcessInfo) -> bool {
        self.labels.iter().all(|label| label.takes(p))
    }

    /// The flags as they were given.
    fn shown(&self) -> String {
        self.labels.iter().map(|label| format!("--label {label}")).collect::<Vec<_>>().join(" ")
    }

    /// The ids of running and finished processes that have all of them. Of several with one name only the one that the name means.
    pub(crate) async fn find(&self, ctx: &Context, client: &Client) -> Result<Vec<String>, Failure> {
        let owner = ctx.owner();
        let all = client.list(&Scope { task: owner.task, session: owner.session }, true).await?;
        self.check("process", &all)?;
        let found = without_namesakes(all.into_iter().filter(|p| self.takes(p)).collect());
        Ok(found.iter().map(|p| p.session_id.to_string()).collect())
    }

    /// Refuses labels that none of the processes has.
    pub(crate) fn check(&self, what: &str, all: &[ProcessInfo]) -> Result<(), Failure> {
        if !self.is_given() || all.iter().any(|p| self.takes(p)) {
            return Ok(());
        }
        Err(Failure::new(code::NOT_FOUND, format!("no {what} has {}", self.shown()), in_use(what, all)))
    }
}

/// How many labels a hint names.
const MAX_NAMED_LABELS: usize = 10;

/// The labels that processes have.
fn in_use(what: &str, all: &[ProcessInfo]) -> String {
    let used: BTreeSet<String> = all.iter().flat_map(|p| &p.labels).map(|(key, value)| format!("{key}={value}")).collect();
    let named: Vec<&str> = used.iter().map(String::as_str).take(MAX_NAMED_LABELS).collect();
    match used.len() - named.len() {
        _ if named.is_empty() => format!("no {what} has a label; `outlast run --label KEY=VALUE` gives one"),
        0 => format!("labels in use: {}", tame(&named.join(", "))),
        more => format!("labels in use: {} and {more} more", tame(&named.join(", "))),
    }
}

/// The processes that a verb applies to: those that were named, or those with the labels.
#[derive(Debug, Args)]
pub(crate) struct NamedOrLabelled {
    /// The process: its name, its id, or at least four digits of its id; may be several
    #[arg(required_unless_present = "labels", conflicts_with = "labels", value_name = "ID")]
    ids: Vec<String>,
    #[command(flatten)]
    label: LabelArgs,
}

/// Processes that were looked up.
pub(crate) struct Selection {
    pub(crate) all: Vec<named::Named>,
    /// Whether one process was named, so that the answer is that of one.
    pub(crate) is_one: bool,
}

impl NamedOrLabelled {
    /// The process in a hint, as the user named it.
    pub(crate) fn typed(&self, one: &named::Named) -> String {
        one.typed(&self.ids)
    }

    pub(crate) async fn find(&self, ctx: &Context, client: &Client) -> Result<Selection, Failure> {
        let is_labelled = self.label.is_given();
        let given = if is_labelled { self.label.find(ctx, client).await? } else { self.ids.clone() };
        let all = named::find_each(ctx, client, &given, named::Purpose::Read).await?;
        Ok(Selection { is_one: !is_labelled && given.len() == 1, all })
    }
}

/// Of several with one name, only the newest that runs, or the newest if none runs. The order stays.
fn without_namesakes(all: Vec<ProcessInfo>) -> Vec<ProcessInfo> {
    let rank = |p: &ProcessInfo| (p.status == Status::Running, p.started_at, p.session_id);
    let mut meant = BTreeMap::new();
    for p in &all {
        if let Some(name) = &p.name {
            let best = meant.entry(name.clone()).or_insert_with(|| rank(p));
            *best = rank(p).max(*best);
        }
    }
    all.into_iter().filter(|p| p.name.as_ref().is_none_or(|name| meant.get(name) == Some(&rank(p)))).collect()
}

/// The labels for a new process. A key that is given twice is refused.
pub(crate) fn collect(labels: Vec<Label>) -> Result<BTreeMap<String, String>, Failure> {
    let mut all = BTreeMap::new();
    for Label { key, value } in labels {
        if all.insert(key.clone(), value).is_some() {
            return Err(Failure::refused(format!("the label {key} is given twice"), "a process has one value for each key"));
        }
    }
    Ok(all)
}

/// Notes that an engine of an earlier release did not keep the labels.
pub(crate) fn tell_if_not_kept(ctx: &Context, wanted: bool, info: &ProcessInfo) {
    if wanted && info.labels.is_empty() {
        ctx.out.remark(
            "note: the running engine is of an earlier release and keeps no labels; `outlast engine restart` starts the current one",
        );
    }
}

/// The labels of a process on one line.
pub(crate) fn shown(p: &ProcessInfo) -> Option<String> {
    let all: Vec<String> = p.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use outlast_client::ProcessId;

    fn process(id: u8, name: Option<&str>, status: Status) -> ProcessInfo {
        let mut p = ProcessInfo::new(ProcessId::from_bytes([id; 6]), "x", status, "", outlast_client::Time::from_micros(i64::from(id)));
        p.name = name.map(Into::into);
        p
    }

    #[test]
    fn a_label_is_split_at_its_first_equals_sign() {
        let label = |text: &str| text.parse::<Label>().map(|l| (l.key, l.value));
        assert_eq!(label("a=b=c"), Ok(("a".into(), "b=c".into())));
        assert_eq!(label("a="), Ok(("a".into(), String::new())));
        assert!(label("a").is_err() && label("=b").is_err() && label("").is_err());
        assert!(collect(vec!["a=1".parse().unwrap(), "a=2".parse().unwrap()]).is_err());
    }

    #[test]
    fn a_label_is_looked_for_by_key_and_value_or_by_key() {
        let mut web = process(1, None, Status::Running);
        web.labels.insert("app".into(), "shop".into());
        let takes = |text: &str| text.parse::<LabelFilter>().map(|filter| filter.takes(&web));
        assert_eq!((takes("app=shop"), takes("app"), takes("app="), takes("ap")), (Ok(true), Ok(true), Ok(false), Ok(false)));
        assert!(takes("").is_err() && takes("=shop").is_err());
        assert_eq!(in_use("process", &[web]), "labels in use: app=shop");
        assert!(in_use("running process", &[process(1, None, Status::Running)]).starts_with("no running process has a label;"));
    }

    #[test]
    fn of_namesakes_the_newest_that_runs_is_meant_and_processes_without_a_name_stay() {
        let all = vec![
            process(1, Some("web"), Status::Running),
            process(2, Some("db"), Status::Exited),
            process(3, None, Status::Exited),
            process(4, Some("db"), Status::Exited),
            process(5, Some("web"), Status::Exited),
            process(6, None, Status::Running),
        ];
        let ids: Vec<u8> = without_namesakes(all).iter().map(|p| p.session_id.bytes()[0]).collect();
        assert_eq!(ids, [1, 3, 4, 6]);
    }
}
