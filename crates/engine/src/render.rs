//! Makes answers from facts and files. The functions read the disk and block.

use crate::facts::{EndSeen, Facts, FolderLook, Whereabouts};
use crate::left_behind::LeftoverSearch;
use crate::masks::Finder;
use outlast_core::{GapWhy, Outcome, Phase, Status, Time, limits};
use outlast_store::dir::ProcessDir;
use outlast_store::lines::{LineAt, LineMap, LineTotal, Written};
use outlast_store::meta::{Snapshot, flag};
use outlast_store::mirror::MirrorState;
use outlast_store::segments::{Chunk, Gap, LogReader};
use outlast_store::times::TimeNotes;
use outlast_text::{Cut, CutAt, Options, Redactor, head_chars, render, window_bytes};
use outlast_wire::v1::{Event, Fate, LogPage, Page, Process};
use std::io;

/// How many bytes of a log's end are read for a list entry: room for a private key above the preview, and little enough for a thousand
/// entries.
const LIST_WINDOW: usize = 16 << 10;

/// The end of a log, for readers.
pub(crate) struct Preview {
    pub(crate) text: String,
    /// How many characters are missing before it.
    pub(crate) cut: Option<u64>,
    /// How many bytes the disk refused, anywhere in the output.
    pub(crate) missing: Option<u64>,
    /// Whether the whole log was read for it, without gaps.
    whole: bool,
}

/// A process's log, as far as it was written.
pub(crate) struct Log {
    reader: LogReader,
    pub(crate) end: u64,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) closed: bool,
    total: LineTotal,
    /// Finds the values of secret variables. They are masked for every reader that does not ask for the raw bytes.
    masks: Option<Finder>,
}

impl Log {
    /// The log with its bytes as they were written.
    pub(crate) fn raw(dir: &ProcessDir, facts: &Facts, meta: Option<&Snapshot>) -> Self {
        Self { masks: None, ..Self::open(dir, facts, meta) }
    }

    /// The log with a `*` for each byte of a secret value.
    pub(crate) fn open(dir: &ProcessDir, facts: &Facts, meta: Option<&Snapshot>) -> Self {
        let reader = LogReader::open(dir, facts.kept.keep);
        let end = match meta {
            Some(meta) => meta.log_end(),
            // Its length is unknown, so everything that is there is shown.
            None if facts.log_end == 0 => reader.found_end().unwrap_or(0),
            None => facts.log_end,
        };
        Self {
            reader,
            end,
            gaps: meta.map(|m| m.gaps.clone()).unwrap_or_default(),
            closed: nothing_follows(facts),
            total: meta.map_or(LineTotal::default(), |m| LineTotal { at: m.commit.base, newlines: m.commit.lines }),
            masks: facts.kept.masks.as_ref().and_then(Finder::new),
        }
    }

    /// The bytes at `from`, at most `max` of them.
    pub(crate) fn read(&self, from: u64, max: usize) -> io::Result<Chunk> {
        self.masked(self.reader.read(from, self.end, max, &self.gaps)?)
    }

    /// How many bytes at the end of the log may be the beginning of a secret value.
    pub(crate) fn open_end(&self, bytes: &[u8]) -> usize {
        if self.closed { 0 } else { self.masks.as_ref().map_or(0, |masks| masks.open_end(bytes)) }
    }

    fn masked(&self, chunk: Chunk) -> io::Result<Chunk> {
        let Some(masks) = &self.masks else { return Ok(chunk) };
        let Chunk::Bytes { at, mut bytes } = chunk else { return Ok(chunk) };
        // A value may begin before the range, or end after it.
        let (to, reach) = (at + bytes.len() as u64, masks.reach() as u64);
        let before = self.beside(at.saturating_sub(reach), at)?;
        let after = self.beside(to, self.end.min(to + reach))?;
        masks.mask(&before, &mut bytes, &after);
        Ok(Chunk::Bytes { at, bytes })
    }

