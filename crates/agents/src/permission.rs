//! Who may approve what an agent wants to do, and for how long a person is asked.

use std::time::Duration;

/// How long a request waits if no person is present: as long as a person who just left needs to come back. Then it is denied, and shown.
const UNATTENDED_PERMISSION_LIMIT: Duration = Duration::from_secs(60);
/// How long a request waits while a person is present: as long as an agent may be silent. A person who has left the terminal open must not hold up a conversation for ever.
const ATTENDED_PERMISSION_LIMIT: Duration = Duration::from_secs(30 * 60);

/// What is decided without a person, and when.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionPolicy {
    /// Who decides.
    pub mode: PermissionMode,
    /// How long a request waits with no person present.
    pub unattended_limit: Duration,
    /// How long a request waits with a person present.
    pub attended_limit: Duration,
}

impl Default for PermissionPolicy {
    fn default() -> Self {
        Self::new(PermissionMode::Ask)
    }
}

impl PermissionPolicy {
    /// The usual limits.
    pub fn new(mode: PermissionMode) -> Self {
        Self { mode, unattended_limit: UNATTENDED_PERMISSION_LIMIT, attended_limit: ATTENDED_PERMISSION_LIMIT }
    }

    /// The same, with another limit for requests that no person sees.
    #[must_use]
    pub fn denied_after(self, unattended_limit: Duration) -> Self {
        Self { unattended_limit, ..self }
    }

    pub(crate) fn limit(&self, is_attended: bool) -> Duration {
        if is_attended { self.attended_limit } else { self.unattended_limit }
    }

    /// The decision of the policy about a request; `None` if a person has to decide.
    pub(crate) fn rule(&self, ask: &PermissionAsk) -> Option<(Decision, SettledBy)> {
        match &self.mode {
            PermissionMode::Ask => None,
            PermissionMode::AllowList(entries) => {
                entries.iter().any(|entry| ask.is_matched_by(entry)).then_some((Decision::Allow, SettledBy::AllowList))
            }
            PermissionMode::Always => Some((Decision::Allow, SettledBy::Always)),
        }
    }
}

/// Who decides.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PermissionMode {
    /// A person.
    Ask,
    /// What one of these entries matches is allowed, and a person decides about the rest.
    ///
    /// An entry `kind:read` matches every tool call that the agent calls a `read`. Any other entry is compared with the whole title of the call; with a `*` at its end
    /// it matches every title that begins so. Titles are the agent's own words: `git status*` also matches `git status; rm -r .`, so a `*` is for what does no harm.
    AllowList(Vec<String>),
    /// Everything is allowed.
    Always,
}

/// What an agent asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionAsk {
    /// Our id for the request, unique within the actor.
    pub id: String,
    /// The agent's id for the tool call that it is about.
    pub call: String,
    /// What the agent wants to do, on one line.
    pub title: String,
    /// The agent's word for what kind of tool it is.
    pub kind: Option<String>,
    /// What the agent says of it besides, on one line. Some have the name of the tool as the title, and the command only here.
    pub detail: Option<String>,
    /// What a person can choose from.
    pub options: Vec<PermissionOption>,
}

/// One answer that an agent offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionOption {
    /// The agent's id for it.
    pub id: String,
    /// What it says, on one line.
    pub name: String,
    /// What it means.
    pub kind: OptionKind,
}

/// What an answer means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// This once.
    AllowOnce,
    /// From now on.
    AllowAlways,
    /// Not this time.
    RejectOnce,
    /// Never.
    RejectAlways,
    /// The agent's word for it is not known.
    Other,
}

impl OptionKind {
    pub(crate) fn of(word: &str) -> Self {
        match word {
            "allow_once" => Self::AllowOnce,
            "allow_always" => Self::AllowAlways,
            "reject_once" => Self::RejectOnce,
            "reject_always" => Self::RejectAlways,
            _ => Self::Other,
        }
    }

