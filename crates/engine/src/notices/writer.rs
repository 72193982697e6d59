//! Makes notices from facts, in the transaction that records how far a process was read.

use super::table::{self, Moment, NoticeDraft, NoticeEntry, end_key};
use super::waiters::Waiters;
use crate::config::{Clock, Push};
use crate::facts::{EndSeen, Facts};
use crate::index;
use crate::masks::Finder;
use crate::render::{self, Log};
use outlast_core::notice_state::{ANNOUNCED_WAIT_TIMEOUT, Micros, RESERVATION_TIMEOUT, WrittenFor};
use outlast_core::{Body, Completion, Matched, Owner, ProcessId, Reason, Record, Route, Tell, Time, WatchMatch, limits};
use outlast_core::{Breaker, Limiter, MatchSeen, Rules, WatchDecision, watch};
use outlast_store::dir::ProcessDir;
use outlast_store::segments::{Chunk, LogReader};
use outlast_text::Redactor;
use outlast_text::watch::{Cursor, Found, Scanner};
use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The changes of a process since its row was last written.
#[derive(Debug, Clone)]
pub(crate) struct ProcessChange {
    /// The current facts, for its row.
    row: Facts,
    /// Matches, each with its position in the journal, their text masked.
    matches: Vec<(u64, Matched)>,
    /// How it ended, if it has. It becomes a notice if its owner asked for that or was promised one.
    end: Option<Box<Completion>>,
    /// Whether its notices may have been delivered before.
    repeat: bool,
    /// The boot in which all of it happened, if known.
    boot: Option<u128>,
    /// Whether a client of its session waited for its end when its folder was read.
    waited_for: bool,
    /// Whether it ended so soon that a client that announced a wait may not have sent it yet.
    soon: bool,
    /// Set if an answer with the end was begun while the disk refused this change: the client may have it, confirmed or not.
    answered: Option<Arc<AtomicBool>>,
}

impl ProcessChange {
    /// The difference between `before` and `after`. None if it need not be written. Reads the end of the log, and blocks for as long as the
    /// disk takes.
    pub(crate) fn of(
        (redactor, waiters): (&Redactor, &Waiters),
        before: &Facts,
        after: &Facts,
        seen: &crate::facts::FolderLook,
        dir: &ProcessDir,
    ) -> Option<Self> {
        let tell = &after.kept.spec.tell;
        let mut found = journalled(seen);
        if after.phase.is_final() && !before.phase.is_final() {
            found.extend(left_in_meta(after, seen, dir));
        }
        let matches: Vec<(u64, Matched)> = if tell.watch.is_empty() { Vec::new() } else { matches(redactor, after, found) };
        let ended = after.is_over() && !before.is_over();
        if matches.is_empty() && !ended && !is_worth_a_row(before, after) {
            return None;
        }
        let end = (ended && wants_end(tell)).then(|| Box::new(completion(redactor, after, seen, dir)));
        let waited_for = waiters.any(&end_key(after.id()));
        let lasted = after.ended_at().map_or(i64::MAX, |at| at.micros().saturating_sub(after.since().micros()));
        let soon = (tell.awaited || tell.unless_waited_for) && lasted < ANNOUNCED_WAIT_TIMEOUT;
        let boot = seen.meta.as_ref().map(|meta| meta.boot);
        Some(Self { row: after.clone(), matches, end, repeat: false, boot, waited_for, soon, answered: None })
    }

    /// The same for a process whose notices may have been delivered, because the record of that is lost.
    pub(crate) fn maybe_told(self) -> Self {
        Self { repeat: true, ..self }
    }

    /// The same, to be written instead of an earlier change that the disk refused.
    pub(crate) fn instead_of(self, first: Option<&Self>) -> Self {
        let (repeat, waited_for) = first.map_or((false, false), |f| (f.repeat, f.waited_for));
        Self { repeat: self.repeat || repeat, waited_for: self.waited_for || waited_for, ..self }
    }