    /// The raw bytes from `from` to `to`, if all of them are kept.
    fn beside(&self, from: u64, to: u64) -> io::Result<Vec<u8>> {
        let mut all = Vec::new();
        while from + (all.len() as u64) < to {
            let at = from + all.len() as u64;
            match self.reader.read(at, to, (to - at) as usize, &self.gaps)? {
                Chunk::Bytes { at: here, bytes } if here == at => all.extend(bytes),
                Chunk::Bytes { .. } | Chunk::Gap { .. } | Chunk::End => return Ok(Vec::new()),
            }
        }
        Ok(all)
    }

    /// The last bytes, at most `max` of them.
    fn tail(&self, max: usize) -> io::Result<Vec<Chunk>> {
        let mut at = self.end.saturating_sub(max as u64);
        let mut chunks = Vec::new();
        loop {
            match self.read(at, max)? {
                Chunk::Bytes { at: from, bytes } => {
                    at = from + bytes.len() as u64;
                    chunks.push(Chunk::Bytes { at: from, bytes });
                }
                // There may be bytes before this gap. Finding them needs a search of the whole folder.
                Chunk::Gap { .. } => {
                    return self.reader.read_back(self.end, max, &self.gaps)?.into_iter().map(|chunk| self.masked(chunk)).collect();
                }
                Chunk::End => return Ok(chunks),
            }
        }
    }

    fn written(&self) -> Written<'_> {
        Written { end: self.end, gaps: &self.gaps, total: self.total }
    }

    /// The gaps of the log.
    fn missing(&self) -> io::Result<Vec<Event>> {
        let extents = self.reader.extents(self.end, &self.gaps)?;
        Ok(extents.iter().filter_map(|e| e.missing.map(|why| gap(e.from, e.to, why))).collect())
    }
}

/// Whether no output can come any more.
pub(crate) fn nothing_follows(facts: &Facts) -> bool {
    match &facts.phase {
        Phase::Running { closed, .. } | Phase::Stopping { closed, .. } => closed.is_some(),
        // The keeper that read its output is dead.
        Phase::Orphaned { .. } | Phase::Lost { .. } | Phase::Done { .. } => true,
        Phase::Accepted | Phase::Draining { .. } => false,
    }
}

pub(crate) fn gap(from: u64, to: u64, why: GapWhy) -> Event {
    let why = match why {
        GapWhy::Retention => "retention",
        GapWhy::DiskFull => "disk_full",
        GapWhy::Lost => "lost",
    };
    Event::Gap { from, to, why: why.into() }
}

/// The last `chars` characters of output.
pub(crate) fn preview(redactor: &Redactor, log: &Log, facts: &Facts, chars: usize) -> io::Result<Preview> {
    let window = if chars <= limits::LIST_PREVIEW_CHARS { LIST_WINDOW } else { window_bytes(chars) };
    let mut start = log.end;
    let mut bytes = Vec::new();
    for chunk in log.tail(window)? {
        match chunk {
            Chunk::Bytes { at, bytes: more } => {
                if bytes.is_empty() {
                    start = at;
                }
                bytes.extend_from_slice(&more);
            }
            // Text before a gap must not be joined to text after it.
            Chunk::Gap { to, .. } if to < log.end => bytes.clear(),
            Chunk::Gap { .. } | Chunk::End => {}
        }
    }
    let options = Options {
        starts_mid_stream: start > 0 && !bytes.is_empty(),
        ends_mid_stream: !log.closed,
        drop_shell_noise: !facts.kept.spec.pty,
        ..Options::new(redactor).tail(chars)
    };
    let view = render(&bytes, &facts.kept.spec.command.shown(), &options);
    // Output before the window was not decoded, so each byte counts as a character.
    let before = view.cut.map_or(0, |c| c.removed_chars as u64) + if bytes.is_empty() { 0 } else { start };
    let missing: u64 = log.gaps.iter().map(|gap| gap.to - gap.from).sum();
    Ok(Preview {
        text: view.text,
        cut: (before > 0).then_some(before),
        missing: (missing > 0).then_some(missing),
        whole: start == 0 && bytes.len() as u64 == log.end,
    })
}

