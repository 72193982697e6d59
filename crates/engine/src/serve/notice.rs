//! Notices: claim, settle, follow, post and read them.

use super::context::RequestContext;
use crate::bytes::lease_token;
use crate::closing::Closing;
use crate::facts::EndSeen;
use crate::notices::{Claim, Claimed, NoticeDraft, NoticeEntry, NoticeFilter, SettleReply, moment};
use crate::parts::Parts;
use crate::points::point;
use crate::refuse;
use outlast_core::notice_state::TakerKind;
use outlast_core::{Body, IdRef, Owner, ProcessId, Route, Time};
use outlast_text::{Redactor, announce, announce_earlier, announce_header};
use outlast_wire::code;
use outlast_wire::v1::notice::{
    Consumed, Dead, DeadLetter, DeadOfSink, FailedDelivery, History, Judged, JudgedOne, Notices, Posted, Replay, Told, Verdict,
};
use outlast_wire::v1::{Done, Error, Event};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// The most notices in one answer.
const MOST: u32 = 1_000;
/// The longest lease of a notice, in milliseconds.
const LONGEST_LEASE: u64 = 86_400_000;
/// The longest event that may be posted, in bytes of JSON.
const LONGEST_EVENT: usize = 256 << 10;
/// How deeply the objects and lists of a posted event may be nested. JSON parsers have a bound of their own, often 128 and sometimes lower,
/// and an answer nests the event deeper.
const DEEPEST_EVENT: usize = 64;
/// The longest name or kind.
const LONGEST_NAME: usize = 256;
/// Kinds that only the engine may use.
const OURS: [&str; 6] = ["completion", "watch_match", "watch_disabled", "watch_overflow_tripped", "watch_overflow_released", "until"];

pub(super) async fn next(
    asked: &RequestContext,
    (taker, by_owner): (TakerKind, bool),
    limit: u32,
    lease_ms: u64,
    wait_ms: Option<u64>,
) -> Result<Notices, Error> {
    let limit = checked(limit)?;
    if lease_ms == 0 || lease_ms > LONGEST_LEASE {
        let what = format!("a lease of {lease_ms} ms is out of range");
        return Err(refuse::refusal(code::BAD_REQUEST, what, "give 1 to 86,400,000 ms (a day)"));
    }
    let outbox = &asked.parts.outbox;
    let mut news = outbox.news();
    let until = wait_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
    let mut interrupts = match &asked.owner.session {
        Some(session) => asked.parts.table.interrupts(session.clone()).await,
        None => None,
    };
    let mut too_late = 0;
    loop {
        news.borrow_and_update();
        let claim = Claim {
            session: asked.owner.session.clone().unwrap_or_default(),
            generation: asked.owner.generation.clone().unwrap_or_default(),
            named_by: asked.named_by(),
            taker,
            asker: asked.asker.clone(),
            asked: by_owner,
            limit,
            lease: lease_token(),
            lease_for: lease_ms as i64 * 1_000,
            now: moment(asked.parts.now()),
        };
        let claiming = UnfinishedClaim::new(asked, &claim);
        let (Claimed { given, too_late: more }, lapses) = outbox.claim(claim).await.map_err(|e| refuse::index(&e))?;
        too_late += more;
        point!("notice.claimed");
        claiming.done();
        if !given.is_empty() {
            point!("notice.leased");
            return Ok(answer(given).too_late(too_late));
        }
        let waits = until.is_none_or(|t| t > Instant::now());
        if !waits {
            return Ok(none(too_late));
        }
        // The lease of another taker may end without a report.
        let lapse = lapses.map(|after| after.max(Duration::from_millis(1)));
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return Err(refuse::stopping()) },
            () = asked.parts.closing.reached(Closing::Stopping) => return Err(refuse::stopping()),
            () = tokio::time::sleep(lapse.unwrap_or_default()), if lapse.is_some() => {}
            () = tokio::time::sleep_until(until.unwrap_or_else(Instant::now)), if until.is_some() => {}
            () = super::wait::interrupted(&mut interrupts) => return Ok(none(too_late)),
        }
    }
}