    /// The same, with the flag that says whether an answer with the end was begun. It is read in the transaction that writes the change.
    pub(crate) fn unless_answered(self, answered: Option<Arc<AtomicBool>>) -> Self {
        Self { answered, ..self }
    }

    /// Whether the notice of the end may have been delivered before.
    fn is_end_repeat(&self) -> bool {
        self.repeat || self.answered.as_ref().is_some_and(|answered| answered.load(Ordering::SeqCst))
    }

    pub(super) fn id(&self) -> ProcessId {
        self.row.id()
    }

    /// The facts once it is written.
    pub(crate) fn into_facts(self) -> Facts {
        self.row
    }

    /// Whether it may lead to a notice.
    pub(crate) fn may_give_a_notice(&self) -> bool {
        self.end.is_some() || !self.matches.is_empty()
    }
}

/// Whether the end may become a notice: because the owner asked for it, or because a switched-off watch promises it.
fn wants_end(tell: &Tell) -> bool {
    tell.completion || !tell.watch.is_empty()
}

/// Whether the change is written to the index. Other changes are read from the folder at the next start anyway, and each row costs a sync.
fn is_worth_a_row(before: &Facts, after: &Facts) -> bool {
    use outlast_core::Phase;
    let (before, after) = (&before.phase, &after.phase);
    let begun = *before == Phase::Accepted && *after != Phase::Accepted;
    let orphaned = |p: &Phase| matches!(p, Phase::Orphaned { .. });
    begun || (after.is_final() && !before.is_final()) || (orphaned(after) && !orphaned(before))
}

/// The matches that count: those in output from before the end of the command.
fn matches(redactor: &Redactor, after: &Facts, found: Vec<(u64, Matched)>) -> Vec<(u64, Matched)> {
    let end = if after.is_over() { after.log_end } else { u64::MAX };
    let command = after.kept.spec.command.shown();
    let finder = after.kept.masks.as_ref().and_then(Finder::new);
    let masked = |(at, m): (u64, Matched)| {
        // Masked as a whole: a secret may begin in one line and end in the next.
        let text = m.lines.join("\n");
        let text = finder.as_ref().map_or(text.clone(), |finder| finder.masked(&text));
        let lines = redactor.output(&command, &text).split('\n').map(str::to_owned).collect();
        (at, Matched { pattern: redactor.command_line(&m.pattern).into_owned(), lines, ..m })
    };
    found.into_iter().filter(|(_, m)| m.offset < end).map(masked).collect()
}

/// The matches in the journal, each with its position there.
fn journalled(seen: &crate::facts::FolderLook) -> Vec<(u64, Matched)> {
    let matched = |(at, record): &(u64, Record)| match record {
        Record::Matched(m) => Some((*at, m.clone())),
        _ => None,
    };
    seen.journal.iter().filter_map(matched).collect()
}

/// How many bytes of a log are read again for the text of matches.
const READ_AGAIN: u64 = 1 << 20;

/// The matches that are missing in the journal, because the disk stayed full or no keeper lived to write them. Their position is where
/// their record was begun, or else the journal's end. If the record exists after all, it has the same position, and each position is
/// processed once.
fn left_in_meta(of: &Facts, seen: &crate::facts::FolderLook, dir: &ProcessDir) -> Option<(u64, Matched)> {
    let meta = seen.meta.as_ref()?;
    let waiting = meta.watched.waiting?;
    // The record was written after the journal and before `meta` was read.
    if journalled(seen).iter().any(|(_, m)| m.offset == waiting.offset) {
        return None;
    }
    let pattern = of.kept.spec.tell.watch.get(waiting.pattern as usize)?;
    let (log, to) = (LogReader::open(dir, of.kept.keep), meta.watched.upto.min(waiting.offset.saturating_add(READ_AGAIN)));
    let mut scanner = Scanner::new(&of.kept.spec.tell.watch, Cursor { upto: waiting.offset, counted: false });
    while scanner.at() < to && !scanner.found().is_some_and(Found::is_full) {
        match log.read(scanner.at(), to, 64 << 10, &meta.gaps) {
            Ok(Chunk::Bytes { bytes, .. }) => scanner.push(&bytes),
            Ok(Chunk::Gap { to, .. }) => scanner.skip_to(to),
            Ok(Chunk::End) | Err(_) => break,
        }
    }
    if meta.watched.counted {
        scanner.settle();
    }
    let again = scanner.take().filter(|f| f.offset == waiting.offset);
    let found = again.unwrap_or_else(|| Found::unquoted(waiting.offset, 0, waiting.count)).counted(waiting.pattern as usize, waiting.count);
    let matched = Matched {
        at: Time::from_micros(waiting.at),
        up: waiting.up,
        offset: waiting.offset,
        upto: meta.watched.upto,
        pattern: pattern.clone(),
        count: waiting.count,
        lines: found.lines,
        cut: found.cut,
    };
    Some((meta.watched.begun.unwrap_or(seen.cursor), matched))
}

