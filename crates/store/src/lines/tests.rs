use super::*;
use crate::segments::tests::{Model, Step, keeps, output, steps};
use outlast_core::GapWhy;
use proptest::prelude::*;

impl Model {
    fn log(&self) -> Written<'_> {
        Written { end: self.end(), gaps: &self.gaps, total: self.total }
    }

    fn newlines_before(&self, at: u64) -> u64 {
        self.all[..at as usize].iter().filter(|&&b| b == b'\n').count() as u64
    }

    fn line_count(&self) -> u64 {
        self.all.split_inclusive(|&b| b == b'\n').count() as u64
    }

    /// The beginning of a line, whether or not it is kept.
    fn begin(&self, line: u64) -> Option<u64> {
        let mut begin = 0;
        for (n, text) in self.all.split_inclusive(|&b| b == b'\n').enumerate() {
            if n as u64 == line {
                return Some(begin);
            }
            begin += text.len() as u64;
        }
        None
    }

    /// The first kept byte from `at` on, or the end.
    fn kept_from(&self, at: u64) -> u64 {
        let missing = self.missing();
        (at..self.end()).find(|&at| missing[at as usize].is_none()).unwrap_or(self.end())
    }

    fn kept_bytes_from(&self, at: u64) -> u64 {
        self.kept(at..self.end()).len() as u64
    }

    /// Compares every answer with what was really written. An answer that claims to be exact must be right.
    fn check(&self, must_be_exact: bool) {
        let reader = self.reader();
        let map = LineMap::open(&self.dir, self.keep).unwrap();
        let log = self.log();
        // It is never known whether a lost end ended a line.
        let must_be_exact = must_be_exact && self.missing().last().is_none_or(|m| m.is_none());
        for line in 0..self.line_count() + 3 {
            let told = map.offset_of_line(&reader, line, log).unwrap();
            assert!(told.exact || !must_be_exact, "line {line}: {told:?}");
            if !told.exact {
                continue;
            }
            let kept = self.begin(line).map(|b| (b, self.kept_from(b)));
            match (told.value, kept) {
                (LineAt::At(at), Some((begin, _))) => assert_eq!(at, begin, "line {line}"),
                (LineAt::Gone { first_kept_line, offset }, Some((begin, kept))) => {
                    // A line that begins directly after a gap cannot be told from one that began in it.
                    assert!(kept > begin || self.missing()[begin as usize - 1].is_some(), "line {line}");
                    assert_eq!((first_kept_line, offset), (self.newlines_before(kept), kept), "line {line}");
                }
                (LineAt::Past, None) => {}
                other => panic!("line {line}: {other:?}"),
            }
        }
        for offset in 0..=self.end() {
            let told = map.line_of_offset(&reader, offset, log).unwrap();
            assert!(!told.exact || told.value == self.newlines_before(offset), "offset {offset}: {told:?}");
            assert!(
                told.exact || !must_be_exact || offset < self.end() && self.missing()[offset as usize].is_some(),
                "offset {offset}: {told:?}"
            );
        }
        let told = map.lines(&reader, log).unwrap();
        assert!(!told.exact || told.value == self.line_count());
        let lines = self.line_count();
        for n in [0, 1, 2, 5, lines / 2, lines.saturating_sub(1), lines, lines + 1] {
            for max in [0, 1, 5, 30, u64::MAX] {
                self.check_last(&map, &reader, n, max, must_be_exact);
            }
        }
    }

    fn check_last(&self, map: &LineMap, reader: &LogReader, n: u64, max: u64, must_be_exact: bool) {
        let last = map.last_lines(reader, n, max, self.log()).unwrap();
        let context = format!("the last {n} in {max}: {last:?}");
        assert!(last.exact || !must_be_exact, "{context}");
        assert!(last.offset <= self.end() && self.kept_bytes_from(last.offset) <= max, "{context}");
        if !last.exact {
            return;
        }
        assert_eq!(
            (last.total, last.line),
            (self.line_count(), if n == 0 { last.total } else { self.newlines_before(last.offset) }),
            "{context}"
        );
        let ideal = if n == 0 { self.end() } else { self.kept_from(self.begin(last.total.saturating_sub(n)).unwrap_or(self.end())) };
        assert_eq!(last.cut, self.kept_bytes_from(ideal) > max, "{context}");
        if last.cut {
            // No line start, and no byte after a gap, would have fitted before it.
            let starts = |at: &u64| *at == 0 || self.all[*at as usize - 1] == b'\n' || self.missing()[*at as usize - 1].is_some();
            let missing = self.missing();
            let best =
                (0..self.end()).filter(|&at| missing[at as usize].is_none()).filter(starts).find(|&at| self.kept_bytes_from(at) <= max);
            match best {
                Some(best) => assert_eq!(last.offset, best, "{context}"),
                None => assert_eq!(self.kept_bytes_from(last.offset), max, "{context}"),
            }
        } else {
            assert_eq!(last.offset, ideal, "{context}");
        }
    }
}