/// A claim that is under way. If the taker leaves before it is done, as a cancelled call does, its notices are given to the next taker.
struct UnfinishedClaim {
    parts: Arc<Parts>,
    claim: Option<Claim>,
}

impl UnfinishedClaim {
    fn new(asked: &RequestContext, claim: &Claim) -> Self {
        Self { parts: Arc::clone(&asked.parts), claim: Some(claim.clone()) }
    }

    /// The claim has its answer. From here on the notices are leased to the taker.
    fn done(mut self) {
        self.claim = None;
    }
}

impl Drop for UnfinishedClaim {
    fn drop(&mut self) {
        // Without a runtime there is no engine left to give them out.
        let (Some(claim), Ok(runtime)) = (self.claim.take(), tokio::runtime::Handle::try_current()) else { return };
        let parts = self.parts.clone();
        // The claim was queued before this, so it is written first.
        runtime.spawn(async move { parts.outbox.unclaim(claim, parts.now()).await });
    }
}

fn checked(limit: u32) -> Result<usize, Error> {
    if limit == 0 || limit > MOST {
        let what = format!("{limit} notices cannot be given at once");
        return Err(refuse::refusal(code::BAD_REQUEST, what, format!("give a limit of 1 to {MOST}")));
    }
    Ok(limit as usize)
}

fn none(too_late: u64) -> Notices {
    Notices::new(Vec::new(), None).too_late(too_late)
}

fn answer(given: Vec<NoticeEntry>) -> Notices {
    let told: Vec<Told> = given.into_iter().map(told).collect();
    let texts = told.iter().map(|one| one.text.clone());
    let text = announce_header(told.len()).into_iter().chain(texts).collect::<Vec<_>>().join("\n\n");
    Notices::new(told, Some(text))
}

fn told(entry: NoticeEntry) -> Told {
    let leased = entry.state == "leased";
    let text = if entry.earlier { announce_earlier(&entry.notice) } else { announce(&entry.notice) };
    let mut told = Told::new(entry.notice, text, entry.state);
    told.reason = entry.reason;
    told.attempts = entry.attempts;
    told.observed = entry.observed;
    told.earlier = entry.earlier;
    // A notice that is held for an answer has no token.
    told.lease = Some(entry.lease).filter(|token| !token.is_empty());
    told.lease_until = leased.then(|| Time::from_micros(entry.lease_until));
    told.settled_at = (entry.settled_at > 0).then(|| Time::from_micros(entry.settled_at));
    told
}

pub(super) async fn settle(asked: &RequestContext, ids: Vec<String>, lease: Option<String>, verdict: Verdict) -> Result<Judged, Error> {
    if ids.is_empty() || ids.len() > MOST as usize {
        let what = format!("{} notices cannot be settled at once", ids.len());
        return Err(refuse::refusal(code::BAD_REQUEST, what, format!("name 1 to {MOST}")));
    }
    let verdict = match verdict {
        Verdict::Dropped { reason } => Verdict::Dropped { reason: reason.chars().take(LONGEST_NAME).collect() },
        verdict @ (Verdict::Delivered | Verdict::Released) => verdict,
    };
    let delivered = verdict == Verdict::Delivered;
    point!("notice.before_settle");
    let parts = &asked.parts;
    let judged = parts.outbox.settle(ids, asked.owner.session.clone(), lease, verdict, parts.now()).await.map_err(|e| refuse::index(&e))?;
    point!("notice.settled");
    let mut notices = Vec::new();
    for judged in judged {
        let status = match judged.settled {
            SettleReply::Done => "ok",
            SettleReply::Already => "already",
            SettleReply::Unknown => "unknown",
            SettleReply::Lost => "lost",
        };
        if let (true, Some(process)) = (delivered && status == "ok", judged.completion_of) {
            asked.parts.table.consumed(process, EndSeen::Seen).await;
        }
        notices.push(JudgedOne::new(judged.id, status));
    }
    Ok(Judged::new(notices))
}

