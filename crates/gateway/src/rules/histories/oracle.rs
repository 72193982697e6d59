//! The design page, read literally: its first table as text, and a book of all turns that ever were. Nothing here uses a function or a
//! type of the rules.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use super::act::{GateDraw, ResetDraw, UNKNOWN_AGE};

/// The table of turns. `=` changes nothing; `back` undoes the start; `strike:X` counts one, and does X if the turn was not given up.
const TABLE: &str = "
event              | queued                 | running                            | interrupted
start              | run                    | =                                  | run say
completed          | =                      | completed calm                     | completed calm
failed             | =                      | failed                             | =
gone without       | =                      | failed:CannotStart                 | =
gone with          | =                      | strike:agent                       | =
stop               | =                      | cancelled:Stopped cancel           | cancelled:Stopped
cut-in with        | =                      | cancelled:NewerMessage cancel      | =
cut-in without     | =                      | back cancel                        | =
replace            | =                      | =                                  | cancelled:NewerMessage
new m              | cancelled:NewGeneration| cancelled:NewGeneration cancel     | cancelled:NewGeneration
new n              | obsolete               | cancelled:NewGeneration cancel     | cancelled:NewGeneration
on m               | =                      | cancelled:NewGeneration cancel     | cancelled:NewGeneration
on n               | obsolete               | cancelled:NewGeneration cancel     | obsolete
drain with         | =                      | strike:mark cancel                 | =
drain without      | =                      | back cancel                        | =
up                 | =                      | strike:mark cancel-if-given-up     | =
up held            | =                      | strike:stay cancel-if-given-up     | =
";

fn cell(event: &str, state: &str) -> &'static str {
    static CELLS: OnceLock<BTreeMap<(&'static str, &'static str), &'static str>> = OnceLock::new();
    let cells = CELLS.get_or_init(|| {
        let mut lines = TABLE.trim().lines().map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        let states = lines.next().unwrap();
        lines.flat_map(|row| (1..4).map(|n| ((row[0], states[n]), row[n])).collect::<Vec<_>>()).collect()
    });
    cells.get(&(event, state)).copied().unwrap_or_else(|| panic!("no cell for {event}, {state}"))
}

/// A turn in the book. Nothing is ever taken out of it.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) id: i64,
    pub(super) cause: String,
    generation: u32,
    state: &'static str,
    attempt: u32,
    marked: Option<(&'static str, i64)>,
    end: String,
    head: i64,
    quotes: Option<i64>,
}

impl Entry {
    fn is_person(&self) -> bool {
        self.cause.starts_with("msg:")
    }

    fn is_open(&self) -> bool {
        self.state != "finished"
    }
}

pub(super) struct Oracle {
    pub(super) book: Vec<Entry>,
    pub(super) now: i64,
    generation: u32,
    generation_at: i64,
    why: &'static str,
    does_interrupt: bool,
    strikes: u32,
    suspended: Option<i64>,
    last_message: Option<i64>,
    wrote: bool,
    said: Vec<String>,
}

impl Oracle {
    pub(super) fn new(now: i64, does_interrupt: bool) -> Self {
        Self {
            book: Vec::new(),
            now,
            generation: 1,
            generation_at: now,
            why: "First",
            does_interrupt,
            strikes: 0,
            suspended: None,
            last_message: None,
            wrote: false,
            said: Vec::new(),
        }
    }

    /// The effects since the last call, in no particular order.
    pub(super) fn said(&mut self) -> Vec<String> {
        let mut said = std::mem::take(&mut self.said);
        said.sort();
        said
    }

    /// The conversation's row, and then every turn.
    pub(super) fn page(&self) -> Vec<String> {
        let mut page = vec![format!(
            "generation {} at {} {} strikes {} suspended {:?} last {:?} wrote {} standing {}",
            self.generation,
            self.generation_at,
            self.why,
            self.strikes,
            self.suspended,
            self.last_message,
            self.wrote,
            self.standing()
        )];
        page.extend(self.book.iter().map(|e| {
            let state = match e.state {
                "running" => format!("running {} {:?}", e.attempt, e.marked),
                "interrupted" => format!("interrupted {} {:?}", e.attempt, e.marked),
                "finished" => format!("finished {}", e.end),
                queued => queued.to_owned(),
            };
            format!("{} {} g{} {state} head {} quotes {:?}", e.id, e.cause, e.generation, e.head, e.quotes)
        }));
        page
    }