/// How it ended, once it has.
pub(crate) fn fate(facts: &Facts) -> Fate {
    if !facts.is_over() {
        return Fate::default();
    }
    let outcome = facts.phase.ending().map(|e| &e.outcome);
    let never = match outcome {
        Some(Outcome::NeverStarted(failure)) => Some(failure),
        _ => None,
    };
    let mut fate = Fate::default();
    fate.exit_code = Some(outcome.and_then(Outcome::exit_code));
    fate.signal = match outcome {
        Some(Outcome::Signal { number, .. }) => Some(signal_name(*number)),
        _ => None,
    };
    fate.oom = facts.phase.ending().is_some_and(|e| e.oom);
    fate.completion_reason = facts.phase.reason();
    fate.termination_source = Some(facts.phase.source().to_owned());
    match facts.phase {
        Phase::Lost { at, .. } => fate.found_ended_at = Some(at),
        _ => fate.ended_at = facts.ended_at(),
    }
    fate.start_error = never.map(|f| match f.errno {
        0 => f.what.clone(),
        errno => format!("{}: {}", f.what, io::Error::from_raw_os_error(errno)),
    });
    fate.start_code = never.map(outlast_core::StartFailure::shell_code);
    fate
}

fn signal_name(number: i32) -> String {
    const NAMES: [&str; 31] = [
        "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM", "STKFLT",
        "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
    ];
    match usize::try_from(number - 1).ok().and_then(|i| NAMES.get(i)) {
        Some(name) => format!("SIG{name}"),
        None if (34..=64).contains(&number) => format!("SIGRTMIN+{}", number - 34),
        None => format!("signal {number}"),
    }
}

/// How much of a process an answer shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// An entry of a list.
    Entry,
    /// Everything.
    Whole,
}