/// Sends every notice as it is written. Ends with the connection, or with the engine.
pub(super) async fn follow(asked: &RequestContext, after: Option<u64>) -> Result<Done, Error> {
    let outbox = &asked.parts.outbox;
    let (mut news, following) = (outbox.news(), outbox.follow());
    let mut after = match after {
        Some(seq) => seq,
        None => outbox.last_seq().await.map_err(|e| refuse::index(&e))?,
    };
    // A client that waits for this event knows that it misses nothing from here on.
    asked.out.event(Event::Waiting { after: Some(after) }).await;
    loop {
        news.borrow_and_update();
        match following.after(after) {
            Some(made) => {
                for entry in made {
                    after = entry.notice.seq;
                    if asked.owner.session.as_ref().is_none_or(|session| *session == entry.notice.session_key) {
                        asked.out.event(Event::Notice { told: Box::new(told(NoticeEntry::clone(&entry))) }).await;
                    }
                }
            }
            None => after = send_after(asked, after).await?,
        }
        tokio::select! {
            changed = news.changed() => if changed.is_err() { return Err(refuse::stopping()) },
            () = asked.parts.closing.reached(Closing::Stopping) => return Err(refuse::stopping()),
        }
    }
}

/// Sends the notices on disk after a number. Returns the number of the last one that was sent.
async fn send_after(asked: &RequestContext, mut after: u64) -> Result<u64, Error> {
    loop {
        let filter = NoticeFilter { after, session: asked.owner.session.clone(), limit: MOST as usize, ..NoticeFilter::default() };
        let found = asked.parts.outbox.read_committed(filter).await.map_err(|e| refuse::index(&e))?;
        if found.is_empty() {
            return Ok(after);
        }
        for entry in found {
            after = entry.notice.seq;
            asked.out.event(Event::Notice { told: Box::new(told(entry)) }).await;
        }
    }
}

pub(super) async fn history(asked: &RequestContext, wanted: History) -> Result<Notices, Error> {
    let limit = checked(wanted.limit.unwrap_or(100))?;
    let states = ["pending", "seen", "leased", "delivered", "consumed", "superseded", "dropped"];
    if let Some(state) = wanted.state.as_deref().filter(|s| !states.contains(s)) {
        let what = format!("{state:?} is not a state of a notice");
        return Err(refuse::refusal(code::BAD_REQUEST, what, format!("one of {}", states.join(", "))));
    }
    let process = match &wanted.process {
        Some(name) => Some(named(asked, name).await?.to_string()),
        None => None,
    };
    let filter = NoticeFilter {
        after: wanted.after.unwrap_or(0),
        session: asked.owner.session.clone(),
        process,
        kind: wanted.kind,
        state: wanted.state,
        newest: wanted.newest,
        limit,
    };
    let mut found = asked.parts.outbox.read(filter).await.map_err(|e| refuse::index(&e))?;
    found.retain(|entry| asked.asker.as_ref().is_none_or(|asker| asker.takes(&entry.notice.session_id, true)));
    let mut all: Vec<Told> = found.into_iter().map(told).collect();
    tell_failed_deliveries(asked, &mut all).await?;
    Ok(Notices::new(all, None))
}

/// Adds to each notice which sinks have failed to deliver it.
async fn tell_failed_deliveries(asked: &RequestContext, all: &mut [Told]) -> Result<(), Error> {
    let numbers = || all.iter().map(|told| told.event.seq);
    let (Some(first), Some(last)) = (numbers().min(), numbers().max()) else { return Ok(()) };
    let troubled = asked.parts.outbox.troubled(first, last).await.map_err(|e| refuse::index(&e))?;
    for (seq, sink, dead, attempts, error) in troubled {
        if let Some(told) = all.iter_mut().find(|told| told.event.seq == seq) {
            told.failed_deliveries.push(FailedDelivery::new(sink, dead, attempts, error));
        }
    }
    Ok(())
}