    fn allows(self) -> bool {
        matches!(self, Self::AllowOnce | Self::AllowAlways)
    }
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decision {
    /// Allow it, once if the agent offers that.
    Allow,
    /// Deny it, once.
    Deny,
    /// The option with this id.
    Choose(String),
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SettledBy {
    /// A person.
    Person,
    /// An entry of the allow-list.
    AllowList,
    /// The mode that allows everything.
    Always,
    /// The limit: no person decided within this time.
    Limit(Duration),
    /// A cancel of the turn.
    Cancel,
}

/// What an agent is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ruling {
    /// The option with this id, and whether it allows.
    Selected { option: String, is_allowed: bool },
    /// None of them. The protocol's word for it is "cancelled".
    Cancelled,
}

impl PermissionAsk {
    /// What a person is asked, on one line. An allow-list is compared with the title alone.
    pub fn question(&self) -> String {
        match &self.detail {
            Some(detail) if *detail != self.title => format!("{}: {detail}", self.title),
            Some(_) | None => self.title.clone(),
        }
    }

    /// What a decision comes to. Nothing if it chooses what was not offered.
    pub(crate) fn ruling(&self, decision: &Decision) -> Option<Ruling> {
        let of_kind = |kind: OptionKind| self.options.iter().find(|option| option.kind == kind);
        let select = |option: &PermissionOption| Ruling::Selected { option: option.id.clone(), is_allowed: option.kind.allows() };
        match decision {
            // An agent that offers no way to allow it gets no yes.
            Decision::Allow => {
                Some(of_kind(OptionKind::AllowOnce).or_else(|| of_kind(OptionKind::AllowAlways)).map_or(Ruling::Cancelled, select))
            }
            // "Never again" is more than was decided, so without a "not this time" none is selected.
            Decision::Deny => Some(of_kind(OptionKind::RejectOnce).map_or(Ruling::Cancelled, select)),
            Decision::Choose(id) => self.options.iter().find(|option| option.id == *id).map(select),
        }
    }

    fn is_matched_by(&self, entry: &str) -> bool {
        if let Some(kind) = entry.strip_prefix("kind:") {
            return self.kind.as_deref() == Some(kind);
        }
        match entry.strip_suffix('*') {
            Some(start) => self.title.starts_with(start),
            None => self.title == entry,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(title: &str, kinds: &[OptionKind]) -> PermissionAsk {
        let option = |(n, kind): (usize, &OptionKind)| PermissionOption { id: n.to_string(), name: format!("{kind:?}"), kind: *kind };
        let options = kinds.iter().enumerate().map(option).collect();
        PermissionAsk { id: "1".into(), call: "c".into(), title: title.into(), kind: Some("execute".into()), detail: None, options }
    }

    #[test]
    fn the_mildest_option_that_fits_is_selected() {
        use OptionKind::*;
        let selected = |option: &str, is_allowed| Some(Ruling::Selected { option: option.into(), is_allowed });
        let all = ask("ls", &[AllowAlways, AllowOnce, RejectAlways, RejectOnce]);
        assert_eq!(all.ruling(&Decision::Allow), selected("1", true));
        assert_eq!(all.ruling(&Decision::Deny), selected("3", false));
        assert_eq!(all.ruling(&Decision::Choose("0".into())), selected("0", true));
        assert_eq!(all.ruling(&Decision::Choose("2".into())), selected("2", false));
        assert_eq!(all.ruling(&Decision::Choose("9".into())), None);
        let few = ask("ls", &[AllowAlways, RejectAlways]);
        assert_eq!(few.ruling(&Decision::Allow), selected("0", true));
        assert_eq!(few.ruling(&Decision::Deny), Some(Ruling::Cancelled));
        assert_eq!(ask("ls", &[]).ruling(&Decision::Allow), Some(Ruling::Cancelled));
    }

    #[test]
    fn an_allow_list_matches_whole_titles_beginnings_and_kinds() {
        let rule = |entry: &str, title: &str| {
            PermissionPolicy::new(PermissionMode::AllowList(vec![entry.into()])).rule(&ask(title, &[])).is_some()
        };
        assert!(rule("git status", "git status") && !rule("git status", "git status -s") && !rule("git", "git status"));
        assert!(rule("git *", "git status") && !rule("git *", "git"));
        assert!(rule("kind:execute", "anything") && !rule("kind:read", "anything") && !rule("kind:", "x"));
        assert!(!rule("", "x") && rule("*", "x"));
    }

    #[test]
    fn modes_decide_or_leave_it_to_a_person() {
        let asked = ask("ls", &[]);
        assert_eq!(PermissionPolicy::default().rule(&asked), None);
        assert_eq!(PermissionPolicy::new(PermissionMode::Always).rule(&asked), Some((Decision::Allow, SettledBy::Always)));
    }
}