/// One process, as callers see it.
pub(crate) fn process(
    redactor: &Redactor,
    dir: &ProcessDir,
    facts: &Facts,
    seen: &FolderLook,
    detail: Detail,
    now: Time,
    look: &LeftoverSearch,
) -> Process {
    let meta = seen.meta.as_ref();
    let log = Log::open(dir, facts, meta);
    let chars = match detail {
        Detail::Entry => limits::LIST_PREVIEW_CHARS,
        Detail::Whole => limits::POLL_PREVIEW_CHARS,
    };
    let mut warnings = facts.kept.warnings.clone();
    warnings.extend(seen.damage.clone());
    let shown = preview(redactor, &log, facts, chars).unwrap_or_else(|e| {
        warnings.push(format!("its output cannot be read: {e}"));
        Preview { text: String::new(), cut: None, missing: None, whole: false }
    });
    let gaps = match detail {
        Detail::Whole if shown.whole => Vec::new(),
        Detail::Whole => log.missing().unwrap_or_default(),
        // Bytes that the disk refused are in the records that were read anyway. Retention would have to be looked up.
        Detail::Entry => log.gaps.iter().map(|g| gap(g.from, g.to, g.why)).collect(),
    };
    let Facts { kept, phase, .. } = facts;
    if meta.is_some_and(|m| m.has(flag::NO_PTY)) {
        warnings.push("a terminal was asked for and could not be had: it runs with pipes".into());
    }
    if meta.is_some_and(|m| m.has(flag::SCAN_OFF)) {
        warnings.push("its output is no longer scanned, because that made the keeper fail again and again".into());
    }
    if meta.is_some_and(|m| m.has(flag::BY_HAND)) {
        warnings.push("splice or tee is refused here: if a keeper is killed, up to 64 KiB of its output can be lost".into());
    }
    if meta.is_some_and(|m| m.has(flag::MAYBE_LOST)) {
        warnings.push("a keeper was killed while it had output or input in memory: up to 64 KiB of it may be missing".into());
    }
    if facts.phase.is_final() && meta.is_some_and(|m| m.ended.is_none() && m.published.is_some()) {
        warnings.push("both keepers were killed while the command ended: the last of its output may be missing".into());
    }
    let command = kept.spec.command.shown();
    let command = match detail {
        Detail::Entry => head_chars(&command, limits::LIST_PREVIEW_CHARS).text.to_owned(),
        Detail::Whole => command,
    };
    let kept_alive = phase.is_kept_alive();
    let input_open = meta.is_some_and(|m| !m.has(flag::INPUT_CLOSE_ASKED) && !m.has(flag::INPUT_CLOSED));
    let mut info = Process::new(kept.id, command, phase.status(), word(facts), facts.since());
    info.name.clone_from(&kept.spec.name);
    info.labels.clone_from(&kept.spec.labels);
    // A pid in an answer is one of this machine.
    match facts.place() {
        Whereabouts::Here(_) => info.pid = pid(phase, meta),
        Whereabouts::Sandbox(on) => {
            (info.environment, info.environment_pid) = (Some(on.to_string()), pid(phase, meta));
            if let Some(state) = MirrorState::read(dir) {
                info.unmirrored_bytes = Some(state.log_end.saturating_sub(log.end)).filter(|bytes| *bytes > 0);
                warnings.extend(state.unreachable.map(|why| format!("{on} cannot be reached: {why}")));
                warnings.extend(state.lost.map(|why| format!("it is lost: {why}")));
            }
        }
    }
    // A list would have to look up each process. Front ends do that for those that they show.
    let of_here = facts.local().filter(|_| detail == Detail::Whole).and_then(|facts| facts.phase.alive());
    info.is_suspended = of_here.is_some_and(|of| outlast_store::os::is_suspended(&of));
    info.cwd = kept.cwd.to_lossy().into_owned();
    info.is_uptime_at_least = matches!(phase, Phase::Lost { .. });
    info.last_output_at = if info.is_uptime_at_least { last_output_at(dir, facts, meta, log.end) } else { None };
    info.uptime_seconds = ran_until(facts, info.last_output_at).unwrap_or(now).seconds_since(facts.since());
    info.deadline_at = deadline(facts);
    info.output_preview = Some(shown.text);
    info.output_cut = shown.cut;
    info.output_bytes = log.end;
    info.fate = fate(facts);
    info.task_id.clone_from(&kept.spec.owner.task);
    info.session_key.clone_from(&kept.spec.owner.session);
    info.detached = facts.detached;
    info.is_set_aside = facts.consumed == EndSeen::SetAside;
    info.pty = kept.spec.pty && !meta.is_some_and(|m| m.has(flag::NO_PTY));
    info.takes_input = kept_alive && kept.spec.takes_input() && input_open;
    info.input_bytes = meta.filter(|_| kept.spec.takes_input()).map(|m| m.input);
    info.protection = kept_alive.then(|| if meta.is_some_and(|m| m.has(flag::OUTPUT_ONLY)) { "output-only" } else { "full" }.into());
    info.left = look.at(dir, facts, meta);
    info.left_running = u32::try_from(info.left.len()).ok().filter(|n| *n > 0);
    info.notify_on_complete = kept.spec.tell.completion;
    // The keeper matches the given pattern. It is shown masked.
    info.watch_patterns = kept.spec.tell.watch.iter().map(|pattern| redactor.command_line(pattern).into_owned()).collect();
    info.gaps = gaps;
    info.warnings = warnings;
    info.note = facts.detached.then(|| "Process recovered after restart -- output history unavailable".into());
    info
}

/// When a running process reaches its time limit. Its keepers stop it then, so that of an orphan nothing is said.
fn deadline(facts: &Facts) -> Option<Time> {
    let limit = facts.kept.spec.timeout?.as_micros();
    let begun = facts.started_at.filter(|_| matches!(facts.phase, Phase::Running { .. }))?;
    Some(Time::from_micros(begun.micros().saturating_add(i64::try_from(limit).unwrap_or(i64::MAX))))
}

/// Until when it is known to have run; none while it runs. The end of a lost process was not observed.
pub(crate) fn ran_until(facts: &Facts, last_output_at: Option<Time>) -> Option<Time> {
    match facts.phase {
        Phase::Lost { .. } => Some(last_output_at.unwrap_or(facts.since())),
        _ => facts.ended_at(),
    }
}

/// When its last output came, if the keeper has noted all of it.
fn last_output_at(dir: &ProcessDir, facts: &Facts, meta: Option<&Snapshot>, end: u64) -> Option<Time> {
    let last = end.checked_sub(1).filter(|_| meta.is_some_and(|m| m.has(flag::TIMED)))?;
    // Notes that cannot be read are missing: the time is then unknown.
    TimeNotes::read(dir).ok()?.time_of(last, facts.since())
}