pub(super) async fn replay(asked: &RequestContext, what: Replay) -> Result<Done, Error> {
    let (outbox, session) = (&asked.parts.outbox, asked.owner.session.clone());
    let count = match what {
        Replay::From { seq } => outbox.replay(seq, session, asked.parts.now()).await,
        Replay::Dead { notice, sink } => return revive(asked, notice, sink).await,
    };
    let count = count.map_err(|e| refuse::index(&e))?;
    Ok(Done::many(count))
}

/// Retries dead letters. Those of a sink that is not configured stay dead: a pending delivery without a sink would be shown nowhere.
async fn revive(asked: &RequestContext, notice: Option<String>, sink: Option<String>) -> Result<Done, Error> {
    let (outbox, session) = (&asked.parts.outbox, &asked.owner.session);
    let configured: Vec<&str> = outbox.sinks().iter().map(|sink| sink.name.as_str()).collect();
    let sinks = match &sink {
        Some(name) if configured.contains(&name.as_str()) => vec![name.as_str()],
        Some(name) => {
            let hint = match &configured[..] {
                [] => "the running engine has no hook and no webhook".to_owned(),
                names => format!("the running engine has {}", names.join(", ")),
            };
            let hint = format!("{hint}; `outlast engine restart` applies a changed configuration");
            return Err(refuse::refusal(code::NOT_FOUND, format!("no hook or webhook is called {name}"), hint));
        }
        None => configured,
    };
    let mut count = 0;
    for sink in sinks {
        count += outbox.revive(notice.clone(), Some(sink.to_owned()), session.clone()).await.map_err(|e| refuse::index(&e))?;
    }
    Ok(Done::many(count))
}

pub(super) async fn dead(asked: &RequestContext, limit: Option<u32>) -> Result<Dead, Error> {
    let limit = checked(limit.unwrap_or(100))?;
    let found = asked.parts.outbox.dead(asked.owner.session.clone(), limit).await.map_err(|e| refuse::index(&e))?;
    let letter = |(sink, owed): (String, crate::notices::OwedDelivery)| {
        DeadLetter::new(sink, owed.entry.notice, owed.attempts, owed.first_at, owed.reason)
    };
    let counts =
        asked.parts.outbox.dead_of_sinks(asked.owner.session.clone(), Time::from_micros(0)).await.map_err(|e| refuse::index(&e))?;
    let sinks = counts.into_iter().map(|(sink, count, why)| DeadOfSink::new(sink, count, why)).collect();
    Ok(Dead::new(found.into_iter().map(letter).collect(), sinks))
}

/// The process that a name means, also if only its notices are left of it.
async fn named(asked: &RequestContext, name: &str) -> Result<ProcessId, Error> {
    match (asked.resolve(name).await, name.parse()) {
        (Ok(view), _) => Ok(view.id()),
        (Err(error), Ok(IdRef::Exact(id))) if error.code == code::NOT_FOUND => {
            let filter =
                NoticeFilter { session: asked.owner.session.clone(), process: Some(id.to_string()), limit: 1, ..NoticeFilter::default() };
            let found = asked.parts.outbox.read(filter).await.map_err(|e| refuse::index(&e))?;
            if found.is_empty() { Err(error) } else { Ok(id) }
        }
        (Err(error), _) => Err(error),
    }
}

pub(super) async fn consumed(asked: &RequestContext, name: &str, mark: bool) -> Result<Consumed, Error> {
    let id = named(asked, name).await?;
    let parts = &asked.parts;
    if mark {
        // The end of a running process cannot have been seen.
        if asked.parts.table.facts(id).await.is_some_and(|facts| !facts.is_over()) {
            return Ok(Consumed { consumed: false });
        }
        parts.outbox.consume(id, "mark", parts.now()).await.map_err(|e| refuse::index(&e))?;
        asked.parts.table.consumed(id, EndSeen::Seen).await;
        return Ok(Consumed { consumed: true });
    }
    let consumed = parts.outbox.is_consumed(id).await.map_err(|e| refuse::index(&e))?;
    Ok(Consumed { consumed })
}