    fn standing(&self) -> String {
        if let Some(at) = self.suspended {
            return format!("suspended {at}");
        }
        let mut marks: Vec<_> = self.book.iter().filter(|e| e.state == "interrupted").filter_map(|e| e.marked).collect();
        marks.sort_by_key(|(_, at)| *at);
        marks.last().map_or("active".into(), |(_, at)| format!("resume_pending {at}"))
    }

    fn entry(&self, id: i64) -> Option<&Entry> {
        self.book.iter().find(|e| e.id == id)
    }

    pub(super) fn running(&self) -> Option<(i64, u32)> {
        self.book.iter().find(|e| e.state == "running" && e.head == e.id).map(|e| (e.id, e.attempt))
    }

    fn tell(&mut self, what: impl Into<String>) {
        self.said.push(format!("tell {}", what.into()));
    }

    /// One event on one turn, as the table says. All rows of its prompt move together.
    fn turn(&mut self, head: i64, event: &str, detail: &'static str) {
        let Some(e) = self.entry(head).filter(|e| e.is_open()).cloned() else { return };
        let mut after = e.clone();
        let finish = |after: &mut Entry, end: String| {
            after.state = "finished";
            after.end = end;
        };
        for word in cell(event, e.state).split_whitespace() {
            let (word, of) = word.split_once(':').unwrap_or((word, ""));
            match word {
                "=" => {}
                "run" => {
                    after.state = "running";
                    after.attempt += 1;
                }
                "say" => match e.marked.unwrap().0 {
                    "RestartTimeout" | "ShutdownTimeout" => self.tell("ResumedAfterRestart"),
                    "RestartInterrupted" => self.tell("ResumedAfterInterruption"),
                    _ => {}
                },
                "completed" => finish(&mut after, "Completed".into()),
                "calm" => self.strikes = 0,
                "failed" => {
                    let why = if of.is_empty() { detail } else { of };
                    finish(&mut after, format!("Failed {{ why: {why} }}"));
                    self.tell(format!("Failed({why})"));
                }
                "cancelled" => finish(&mut after, format!("Cancelled {{ why: {of} }}")),
                "obsolete" => finish(&mut after, "Obsolete { why: GenerationEnded }".into()),
                "cancel" => self.said.push(format!("cancel {head} {}", e.attempt)),
                "cancel-if-given-up" => {
                    if after.end == "GaveUp" {
                        self.said.push(format!("cancel {head} {}", e.attempt));
                    }
                }
                "back" => {
                    after.attempt -= 1;
                    after.state = if after.marked.is_some() { "interrupted" } else { "queued" };
                }
                "strike" => {
                    self.strikes += 1;
                    if self.strikes == 3 {
                        self.suspended = Some(self.now);
                        finish(&mut after, "GaveUp".into());
                        self.tell("Suspended");
                    } else if e.attempt == 3 {
                        finish(&mut after, "GaveUp".into());
                        self.tell("GaveUp");
                    } else if of == "agent" && e.attempt == 1 {
                        (after.state, after.marked) = ("interrupted", Some(("AgentEnded", self.now)));
                        self.tell("AgentEndedRetrying");
                    } else if of == "agent" {
                        finish(&mut after, "Failed { why: AgentEnded }".into());
                        self.tell("Failed(AgentEnded)");
                    } else if of == "mark" {
                        (after.state, after.marked) = ("interrupted", Some((detail, self.now)));
                    }
                }
                other => panic!("the table has no word {other}"),
            }
        }
        for e in self.book.iter_mut().filter(|e| e.head == head && e.is_open()) {
            (e.state, e.attempt, e.marked) = (after.state, after.attempt, after.marked);
            e.end.clone_from(&after.end);
            if e.state == "queued" {
                e.head = e.id;
            }
        }
    }

    fn open_heads(&self) -> Vec<(i64, bool)> {
        self.book.iter().filter(|e| e.is_open() && e.head == e.id).map(|e| (e.id, e.is_person())).collect()
    }