/// The status. An orphan has no keeper that could be unreachable, whatever failed before its keepers died. An adopted process never had
/// one.
fn word(facts: &Facts) -> &'static str {
    match &facts.phase {
        Phase::Orphaned { .. } if facts.detached => "adopted",
        phase @ Phase::Orphaned { .. } => phase.word(),
        phase if facts.unreachable && phase.status() == Status::Running => "unreachable",
        phase => phase.word(),
    }
}

fn pid(phase: &Phase, meta: Option<&Snapshot>) -> Option<u32> {
    match phase {
        Phase::Lost { last_seen: Some(of), .. } => Some(of.pid),
        phase => phase.alive().map(|of| of.pid).or_else(|| meta.map(|m| m.cmd).filter(|&pid| pid != 0)),
    }
}

/// A page of output, in lines.
pub(crate) fn page(redactor: &Redactor, dir: &ProcessDir, facts: &Facts, meta: Option<&Snapshot>, page: Page) -> io::Result<LogPage> {
    let log = Log::open(dir, facts, meta);
    let lines = LineMap::open(dir, facts.kept.keep)?;
    let limit = page.limit.unwrap_or(limits::LOG_DEFAULT_LINES);
    let most = window_bytes(limits::LOG_VIEW_CHARS) as u64;
    let mut begin = begin(&log, &lines, page, limit, most)?;
    let missing = if page.from_byte.is_none() { gap_before(&log, begin.byte)? } else { None };
    let (mut text, before) = whole_lines(&log, &lines, &mut begin, limit, most)?;
    text.gaps.splice(..0, missing);
    let total = lines.lines(&log.reader, log.written())?;
    let command = facts.kept.spec.command.shown();
    let options = Options { ends_mid_stream: !log.closed && text.next >= log.end, ..Options::new(redactor) };
    let show = |bytes: &[u8], options: &Options<'_>| match &before {
        BeforePage::LineEnd => render(bytes, &command, options).text,
        BeforePage::Missing => render(bytes, &command, &Options { starts_mid_stream: true, ..*options }).text,
        BeforePage::SameLine(beginning) => rest_of_line(beginning, bytes, &command, options),
    };
    let shown = show(&text.bytes, &options);
    let mut next = text.next;
    let (output, cut) = match (begin.tail, shown.chars().count() > limits::LOG_VIEW_CHARS) {
        (_, false) => (shown, None),
        (true, true) => {
            let tail = outlast_text::tail_chars(&shown, limits::LOG_VIEW_CHARS);
            let gone = shown[..shown.len() - tail.text.len()].matches('\n').count();
            begin.line += gone as u64;
            begin.byte += bytes_of_lines(&text.bytes, gone);
            (tail.text.to_owned(), tail.cut)
        }
        (false, true) => {
            let head = head_chars(&shown, limits::LOG_VIEW_CHARS);
            let ended = head.text.matches('\n').count();
            // Rendering keeps lines, so the cut can be found in the bytes.
            if ended > 0 {
                next = begin.byte + bytes_of_lines(&text.bytes, ended);
                (head.text.to_owned(), head.cut)
            } else if shown.as_bytes() == text.bytes {
                next = begin.byte + head.text.len() as u64;
                (head.text.to_owned(), head.cut)
            } else {
                // Within a line that rendering has changed, the cut is searched for.
                let open = Options { ends_mid_stream: true, ..options };
                let (bytes, part) = longest_part(&text.bytes, |bytes| show(bytes, &open));
                next = begin.byte + bytes as u64;
                let removed_chars = shown.chars().count().saturating_sub(part.chars().count());
                (part, Some(Cut { removed_chars, at: CutAt::Char }))
            }
        }
    };
    let shown = outlast_text::count_lines(&output);
    let gone = log.reader.extents(log.end, &log.gaps)?.iter().find(|e| e.missing == Some(GapWhy::Retention)).map(|e| e.to);
    let lines_gone = gone.map(|to| lines.line_of_offset(&log.reader, to, log.written())).transpose()?;
    let mut made = LogPage::new(facts.id(), command, facts.phase.status());
    made.fate = fate(facts);
    made.output = output.strip_suffix('\n').unwrap_or(&output).to_owned();
    made.total_lines = total.value;
    made.showing = format!("{shown} lines");
    made.lines = Some(shown as u64);
    made.partial = !output.is_empty() && !output.ends_with('\n');
    made.first_line = begin.line;
    made.lines_gone = lines_gone.map(|told| told.value);
    made.from_byte = begin.byte;
    made.next_byte = next;
    made.at_end = next >= log.end;
    made.next_line = Some(lines.line_of_offset(&log.reader, next, log.written())?.value);
    made.output_cut = cut.map(|c| c.removed_chars as u64);
    made.gaps = text.gaps;
    made.approximate = !(begin.exact && total.exact);
    Ok(made)
}