/// The note in the notice of an adopted process's end.
const ADOPTED: &str = "It was adopted: its output was not kept, and its exit code is known to its own parent alone.";

fn completion(redactor: &Redactor, facts: &Facts, seen: &crate::facts::FolderLook, dir: &ProcessDir) -> Completion {
    let tell = &facts.kept.spec.tell;
    let chars = tell.chars.map_or(limits::WAIT_EXIT_CHARS, |n| n as usize);
    let log = Log::open(dir, facts, seen.meta.as_ref());
    let shown = render::preview(redactor, &log, facts, chars);
    let fate = render::fate(facts);
    let (output, output_cut, output_missing) = match (shown, fate.start_error) {
        (_, Some(error)) => (error, None, None),
        (Ok(shown), None) => (shown.text, shown.cut, shown.missing),
        (Err(error), None) => (format!("(its output cannot be read: {error})"), None, None),
    };
    let reason = fate.completion_reason.unwrap_or(Reason::Lost);
    let mut end = Completion::new(facts.kept.spec.command.shown(), fate.exit_code.flatten(), reason);
    end.name = facts.kept.spec.name.clone();
    end.signal = fate.signal;
    end.oom = fate.oom;
    end.termination_source = fate.termination_source.unwrap_or_default();
    end.output = output;
    end.output_cut = output_cut;
    end.output_missing = output_missing;
    end.handoff_note = facts.detached.then(|| ADOPTED.to_owned());
    end.started_at = facts.started_at;
    end.ended_at = facts.ended_at();
    end
}

/// Writes changes of processes and their notices.
#[derive(Debug, Clone)]
pub(crate) struct NoticeWriter {
    pub(crate) rules: Rules,
    pub(crate) sinks: Vec<Push>,
    pub(crate) boot: u128,
    pub(crate) waiters: Arc<Waiters>,
    pub(crate) clock: Clock,
}

/// What a write of changes led to.
#[derive(Debug, Clone)]
pub(crate) struct WriteResult {
    /// The new notices.
    pub(crate) notices: Vec<NoticeEntry>,
    /// The keys of those that were written with the answer to a waiting client prepared.
    pub(crate) prepared: Vec<String>,
    /// Whether the breaker holds back matches, so that `tick` has to end that in time.
    pub(crate) breaker_paused: bool,
}

/// Whether a client waits for an end that is being written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Awaited {
    /// A client waits. It is answered next, and should not wait for another write.
    Now,
    /// The process ended so soon that a client which announced a wait may not have asked yet.
    Announced,
    No,
}

impl Awaited {
    fn written_for(self, now: Moment) -> WrittenFor {
        match self {
            Self::Now => WrittenFor::Answer,
            Self::Announced => WrittenFor::Waiter { until: now.up + ANNOUNCED_WAIT_TIMEOUT },
            Self::No => WrittenFor::AnyTaker,
        }
    }

    /// How long the notice and its deliveries are kept from others.
    fn reserved_for(self) -> Option<Micros> {
        match self {
            Self::Now => Some(RESERVATION_TIMEOUT),
            Self::Announced => Some(ANNOUNCED_WAIT_TIMEOUT),
            Self::No => None,
        }
    }
}