    /// A new generation. One line reports all notices that end with the old one.
    fn renew(&mut self, why: &'static str, how: &str) {
        let obsolete = |book: &[Entry]| book.iter().filter(|e| e.end.contains("GenerationEnded")).count();
        let before = obsolete(&self.book);
        for (id, is_person) in self.open_heads() {
            self.turn(id, &format!("{how} {}", if is_person { "m" } else { "n" }), "");
        }
        let count = obsolete(&self.book) - before;
        if count > 0 {
            self.tell(format!("NoticesObsolete(GenerationEnded, {count})"));
        }
        self.generation += 1;
        (self.generation_at, self.why, self.strikes, self.suspended, self.last_message) = (self.now, why, 0, None, None);
        for e in self.book.iter_mut().filter(|e| e.is_open()) {
            e.generation = self.generation;
        }
    }

    fn is_stale(&self, at: i64, window: i64) -> bool {
        window > 0 && self.now - at > window
    }

    /// Which reset is due, by the wall clock.
    fn due(&self, reset: &ResetDraw) -> Option<&'static str> {
        let last = self.last_message?;
        let is_protected = reset.youngest_hours.is_some_and(|hours| reset.is_any_age || hours < 24 || hours == UNKNOWN_AGE);
        if is_protected {
            return None;
        }
        if (reset.mode == 1 || reset.mode == 3) && self.now > last + 2 * 3600 * 1_000_000 {
            return Some("Idle");
        }
        let offset = jiff::tz::Offset::from_seconds(reset.offset_minutes * 60).unwrap();
        let wall = offset.to_datetime(jiff::Timestamp::from_microsecond(self.now).unwrap());
        let today = wall.date().at(i8::try_from(reset.hour).unwrap(), 0, 0, 0);
        let boundary = if today <= wall { today } else { today.yesterday_same_hour() };
        let boundary = offset.to_timestamp(boundary).unwrap().as_microsecond();
        (reset.mode >= 2 && last < boundary).then_some("Daily")
    }

    pub(super) fn message(
        &mut self,
        id: i64,
        name: &str,
        has_prompt: bool,
        (draining, is_held): (Option<&str>, bool),
        reset: &ResetDraw,
        window: i64,
    ) {
        let cause = format!("msg:{name}");
        if let Some(known) = self.book.iter().find(|e| e.cause == cause) {
            return self.said.push(format!("answer {name} {}", known.id));
        }
        self.said.push(format!("answer {name} {id}"));
        let mut quoted: Option<i64> = None;
        let newest_mark = self.book.iter().filter(|e| e.state == "interrupted").filter_map(|e| e.marked).map(|(_, at)| at).max();
        let is_going_on = self.book.iter().any(|e| e.state == "running" || (e.state == "queued" && e.is_person()));
        if self.suspended.is_some() {
            quoted = self.book.iter().filter(|e| e.state == "interrupted" && e.is_person()).map(|e| e.id).max();
            self.tell(format!("StartedAnew({})", self.generation));
            self.renew("Suspended", "on");
        } else if let Some(at) = newest_mark {
            if self.is_stale(at, window) && reset.mode != 0 && !is_going_on {
                self.tell(format!("ResumeExpired({})", self.generation));
                self.renew("ResumeExpired", "on");
            }
        } else if self.book.iter().all(|e| !e.is_open())
            && let Some(why) = self.due(reset)
        {
            if reset.has_history && reset.should_notify {
                self.tell(format!("Reset({why}, {})", self.generation));
            }
            self.renew(why, "on");
        }
        let last_of_person = self.book.iter().filter(|e| e.is_open() && e.is_person()).map(|e| e.id).max();
        if let Some(last) = last_of_person.filter(|id| self.entry(*id).unwrap().state == "interrupted") {
            self.turn(last, "replace", "");
            quoted = Some(last);
        }
        if let Some(old) = quoted
            && self.is_stale(self.entry(old).unwrap().marked.unwrap().1, window)
        {
            self.tell("TooOldToQuote");
            quoted = None;
        }
        if let (true, None, false, Some((head, _))) = (self.does_interrupt, draining, is_held, self.running()) {
            self.turn(head, if has_prompt { "cut-in with" } else { "cut-in without" }, "");
        }
        self.write(id, cause, "queued", String::new());
        if let Some(old) = quoted {
            let first = self.book.iter_mut().find(|e| e.state == "queued" && e.is_person() && e.quotes.is_none());
            first.expect("the message itself").quotes = Some(old);
        }
        (self.last_message, self.wrote) = (Some(self.now), true);
        if let Some(kind) = draining {
            self.tell(format!("KeptWhileDraining({kind})"));
        }
    }

    fn write(&mut self, id: i64, cause: String, state: &'static str, end: String) {
        let generation = self.generation;
        self.book.push(Entry { id, cause, generation, state, attempt: 0, marked: None, end, head: id, quotes: None });
    }

    pub(super) fn notice(&mut self, id: i64, name: &str, is_for_another: bool, leases: u8) {
        self.said.push(format!("acknowledge {name}"));
        if self.book.iter().any(|e| e.cause == name) {
            return;
        }
        let why = if is_for_another {
            "EarlierGeneration"
        } else if leases > 5 {
            "LeasedTooOften"
        } else {
            return self.write(id, name.into(), "queued", String::new());
        };
        self.tell(format!("NoticesObsolete({why}, 1)"));
        self.write(id, name.into(), "finished", format!("Obsolete {{ why: {why} }}"));
    }

    pub(super) fn start(&mut self, rows: &[i64], note: &str) {
        for e in self.book.iter_mut().filter(|e| rows.contains(&e.id)) {
            e.head = rows[0];
        }
        self.turn(rows[0], "start", "");
        let attempt = self.entry(rows[0]).unwrap().attempt;
        self.said.push(format!("prompt {rows:?} {attempt} {note}"));
    }

    pub(super) fn agent(&mut self, head: i64, attempt: u32, event: &str, why: &'static str) {
        if self.entry(head).is_some_and(|e| e.attempt == attempt) {
            self.turn(head, event, why);
        }
    }

    pub(super) fn stop(&mut self) {
        let open = self.open_heads().len();
        for (id, _) in self.open_heads() {
            self.turn(id, "stop", "");
        }
        self.tell(if self.open_heads().len() < open { "Stopped" } else { "NothingToStop" });
    }

    pub(super) fn new_conversation(&mut self) {
        self.tell_cancelled();
        self.renew("New", "new");
        self.tell("NewConversation");
    }

    fn tell_cancelled(&mut self) {
        if self.book.iter().any(|e| e.state == "running" || e.state == "interrupted") {
            self.tell("Stopped");
        }
        match self.book.iter().filter(|e| e.state == "queued" && e.is_person()).count() {
            0 => {}
            count => self.tell(format!("WaitingCancelled({count})")),
        }
    }

    pub(super) fn resume(&mut self) {
        self.tell(if self.standing() == "active" { "NothingToResume" } else { "Continued" });
        self.wrote = true;
        if self.suspended.take().is_some() {
            self.strikes = 0;
        }
    }

    pub(super) fn return_to(&mut self, earlier: u32) {
        self.tell_cancelled();
        self.renew("Resumed", "new");
        self.wrote = true;
        self.tell(format!("Returned({earlier})"));
    }

    pub(super) fn drain(&mut self, is_restart: bool, has_prompt: bool) {
        let Some((head, _)) = self.running() else { return };
        let reason = if is_restart { "RestartTimeout" } else { "ShutdownTimeout" };
        self.turn(head, if has_prompt { "drain with" } else { "drain without" }, reason);
    }

    pub(super) fn gateway_started(&mut self, is_held: bool) {
        self.wrote = false;
        let Some((head, _)) = self.running() else { return };
        self.turn(head, if is_held { "up held" } else { "up" }, "RestartInterrupted");
    }

    /// The order of the queue, with everything that holds the first one back.
    pub(super) fn next(&self, gates: &GateDraw, window: i64) -> String {
        if gates.is_draining || !gates.is_agent_free || self.running().is_some() {
            return "nothing".into();
        }
        let mut queue: Vec<(u8, i64, Vec<i64>)> = Vec::new();
        let mut notices = Vec::new();
        for e in &self.book {
            let whole = self.book.iter().filter(|other| other.head == e.id).map(|other| other.id).collect();
            match (e.state, e.is_person()) {
                ("interrupted", true) if e.head == e.id => queue.push((0, e.id, whole)),
                ("queued", true) => queue.push((1, e.id, vec![e.id])),
                ("interrupted", false) if e.head == e.id => queue.push((2, e.id, whole)),
                ("queued", false) => notices.push(e.id),
                _ => {}
            }
        }
        if let Some(first) = notices.first().copied() {
            notices.truncate(32);
            queue.push((3, first, notices));
        }
        queue.sort();
        let has_message = queue.iter().any(|(rank, ..)| *rank == 1);
        let mut wait = "nothing".to_owned();
        if self.suspended.is_some() {
            wait = "person Suspended".into();
        } else {
            let holds: Vec<Vec<String>> = queue.iter().map(|(rank, id, _)| self.held(*rank, *id, gates, has_message, window)).collect();
            if let Some(at) = holds.iter().position(Vec::is_empty) {
                let (rank, id, rows) = &queue[at];
                return self.start_words(*rank, *id, rows, gates, window);
            }
            // Each waits for the first thing that holds it back. A time comes by itself, so it is not missed for a person.
            let firsts = || holds.iter().map(|held| &held[0]);
            if let Some(reason) = firsts().find(|reason| reason.starts_with("until")).or_else(|| firsts().next()) {
                wait.clone_from(reason);
            }
        }
        let queued = self.book.iter().filter(|e| e.state == "queued" && !e.is_person()).count();
        if gates.has_notices_due && queued < 1024 { "take".into() } else { wait }
    }

    fn held(&self, rank: u8, id: i64, gates: &GateDraw, has_message: bool, window: i64) -> Vec<String> {
        let mut held = Vec::new();
        let is_interrupted = rank == 0 || rank == 2;
        if is_interrupted && !self.wrote && !has_message {
            if self.is_stale(self.entry(id).unwrap().marked.unwrap().1, window) {
                held.push("person Age".to_owned());
            }
            if gates.is_breaker_open {
                held.push("person Breaker".to_owned());
            }
        }
        if rank != 1 && gates.owner < 2 {
            held.push("person Owner".to_owned());
        }
        if rank != 1 && !gates.is_connected {
            held.push("person Channel".to_owned());
        }
        if self.is_unattended(rank) {
            held.extend(self.budget(gates));
        }
        held
    }

    fn is_unattended(&self, rank: u8) -> bool {
        rank >= 2 || (rank == 0 && !self.wrote)
    }

    /// The first instant at which fewer than 6 of the starts are in the minute before it, and fewer than 200 in the day before it.
    fn budget(&self, gates: &GateDraw) -> Option<String> {
        let starts: Vec<i64> = gates
            .starts
            .iter()
            .flat_map(|(count, age)| std::iter::repeat_n(self.now - i64::from(*age) * 1_000_000, usize::from(*count)))
            .filter(|start| *start <= self.now)
            .collect();
        let (minute, day) = (60_000_000, 86_400_000_000);
        let within = |at: i64, window: i64| starts.iter().filter(|start| at - **start < window).count();
        let mut instants: Vec<i64> = starts.iter().flat_map(|start| [start + minute, start + day]).filter(|at| *at > self.now).collect();
        instants.push(self.now);
        instants.sort_unstable();
        let free = instants.into_iter().find(|at| within(*at, minute) < 6 && within(*at, day) < 200).expect("all starts pass");
        (free > self.now).then(|| format!("until {free}"))
    }

    fn start_words(&self, rank: u8, id: i64, rows: &[i64], gates: &GateDraw, window: i64) -> String {
        let attended = if self.is_unattended(rank) { "unattended" } else { "attended" };
        format!("start {rows:?} {attended} {}", self.note(id, gates, window))
    }

    /// One note at most: restart, restart that quotes, tool tail, none.
    fn note(&self, id: i64, gates: &GateDraw, window: i64) -> String {
        let e = self.entry(id).unwrap();
        let policy = if self.wrote { "ask" } else { "continue" };
        // What was interrupted names an open call however old it is.
        let call = gates.tail.is_some();
        if e.state == "interrupted" {
            return format!("restarted {:?} quotes {:?} {policy} call {call}", e.marked.unwrap(), e.quotes);
        }
        if let Some(old) = e.quotes {
            return format!("replaces {:?} quotes {:?} {policy} call {call}", self.entry(old).unwrap().marked.unwrap(), Some(old));
        }
        match gates.tail {
            Some(None) => "tool".into(),
            Some(Some(age)) if !(window > 0 && i64::from(age) * 1_000_000 > window) => "tool".into(),
            _ => "none".into(),
        }
    }
}

trait Yesterday {
    fn yesterday_same_hour(self) -> Self;
}

impl Yesterday for jiff::civil::DateTime {
    fn yesterday_same_hour(self) -> Self {
        self.date().yesterday().unwrap().to_datetime(self.time())
    }
}