/// The length of the first lines in bytes.
fn bytes_of_lines(bytes: &[u8], lines: usize) -> u64 {
    bytes.split_inclusive(|&b| b == b'\n').take(lines).map(<[u8]>::len).sum::<usize>() as u64
}

/// The longest beginning of a line that fits into a page: its length, and the text that is shown.
fn longest_part(bytes: &[u8], show: impl Fn(&[u8]) -> String) -> (usize, String) {
    // This many bytes fit if each is shown as a character. More fit if some are not shown.
    let (mut fits, mut too_long) = (limits::LOG_VIEW_CHARS.min(bytes.len()), bytes.len() + 1);
    while fits + 1 < too_long {
        let middle = fits + (too_long - fits) / 2;
        if show(&bytes[..middle]).chars().count() <= limits::LOG_VIEW_CHARS { fits = middle } else { too_long = middle }
    }
    let text = show(&bytes[..fits]);
    (fits, head_chars(&text, limits::LOG_VIEW_CHARS).text.to_owned())
}

/// Where a page begins.
struct PageStart {
    byte: u64,
    line: u64,
    exact: bool,
    /// Whether the page is counted from its end.
    tail: bool,
}

fn begin(log: &Log, lines: &LineMap, page: Page, limit: u64, most: u64) -> io::Result<PageStart> {
    let at = |byte, line, exact| PageStart { byte, line, exact, tail: false };
    if let Some(byte) = page.from_byte {
        let byte = byte.min(log.end);
        let line = lines.line_of_offset(&log.reader, byte, log.written())?;
        return Ok(at(byte, line.value, line.exact));
    }
    let Some(line) = page.offset else {
        let last = lines.last_lines(&log.reader, limit, most, log.written())?;
        return Ok(PageStart { tail: true, ..at(last.offset, last.line, last.exact) });
    };
    let found = lines.offset_of_line(&log.reader, line, log.written())?;
    Ok(match found.value {
        LineAt::At(byte) => at(byte, line, found.exact),
        LineAt::Gone { first_kept_line, offset } => at(offset, first_kept_line, found.exact),
        LineAt::Past => at(log.end, line, found.exact),
    })
}

/// The gap that ends where a page begins, because its lines were requested, too. A client that continues at a byte has seen it with the
/// page before, and lines that retention removed are reported by their number.
fn gap_before(log: &Log, byte: u64) -> io::Result<Option<Event>> {
    let extents = log.reader.extents(log.end, &log.gaps)?;
    let ends_here = extents.iter().find(|e| e.to == byte && e.missing.is_some_and(|why| why != GapWhy::Retention));
    Ok(ends_here.and_then(|e| e.missing.map(|why| gap(e.from, e.to, why))))
}

/// The content before the first byte of a page.
enum BeforePage {
    /// Nothing, or the end of a line.
    LineEnd,
    /// The beginning of the same line.
    SameLine(Vec<u8>),
    /// Unknown.
    Missing,
}

/// How many bytes back the beginning of a line is searched for.
const LONGEST_BEGINNING: usize = 1 << 20;