/// The breaker as it is on disk, with the boot that its times belong to.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StoredBreaker {
    boot: String,
    breaker: Breaker,
}

impl NoticeWriter {
    /// Writes changes of processes, and the notices that follow from them.
    pub(crate) fn advance(&self, db: &Connection, mut news: Vec<ProcessChange>, now: Moment) -> rusqlite::Result<WriteResult> {
        let (mut made, mut breaker_paused) = (Vec::new(), false);
        let mut facts = Vec::new();
        for (n, one) in news.iter_mut().enumerate() {
            index::put(db, &one.row)?;
            let (boot, matches) = (one.boot, std::mem::take(&mut one.matches));
            facts.extend(matches.into_iter().map(|(at, m)| (self.uptime_of(boot, m.up, now), n, at, m)));
        }
        if !facts.is_empty() {
            // Merged by their times, so that matches of several processes while no engine ran are limited in the order in which they
            // happened.
            facts.sort_by_key(|(here, n, at, m)| (here.unwrap_or(m.up), *n, *at));
            let (mut breaker, released) = self.breaker(db, now)?;
            made.extend(self.tell_sessions(db, released, None, now)?);
            for (here, n, at, matched) in facts {
                made.extend(self.matched(db, &mut breaker, &news[n], (at, here), matched, now)?);
            }
            breaker_paused = breaker.due().is_some();
            self.keep(db, breaker)?;
        }
        let mut result = WriteResult { notices: made, prepared: Vec::new(), breaker_paused };
        for change in &news {
            self.write_end(db, change, &mut result, now)?;
        }
        Ok(result)
    }

    /// Writes the notice of an end, if the process has ended and its owner wants one.
    fn write_end(&self, db: &Connection, change: &ProcessChange, result: &mut WriteResult, now: Moment) -> rusqlite::Result<()> {
        let (Some(end), tell, process) = (&change.end, &change.row.kept.spec.tell, change.id().to_string()) else { return Ok(()) };
        let is_end_only_for_disabled_watch = !tell.completion;
        if is_end_only_for_disabled_watch && !limiter(db, &process)?.is_some_and(|(_, l)| l.is_disabled()) {
            return Ok(());
        }
        let key = end_key(&process);
        let awaited = self.awaited(change, &key);
        let draft = self.draft(&change.row, key, now.utc, Body::Completion(end.clone()), change.is_end_repeat());
        if change.row.consumed != EndSeen::Not {
            // Its owner got it as an answer before it could be written.
            table::end_seen(db, &process, "an answer", now)?;
            let is_hidden = tell.unless_waited_for && (change.waited_for || awaited != Awaited::No);
            let sinks: &[Push] = if is_hidden { &[] } else { &self.sinks };
            result.notices.extend(table::insert_for(db, &draft, sinks, WrittenFor::AnyTaker, None, now)?);
            return Ok(());
        }
        // Sinks observe every notice. If `unless_waited_for` is set, deliveries are held until the client is answered; then they are removed.
        let held_until = awaited.reserved_for().filter(|_| tell.unless_waited_for).map(|time| now.up + time);
        match table::insert_for(db, &draft, &self.sinks, awaited.written_for(now), held_until, now)? {
            Some(entry) => {
                result.prepared.extend((awaited == Awaited::Now).then_some(draft.key));
                result.notices.push(entry);
            }
            // This engine or an earlier one has written it before.
            None => {
                if let Some(time) = awaited.reserved_for() {
                    table::reserve(db, &draft.key, time, now)?;
                }
            }
        }
        Ok(())
    }

    /// Whether a client waits for this end. Asked inside the transaction: a client that leaves from now on gives its reservation back after
    /// this.
    fn awaited(&self, change: &ProcessChange, key: &str) -> Awaited {
        match (self.waiters.any(key), change.soon) {
            (true, _) => Awaited::Now,
            (false, true) => Awaited::Announced,
            (false, false) => Awaited::No,
        }
    }