pub(super) async fn post(asked: &RequestContext, id: Option<String>, event: Map<String, Value>, route: Route) -> Result<Posted, Error> {
    let draft = draft(&asked.owner, id, event, route, &asked.parts.redactor, asked.parts.now())?;
    let wanted = (draft.body.clone(), draft.route.clone());
    let (found, new) = asked.parts.outbox.post(draft, asked.owner.clone(), asked.parts.now()).await.map_err(|e| refuse::index(&e))?;
    let Some(entry) = found else { return Err(refuse::fault("a notice was written and is not there")) };
    if !new && (&entry.notice.body, &entry.notice.route) != (&wanted.0, &wanted.1) {
        let what = format!("{} is the name of another notice, with another content or for another place", entry.notice.event_id);
        return Err(refuse::refusal(code::ID_TAKEN, what, "give another id, or none"));
    }
    Ok(Posted::new(told(entry), !new))
}

/// Makes a notice of a posted event: the fields that name its receiver become columns, the rest is kept as it is, with secrets masked.
fn draft(
    owner: &Owner,
    id: Option<String>,
    mut event: Map<String, Value>,
    mut route: Route,
    redactor: &Redactor,
    now: Time,
) -> Result<NoticeDraft, Error> {
    let refused = |what: String, hint: &str| Err(refuse::refusal(code::BAD_REQUEST, what, hint));
    let mut take = |name: &str| match event.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(Value::String(text)) if text.len() <= LONGEST_NAME && !text.contains(char::is_control) => Ok(Some(text)),
        Some(Value::Number(number)) => Ok(Some(number.to_string())),
        Some(Value::String(text)) => Err(format!("the field {name:?} has {} bytes, or a control character in it", text.len())),
        Some(_) => Err(format!("the field {name:?} is not a text")),
    };
    let mut field =
        |name: &str| take(name).map_err(|what| refuse::refusal(code::BAD_REQUEST, what, "give 1 to 256 bytes of printable text"));
    let Some(kind) = field("type")? else {
        return refused("the event has no type".into(), "give a field \"type\", such as \"async_delegation\" or a name of your own");
    };
    if OURS.contains(&kind.as_str()) {
        return refused(format!("an event of type {kind:?} is made by the engine alone"), "use \"async_delegation\" or a name of your own");
    }
    let session = match (owner.session.clone(), field("session_key")?) {
        (Some(own), Some(other)) if own != other => {
            return Err(refuse::refusal(
                code::NOT_YOURS,
                format!("the event is for session {other:?}, and the caller speaks for {own:?}"),
                "leave session_key out",
            ));
        }
        (Some(own), _) => Some(own),
        (None, given) => given,
    };
    let (task, generation) = (field("task_id")?, field("generation")?);
    let process = match field("session_id")? {
        Some(text) => match text.parse() {
            Ok(IdRef::Exact(id)) => Some(id),
            _ => return refused(format!("the session_id {text:?} is no process id"), "give a whole process id, or none"),
        },
        None => None,
    };
    let given = field("event_id")?;
    for (name, place) in [
        ("platform", &mut route.platform),
        ("chat_id", &mut route.chat_id),
        ("user_id", &mut route.user_id),
        ("user_name", &mut route.user_name),
        ("thread_id", &mut route.thread_id),
        ("message_id", &mut route.message_id),
    ] {
        if let Some(text) = field(name)? {
            *place = Some(text);
        }
    }
    let name = match id.or(given).or_else(|| delegation(&kind, &event)) {
        Some(id) if id.is_empty() || id.len() > LONGEST_NAME || id.contains(char::is_control) => {
            return refused(
                format!("the id has {} bytes, or a control character in it", id.len()),
                "give 1 to 256 bytes of printable text",
            );
        }
        Some(id) => id,
        None => lease_token(),
    };
    for ours in ["seq", "created_at", "repeat"] {
        event.remove(ours);
    }
    event.insert("type".into(), Value::String(kind));
    let bytes = serde_json::to_vec(&event).map_or(usize::MAX, |text| text.len());
    if bytes > LONGEST_EVENT {
        return refused(format!("the event has {bytes} bytes"), "give at most 262,144; put the rest into a file and say where it is");
    }
    let levels = 1 + event.values().map(depth).max().unwrap_or(0);
    if levels > DEEPEST_EVENT {
        return refused(format!("the event is nested {levels} deep"), "give at most 64 objects and lists inside each other");
    }
    // Masked before anything is compared or written, so that the same event posted again is equal.
    let event = masked_fields(redactor, event);
    let conversation = session.as_deref().unwrap_or_default();
    // The length separates the session's name from the notice's.
    let key = format!("posted/{}/{conversation}/{name}", conversation.len());
    let owner = Owner { session, task: task.or(owner.task.clone()), generation: generation.or(owner.generation.clone()) };
    Ok(NoticeDraft { key, at: now, process, owner, route, body: Body::Posted(event), repeat: false })
}

