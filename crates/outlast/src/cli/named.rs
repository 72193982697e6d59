//! Processes as users name them: by an id, by the beginning of one, or by a name.

use super::out::tame;
use super::{Context, Failure};
use outlast_client::{Client, ClientError, Found, ProcessId, ProcessInfo, Scope, Status, code};
use outlast_core::IdRef;
use serde::Serialize;
use serde_json::{Value, json};

/// A process that was looked up. From here on it is named by its id, so that another process cannot take its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
}

impl Named {
    /// A failure that is about this process, for users. Programs get what the engine said.
    pub(crate) fn failed(&self, ctx: &Context, failure: impl Into<Failure>) -> Failure {
        let failure = failure.into().of_process(&self.id);
        // A user who typed an id knows which process it is.
        let needs_subject =
            self.name.is_some() || failure.has_stopped() || matches!(failure.code(), code::ALREADY_EXITED | code::STILL_RUNNING);
        if ctx.out.json || !needs_subject { failure } else { failure.about(self) }
    }
}

impl Named {
    /// The process in the hint of a verb that was given these ids and names: its name if it was given, because a name may mean another process, else its id.
    pub(crate) fn typed(&self, given: &[String]) -> String {
        let name = self.name.as_ref().filter(|name| given.contains(name));
        typed(&self.id, name.map(String::as_str))
    }
}

impl std::fmt::Display for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&shown(&self.id, self.name.as_deref()))
    }
}

/// What a verb does with the process that was named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It reads, so the newest of several finished processes is what the user wants.
    Read,
    /// It changes something.
    Act,
}

/// What a user types for a process: its name if that is a plain word, otherwise its id.
pub(crate) fn typed(id: impl std::fmt::Display, name: Option<&str>) -> String {
    let is_plain = |name: &&str| {
        name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
    };
    name.filter(is_plain).map_or_else(|| id.to_string(), str::to_owned)
}

/// A process in a message: `web (proc_…)`, or the id alone.
pub(crate) fn shown(id: impl std::fmt::Display, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{} ({id})", tame(name)),
        None => id.to_string(),
    }
}

/// Looks up a process. If the name may mean several, a note says which one was taken.
pub(crate) async fn find(ctx: &Context, client: &Client, given: &str, purpose: Purpose) -> Result<Named, Failure> {
    match client.find(given).await {
        Ok(found) => {
            if found.namesakes > 1 && !ctx.out.json {
                note(&found, purpose).inspect(|note| ctx.out.remark(note));
            }
            Ok(Named { id: found.session_id.to_string(), name: found.name })
        }
        // An engine of an earlier release does not know the request. It knows ids.
        Err(ClientError::Refused(e)) if e.code == code::BAD_REQUEST => Ok(Named { id: given.to_owned(), name: None }),
        Err(e) => Err(unknown(given, e)),
    }
}

/// The same for a verb that asks first: instead of the note, the other running processes of the name, the newest first.
pub(crate) async fn find_with_namesakes(
    ctx: &Context,
    client: &Client,
    given: &str,
    purpose: Purpose,
) -> Result<(Named, Vec<ProcessId>), Failure> {
    match client.find(given).await {
        Ok(found) if found.status == Status::Running && found.running > 1 => {
            let others = others(client, found.session_id, found.name.as_deref()).await.unwrap_or_default();
            Ok((Named { id: found.session_id.to_string(), name: found.name }, others))
        }
        _ => Ok((find(ctx, client, given, purpose).await?, Vec::new())),
    }
}

/// Looks up each of several, before anything is done to one of them. A process that is named twice is there once.
pub(crate) async fn find_each(ctx: &Context, client: &Client, given: &[String], purpose: Purpose) -> Result<Vec<Named>, Failure> {
    let mut all: Vec<Named> = Vec::new();
    for given in given {
        let found = find(ctx, client, given, purpose).await?;
        if !all.contains(&found) {
            all.push(found);
        }
    }
    Ok(all)
}