    /// When something happened, in the time since this boot. Events of another boot count as now. None if the boot is unknown.
    fn uptime_of(&self, boot: Option<u128>, up: u64, now: Moment) -> Option<u64> {
        match boot {
            // A time in the future is not of this boot, whatever the record says.
            _ if up > now.up as u64 => Some(now.up as u64),
            Some(boot) if boot == self.boot => Some(up),
            Some(_) => Some(now.up as u64),
            None => None,
        }
    }

    fn matched(
        &self,
        db: &Connection,
        breaker: &mut Breaker,
        of: &ProcessChange,
        (at, here): (u64, Option<u64>),
        matched: Matched,
        now: Moment,
    ) -> rusqlite::Result<Vec<NoticeEntry>> {
        let id = of.row.id();
        let name = id.to_string();
        let (judged, mut limiter) = limiter(db, &name)?.unwrap_or_default();
        if at < judged {
            return Ok(Vec::new());
        }
        let session = of.row.kept.spec.owner.session.as_deref().unwrap_or_default();
        let seen = MatchSeen { up: matched.up, here, process: id, session, count: matched.count };
        let verdicts = watch(&self.rules, &mut limiter, breaker, &seen);
        db.prepare_cached("INSERT OR REPLACE INTO watching (process, cursor, limiter) VALUES (?1, ?2, ?3)")?.execute(params![
            name,
            at as i64 + 1,
            text(&limiter)
        ])?;
        let mut made = Vec::new();
        let mut to_sessions = Vec::new();
        for verdict in verdicts {
            let command = of.row.kept.spec.command.shown();
            let (key, body) = match verdict {
                WatchDecision::Match { suppressed } => {
                    let output = quoted(&matched);
                    let mut seen = WatchMatch::new(command, &matched.pattern, output);
                    seen.name = of.row.kept.spec.name.clone();
                    seen.suppressed = suppressed;
                    (format!("{name}/watch_match/{at}"), Body::WatchMatch(seen))
                }
                WatchDecision::Disabled { suppressed, message } => {
                    let called = of.row.kept.spec.name.clone();
                    (format!("{name}/watch_disabled"), Body::WatchDisabled { name: called, command, message, suppressed })
                }
                verdict @ (WatchDecision::Tripped { .. } | WatchDecision::Released { .. }) => {
                    to_sessions.push(verdict);
                    continue;
                }
            };
            let draft = self.draft(&of.row, key, matched.at, body, of.repeat);
            made.extend(table::insert_for(db, &draft, &self.sinks, WrittenFor::AnyTaker, None, now)?);
        }
        made.extend(self.tell_sessions(db, to_sessions, Some((of, at)), now)?);
        Ok(made)
    }

    fn draft(&self, row: &Facts, key: String, at: Time, body: Body, repeat: bool) -> NoticeDraft {
        let spec = &row.kept.spec;
        NoticeDraft { key, at, process: Some(row.id()), owner: spec.owner.clone(), route: spec.tell.route.clone(), body, repeat }
    }

    /// Writes notices that matches of a session are held back, or are reported again. `from`: the match that caused it, unless time did.
    fn tell_sessions(
        &self,
        db: &Connection,
        verdicts: Vec<WatchDecision>,
        from: Option<(&ProcessChange, u64)>,
        now: Moment,
    ) -> rusqlite::Result<Vec<NoticeEntry>> {
        let mut made = Vec::new();
        for verdict in verdicts {
            let (session, body) = match verdict {
                WatchDecision::Tripped { session, message } => (session, Body::WatchOverflowTripped { message }),
                WatchDecision::Released { session, suppressed, message } => (session, Body::WatchOverflowReleased { message, suppressed }),
                WatchDecision::Match { .. } | WatchDecision::Disabled { .. } => continue,
            };
            // The same match gives the same key, however often it is read. A change caused by time happens once, after the newest notice.
            let cause = match from {
                Some((news, at)) => format!("{}/{at}", news.row.id()),
                None => format!("behind/{}", table::last_seq(db)?),
            };
            // The length separates the session's name from what follows it.
            let key = format!("overflow/{}/{session}/{}/{cause}", session.len(), body_kind(&body));
            let owner = Owner { session: Some(session).filter(|s| !s.is_empty()), ..Owner::default() };
            let route = route_of(db, owner.session.as_deref().unwrap_or_default())?;
            let draft =
                NoticeDraft { key, at: now.utc, process: None, owner, route, body, repeat: from.is_some_and(|(news, _)| news.repeat) };
            made.extend(table::insert_for(db, &draft, &self.sinks, WrittenFor::AnyTaker, None, now)?);
        }
        Ok(made)
    }