/// The name of a delegation's notice. It is one notice, however often it is posted.
fn delegation(kind: &str, event: &Map<String, Value>) -> Option<String> {
    let name = event.get("delegation_id").filter(|_| kind == "async_delegation")?.as_str()?;
    (!name.is_empty()).then(|| name.to_owned())
}

/// A value in which secrets are masked as in output, in every text and in the names of fields.
fn masked(redactor: &Redactor, value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(redactor.command(&text).into_owned()),
        Value::Array(all) => all.into_iter().map(|value| masked(redactor, value)).collect(),
        Value::Object(fields) => Value::Object(masked_fields(redactor, fields)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value,
    }
}

fn masked_fields(redactor: &Redactor, fields: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    for (name, value) in fields {
        let mut name = redactor.command(&name).into_owned();
        // Two names may be equal once they are masked.
        while all.contains_key(&name) {
            name.push('*');
        }
        all.insert(name, masked(redactor, value));
    }
    all
}

/// How deeply objects and lists are nested. The JSON parser has bounded it.
fn depth(value: &Value) -> usize {
    match value {
        Value::Array(all) => 1 + all.iter().map(depth).max().unwrap_or(0),
        Value::Object(all) => 1 + all.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sessions_and_notices_do_not_run_into_each_other() {
        let key = |session: &str, name: &str| {
            let event = serde_json::json!({"type": "custom"}).as_object().unwrap().clone();
            let owner = Owner { session: Some(session.into()), ..Owner::default() };
            draft(&owner, Some(name.into()), event, Route::default(), &Redactor::new(true), Time::from_micros(0)).unwrap().key
        };
        assert_ne!(key("a/b", "c"), key("a", "b/c"));
        assert_ne!(key("a", "1/a/b"), key("a/1/a", "b"));
    }

    #[test]
    fn an_event_may_be_so_deep_and_no_deeper() {
        let nested = |levels: usize| {
            let inside = (1..levels)
                .fold(Value::Null, |inner, n| if n % 2 == 0 { serde_json::json!({ "a": inner }) } else { serde_json::json!([inner, 1]) });
            let event = serde_json::json!({"type": "custom", "flat": [], "deep": inside}).as_object().unwrap().clone();
            draft(&Owner::default(), None, event, Route::default(), &Redactor::new(true), Time::from_micros(0))
        };
        assert!(nested(1).is_ok() && nested(DEEPEST_EVENT).is_ok());
        assert_eq!(nested(DEEPEST_EVENT + 1).unwrap_err().error, "the event is nested 65 deep");
    }

    #[test]
    fn fields_whose_names_look_the_same_once_masked_are_all_kept() {
        let fields = serde_json::json!({"password=aaaaaa": 1, "sk-aaaaaaaaaaaaaaaaaaaaaaaa1111": 2, "sk-aaaaaaaaaaabbbbbbbbbbbbbb1111": 3});
        let all = masked_fields(&Redactor::new(true), fields.as_object().unwrap().clone());
        let mut values: Vec<&Value> = all.values().collect();
        values.sort_by_key(|v| v.as_u64());
        assert_eq!(values, [1, 2, 3]);
        assert!(all.contains_key("sk-aaa...1111") && all.contains_key("sk-aaa...1111*"), "{all:?}");
    }
}