/// The id of a process that may have been removed: a whole id is taken as it is, everything else is looked up.
pub(crate) async fn find_or_id(ctx: &Context, client: &Client, given: String) -> Result<String, Failure> {
    match given.parse() {
        Ok(IdRef::Exact(id)) => Ok(id.to_string()),
        Ok(IdRef::Prefix(_)) | Err(_) => Ok(find(ctx, client, &given, Purpose::Read).await?.id),
    }
}

/// What hints call a process that was just started: its name, or its id if another process of that name runs, which the name means once this one has ended. A
/// note on a terminal says so.
pub(crate) async fn typed_after_start(ctx: &Context, client: &Client, info: &ProcessInfo) -> String {
    let id = info.session_id;
    let Some(name) = info.name.as_deref().filter(|_| !ctx.out.json) else { return typed(id, info.name.as_deref()) };
    // The process was started; a look that fails changes nothing.
    let Ok(found) = client.find(name).await else { return id.to_string() };
    let is_meant = found.session_id == id;
    // The new one may have ended already.
    if found.status != Status::Running || (is_meant && found.running < 2) {
        return typed(id, Some(name));
    }
    if ctx.out.has_person()
        && let Some(other) = match is_meant {
            true => others(client, id, Some(name)).await.and_then(|others| others.first().copied()),
            false => Some(found.session_id),
        }
    {
        ctx.out.tip(&note_of_another(name, other));
    }
    id.to_string()
}

/// The other running processes of the name, the newest first.
async fn others(client: &Client, id: ProcessId, name: Option<&str>) -> Option<Vec<ProcessId>> {
    let scope = Scope { task: None, session: client.owner().session.clone() };
    let mut all = client.list(&scope, false).await.ok()?;
    all.retain(|p| p.status == Status::Running && p.session_id != id && p.name.as_deref() == name);
    all.sort_by_key(|p| std::cmp::Reverse(p.started_at));
    Some(all.iter().map(|p| p.session_id).collect())
}

/// A note that another process has the name of one that was started.
pub(crate) fn note_of_another(name: &str, other: ProcessId) -> String {
    let name = tame(name);
    format!("note: another process called {name} runs ({other}); `{name}` means the newest that runs, so this one only while it runs")
}

/// The note about a name that may mean several. None if it is clear which one is meant.
fn note(found: &Found, purpose: Purpose) -> Option<String> {
    let name = found.name.as_deref().filter(|_| found.namesakes > 1)?;
    let (which, end) = match (found.status, purpose) {
        (Status::Running, _) if found.newer > 0 => (format!("{} processes", found.namesakes), " that runs"),
        (Status::Running, _) if found.running > 1 => (format!("{} running processes", found.running), ""),
        (Status::Exited, Purpose::Act) => (format!("{} processes", found.namesakes), "; none of them runs"),
        (Status::Running, _) | (Status::Exited, Purpose::Read) => return None,
    };
    Some(format!("note: {which} are called {}; this is {}, the newest{end}", tame(name), found.session_id))
}

/// The refusal of a text that is no id, in words for a name.
fn unknown(given: &str, error: ClientError) -> Failure {
    let is_name = given.parse::<IdRef>().is_err() && error.code() == code::NOT_FOUND;
    let failure = Failure::from(error);
    if given.is_empty() {
        // As a script passes it whose variable is not set.
        return failure.saying("the name or id of the process is empty".into());
    }
    if is_name { failure.saying(format!("no process is called {}", tame(given))) } else { failure }
}