    /// Ends a pause of the breaker that is over, and writes its notices. Returns them, and when to check again.
    pub(crate) fn tick(&self, db: &Connection, now: Moment) -> rusqlite::Result<(Vec<NoticeEntry>, Option<u64>)> {
        let (mut breaker, mut released) = self.breaker(db, now)?;
        released.extend(breaker.tick(now.up as u64));
        let due = breaker.due();
        if released.is_empty() {
            return Ok((Vec::new(), due));
        }
        let made = self.tell_sessions(db, released, None, now)?;
        self.keep(db, breaker)?;
        Ok((made, due))
    }

    fn breaker(&self, db: &Connection, now: Moment) -> rusqlite::Result<(Breaker, Vec<WatchDecision>)> {
        let Some(stored) = table::one(db, "breaker")? else { return Ok((Breaker::default(), Vec::new())) };
        // A breaker that cannot be read holds nothing back.
        let StoredBreaker { boot, mut breaker } = serde_json::from_str(&stored).unwrap_or_default();
        let ours = boot == self.boot() && !breaker.is_ahead_of(now.up as u64);
        let released = if ours { Vec::new() } else { breaker.rebooted() };
        Ok((breaker, released))
    }

    fn keep(&self, db: &Connection, breaker: Breaker) -> rusqlite::Result<()> {
        table::set_one(db, "breaker", &text(&StoredBreaker { boot: self.boot(), breaker }))
    }

    pub(super) fn boot(&self) -> String {
        format!("{:032x}", self.boot)
    }
}

fn quoted(matched: &Matched) -> String {
    let mut lines = matched.lines.join("\n");
    if matched.cut {
        lines.push_str("\n...(truncated)");
    }
    lines
}

/// The position in the journal up to which a process's matches were processed, and its limiter.
fn limiter(db: &Connection, process: &str) -> rusqlite::Result<Option<(u64, Limiter)>> {
    let found: Option<(i64, Vec<u8>)> = db
        .prepare_cached("SELECT cursor, limiter FROM watching WHERE process = ?1")?
        .query_row(params![process], |r| Ok((r.get(0)?, table::column::bytes(r, 1)?.to_vec())))
        .optional()?;
    Ok(found.map(|(cursor, limiter)| (cursor as u64, serde_json::from_slice(&limiter).unwrap_or_default())))
}

/// How many matches of a process were reported, and whether the limiter has switched reports off.
pub(crate) fn watched(db: &Connection, process: ProcessId) -> rusqlite::Result<(u32, bool)> {
    Ok(limiter(db, &process.to_string())?.map_or((0, false), |(_, l)| (l.hits(), l.is_disabled())))
}

fn body_kind(body: &Body) -> &'static str {
    if let Body::WatchOverflowTripped { .. } = body { "tripped" } else { "released" }
}

/// The route of a session, from its newest notice.
pub(super) fn route_of(db: &Connection, session: &str) -> rusqlite::Result<Route> {
    let newest = table::NoticeFilter { session: Some(session.to_owned()), newest: true, limit: 1, ..table::NoticeFilter::default() };
    Ok(table::read(db, &newest)?.pop().map(|e| e.notice.route).unwrap_or_default())
}

fn text(value: &impl Serialize) -> String {
    // States hold numbers, strings and maps with string keys only, which always serialise.
    serde_json::to_string(value).expect("a state serialises")
}