proptest! {
    #[test]
    fn lines_are_where_a_naive_count_finds_them((keep, all, steps) in (keeps(), output(), steps())) {
        let model = Model::written(keep, &all, &steps);
        model.check(model.gaps.is_empty());
    }

    #[test]
    fn a_total_that_lags_behind_is_caught_up_with((keep, all, steps) in (keeps(), output(), steps()), lag in 0..30_u64) {
        let mut model = Model::written(keep, &all, &steps);
        let at = model.end().saturating_sub(lag);
        model.total = LineTotal { at, newlines: model.newlines_before(at) };
        model.check(false);
    }

    #[test]
    fn without_notes_nothing_is_invented((keep, all, steps) in (keeps(), output(), steps())) {
        let model = Model::written(keep, &all, &steps);
        let _ = std::fs::remove_file(model.dir.lines());
        // The writer's own count suffices if no gap is in the way.
        model.check(model.gaps.is_empty());
    }
}

const KEEP: Keep = Keep { head: 10, segment: 8, tail: 20 };

fn text(n: usize) -> Vec<u8> {
    (0..n).map(|i| if i % 5 == 3 { b'\n' } else { b'x' }).collect()
}

#[test]
fn no_index_is_made_for_a_short_log() {
    let model = Model::written(KEEP, &text(10), &[Step::Write(4), Step::Write(6)]);
    assert!(!model.dir.lines().exists());
    let model = Model::written(KEEP, &text(11), &[Step::Write(4), Step::Write(7)]);
    assert_eq!(std::fs::read(model.dir.lines()).unwrap().len() as u64, HEADER + ENTRY);
}

#[test]
fn an_index_cut_or_changed_anywhere_misleads_nobody() {
    // Two gaps in a row, so that some output depends on the index alone.
    let steps = [Step::Write(37), Step::Full(2), Step::Write(8), Step::Full(3), Step::Write(9)];
    let model = Model::written(KEEP, &text(59), &steps);
    model.check(true);
    let bytes = std::fs::read(model.dir.lines()).unwrap();
    for cut in 0..bytes.len() {
        std::fs::write(model.dir.lines(), &bytes[..cut]).unwrap();
        model.check(false);
    }
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            std::fs::write(model.dir.lines(), &bad).unwrap();
            model.check(false);
        }
    }
    // Writing all entries again repairs it.
    model_notes(&model);
    model.check(true);
}

fn model_notes(model: &Model) {
    LineTotal::default().advance(model.keep, &model.all, |index, count| LineIndex::note(&model.dir, index, count).unwrap());
}

#[test]
fn output_between_two_gaps_of_one_segment_is_said_to_be_inexact() {
    let keep = Keep { head: 4, segment: 40, tail: 1000 };
    let steps = [Step::Write(10), Step::Full(6), Step::Write(6), Step::Full(6), Step::Write(12)];
    let model = Model::written(keep, &text(40), &steps);
    model.check(false);
    let map = LineMap::open(&model.dir, keep).unwrap();
    assert!(map.line_of_offset(&model.reader(), 5, model.log()).unwrap().exact);
    assert!(!map.line_of_offset(&model.reader(), 18, model.log()).unwrap().exact);
    assert_eq!(map.line_of_offset(&model.reader(), 39, model.log()).unwrap(), Told { value: 8, exact: true });
}

#[test]
fn lines_lost_in_a_power_cut_still_count() {
    let model = Model::written(KEEP, &text(59), &[Step::Write(59)]);
    std::fs::OpenOptions::new().write(true).open(model.dir.segment(42)).unwrap().set_len(1).unwrap();
    let map = LineMap::open(&model.dir, KEEP).unwrap();
    assert_eq!(model.reader().extents(59, &[]).unwrap().iter().filter(|e| e.missing == Some(GapWhy::Lost)).count(), 1);
    // Line 9 begins at byte 44, which is lost; byte 50 is in line 10.
    let told = map.offset_of_line(&model.reader(), 9, model.log()).unwrap();
    assert_eq!(told, Told { value: LineAt::Gone { first_kept_line: 10, offset: 50 }, exact: true });
    assert_eq!(map.offset_of_line(&model.reader(), 11, model.log()).unwrap(), Told { value: LineAt::At(54), exact: true });
}

#[test]
fn changed_output_gives_no_panic() {
    for at in 0..59 {
        let model = Model::written(KEEP, &text(59), &[Step::Write(59)]);
        let path = model.dir.segment(KEEP.segment_of(at).0);
        let Ok(mut bytes) = std::fs::read(&path) else { continue };
        let byte = &mut bytes[(at - KEEP.segment_of(at).0) as usize];
        *byte = if *byte == b'\n' { b'x' } else { b'\n' };
        std::fs::write(&path, &bytes).unwrap();
        let (map, reader) = (LineMap::open(&model.dir, KEEP).unwrap(), model.reader());
        for total in
            [model.total, LineTotal { at: 59, newlines: u64::MAX }, LineTotal { at: 59, newlines: 0 }, LineTotal { at: 99, newlines: 7 }]
        {
            let log = Written { total, ..model.log() };
            for n in 0..15 {
                map.offset_of_line(&reader, n, log).unwrap();
                map.line_of_offset(&reader, 4 * n, log).unwrap();
                map.last_lines(&reader, n, 30, log).unwrap();
            }
        }
    }
}

#[test]
fn one_endless_line_is_cut_where_the_limit_is() {
    let keep = Keep { head: 10, segment: 100, tail: 10_000 };
    let model = Model::written(keep, &[b'x'; 5_000], &[Step::Write(5_000)]);
    let map = LineMap::open(&model.dir, keep).unwrap();
    let last = map.last_lines(&model.reader(), 3, 700, model.log()).unwrap();
    assert_eq!(last, LastLines { offset: 4_300, line: 0, total: 1, cut: true, exact: true });
}