/// An answer about processes as JSON: the id of each is there as `id` and under the contract's name, `session_id`.
pub(crate) fn with_ids(answer: &impl Serialize) -> Value {
    fn add(value: &mut Value) {
        match value {
            Value::Array(all) => all.iter_mut().for_each(add),
            Value::Object(fields) => {
                fields.values_mut().for_each(add);
                if let Some(id) = fields.get("session_id").filter(|id| id.is_string()).cloned() {
                    fields.entry("id").or_insert(id);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    // An answer of ours is always an object with text for keys.
    let mut all = serde_json::to_value(answer).unwrap_or_default();
    add(&mut all);
    all
}

/// The results for several processes, in the order in which they were named.
pub(crate) struct Each {
    json: Vec<Value>,
    code: i32,
}

impl Each {
    pub(crate) fn new() -> Self {
        Self { json: Vec::new(), code: 0 }
    }

    /// One was done. The first exit code that is not 0 becomes the exit code of all.
    pub(crate) fn done(&mut self, answer: &impl Serialize, code: i32) {
        self.json.push(with_ids(answer));
        self.fail(code);
    }

    /// One was refused or failed. The others are done all the same.
    pub(crate) fn failed(&mut self, ctx: &Context, of: &Named, failure: impl Into<Failure>) {
        let failure = failure.into().of_process(&of.id);
        self.json.push(failure.to_json());
        self.fail(failure.about(of).tell_unless(ctx.out.json));
    }

    fn fail(&mut self, code: i32) {
        if self.code == 0 {
            self.code = code;
        }
    }

    /// Prints the answers, if they are asked for as JSON, and returns the exit code.
    pub(crate) fn finish(self, ctx: &Context) -> Result<i32, Failure> {
        if ctx.out.json {
            ctx.out.object(&json!({"processes": self.json}))?;
        }
        Ok(self.code)
    }
}

/// Asks about all of them at the same time. The answers are in the order of the processes.
pub(crate) async fn at_once<T, F>(all: &[Named], ask: impl Fn(String) -> F) -> Result<Vec<(&Named, Result<T, ClientError>)>, Failure>
where
    T: Send + 'static,
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    let asked: Vec<_> = all.iter().map(|one| (one, tokio::spawn(ask(one.id.clone())))).collect();
    let mut answers = Vec::new();
    for (one, answer) in asked {
        let answer = answer.await.map_err(|e| Failure::fault(format!("a request about {one} failed: {e}"), ""))?;
        answers.push((one, answer));
    }
    Ok(answers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_several_processes_is_explained() {
        let mut found = Found::new(ProcessId::from_bytes([1; 6]), Some("web".into()), Status::Running);
        for (namesakes, running, newer, want) in [
            (0, 0, 0, None),
            (1, 1, 0, None),
            (3, 1, 0, None),
            (3, 2, 0, Some("note: 2 running processes are called web; this is proc_010101010101, the newest")),
            (2, 1, 1, Some("note: 2 processes are called web; this is proc_010101010101, the newest that runs")),
            (5, 2, 1, Some("note: 5 processes are called web; this is proc_010101010101, the newest that runs")),
        ] {
            (found.namesakes, found.running, found.newer) = (namesakes, running, newer);
            assert_eq!(note(&found, Purpose::Read).as_deref(), want);
            assert_eq!(note(&found, Purpose::Act).as_deref(), want);
        }
        (found.namesakes, found.running, found.newer) = (3, 0, 0);
        found.status = Status::Exited;
        assert_eq!(note(&found, Purpose::Read), None);
        let acting = note(&found, Purpose::Act).unwrap();
        assert_eq!(acting, "note: 3 processes are called web; this is proc_010101010101, the newest; none of them runs");
    }

    #[test]
    fn a_process_in_json_has_its_id_under_both_names() {
        let list = json!({"processes": [{"session_id": "proc_1", "fate": {}}], "session_id": null});
        assert_eq!(with_ids(&list), json!({"processes": [{"session_id": "proc_1", "id": "proc_1", "fate": {}}], "session_id": null}));
    }

    #[test]
    fn a_hint_names_a_process_as_a_person_can_type_it() {
        let web = Named { id: "proc_1".into(), name: Some("web".into()) };
        let given = |text: &str| web.typed(&[text.to_owned()]);
        assert_eq!((given("web"), given("proc_1"), given("1")), ("web".into(), "proc_1".into(), "proc_1".into()));
        assert_eq!(typed("proc_1", Some("web-2.test")), "web-2.test");
        for name in [None, Some("--force"), Some("my server"), Some("$(id)"), Some("a;b"), Some("")] {
            assert_eq!(typed("proc_1", name), "proc_1", "{name:?}");
        }
    }
}