impl BeforePage {
    fn look(log: &Log, byte: u64) -> io::Result<Self> {
        let Some(last) = byte.checked_sub(1) else { return Ok(Self::LineEnd) };
        match log.read(last, 1)? {
            Chunk::Bytes { bytes, .. } if bytes == b"\n" => return Ok(Self::LineEnd),
            Chunk::Bytes { .. } => {}
            Chunk::Gap { .. } | Chunk::End => return Ok(Self::Missing),
        }
        let (mut start, mut bytes) = (byte, Vec::new());
        let mut at = byte.saturating_sub(LONGEST_BEGINNING as u64);
        while at < byte {
            match log.read(at, (byte - at) as usize)? {
                Chunk::Bytes { at: here, bytes: more } => {
                    start = if bytes.is_empty() { here } else { start };
                    at = here + more.len() as u64;
                    bytes.extend_from_slice(&more);
                }
                Chunk::Gap { to, .. } => {
                    bytes.clear();
                    at = to;
                }
                Chunk::End => break,
            }
        }
        Ok(match bytes.iter().rposition(|&b| b == b'\n') {
            Some(newline) => Self::SameLine(bytes.split_off(newline + 1)),
            None if start == 0 => Self::SameLine(bytes),
            None => Self::Missing,
        })
    }
}

/// The lines of a page. A first line without its beginning is left out if another follows, because it is unknown how it would look.
fn whole_lines(log: &Log, lines: &LineMap, begin: &mut PageStart, limit: u64, most: u64) -> io::Result<(PageText, BeforePage)> {
    let mut text = read_lines(log, begin, limit, most)?;
    if text.from != begin.byte {
        let line = lines.line_of_offset(&log.reader, text.from, log.written())?;
        *begin = PageStart { byte: text.from, line: line.value, exact: begin.exact && line.exact, ..*begin };
    }
    let before = BeforePage::look(log, begin.byte)?;
    if let BeforePage::Missing = before
        && let Some(newline) = text.bytes.iter().position(|&b| b == b'\n')
        && begin.byte + newline as u64 + 1 < log.end
    {
        *begin = PageStart { byte: begin.byte + newline as u64 + 1, line: begin.line + 1, ..*begin };
        let told = text.gaps;
        text = read_lines(log, begin, limit, most)?;
        text.gaps.splice(..0, told);
        return Ok((text, BeforePage::LineEnd));
    }
    Ok((text, before))
}

/// The rest of a line of which a reader has seen the beginning. The whole line again if its rest changes how the beginning looks.
fn rest_of_line(beginning: &[u8], rest: &[u8], command: &str, options: &Options<'_>) -> String {
    let seen = render(beginning, command, &Options { ends_mid_stream: true, ..*options }).text;
    let whole = render(&[beginning, rest].concat(), command, options).text;
    match whole.strip_prefix(&seen) {
        Some(rest) => rest.to_owned(),
        None => whole,
    }
}

/// Lines as bytes.
struct PageText {
    /// The offset of the first byte: the requested one, or the end of a gap there.
    from: u64,
    bytes: Vec<u8>,
    next: u64,
    gaps: Vec<Event>,
}

/// At most `limit` lines and about `most` bytes, up to the next gap: text after a gap is not joined to text before it.
fn read_lines(log: &Log, begin: &PageStart, limit: u64, most: u64) -> io::Result<PageText> {
    let mut text = PageText { from: begin.byte, bytes: Vec::new(), next: begin.byte, gaps: Vec::new() };
    let mut wanted = limit;
    while wanted > 0 && (text.bytes.len() as u64) < most {
        match log.read(text.next, 64 << 10)? {
            Chunk::Bytes { bytes, .. } => {
                let mut ends = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i + 1);
                let take = match ends.by_ref().nth(wanted as usize - 1) {
                    Some(end) => {
                        wanted = 0;
                        end
                    }
                    None => {
                        wanted -= bytes.iter().filter(|b| **b == b'\n').count() as u64;
                        bytes.len()
                    }
                };
                text.bytes.extend_from_slice(&bytes[..take]);
                text.next += take as u64;
            }
            // The last bytes are missing, so the bytes before them are the end.
            Chunk::Gap { from, to, why } if to >= log.end && !text.bytes.is_empty() => {
                text.gaps.push(gap(from, to, why));
                text.next = to;
                break;
            }
            Chunk::Gap { from, to, why } if text.bytes.is_empty() || begin.tail => {
                text.gaps.push(gap(from, to, why));
                (text.from, text.next, wanted) = (to, to, limit);
                text.bytes.clear();
            }
            Chunk::Gap { .. } | Chunk::End => break,
        }
    }
    Ok(text)
}
