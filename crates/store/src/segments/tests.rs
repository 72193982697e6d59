use super::*;
use crate::lines::{LineIndex, LineTotal};
use proptest::prelude::*;
use std::ops::Range;

/// What a writer does next; the numbers are bytes.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    Write(usize),
    /// It is killed after this many bytes of the batch, which is then written as a whole, perhaps in a batch of another size.
    Torn(usize, usize),
    /// The disk was full: the bytes are dropped, and that is recorded.
    Full(usize),
    /// Another writer takes over.
    Reopen,
}

/// A log that was written step by step, and its expected contents.
#[derive(Debug)]
pub(crate) struct Model {
    _place: tempfile::TempDir,
    pub(crate) dir: ProcessDir,
    pub(crate) keep: Keep,
    /// Everything that the process wrote.
    pub(crate) all: Vec<u8>,
    pub(crate) gaps: Vec<Gap>,
    pub(crate) total: LineTotal,
}

impl Model {
    pub(crate) fn new(keep: Keep) -> Self {
        let place = tempfile::tempdir().unwrap();
        let dir = ProcessDir { path: place.path().to_owned() };
        Self { _place: place, dir, keep, all: Vec::new(), gaps: Vec::new(), total: LineTotal::default() }
    }

    pub(crate) fn written(keep: Keep, all: &[u8], steps: &[Step]) -> Self {
        let mut model = Self::new(keep);
        let mut writer = LogWriter::open(&model.dir, keep);
        let mut rest = all;
        for step in steps {
            let (Step::Write(n) | Step::Torn(n, _) | Step::Full(n)) = *step else {
                writer = LogWriter::open(&model.dir, keep);
                continue;
            };
            let batch;
            (batch, rest) = rest.split_at(n.min(rest.len()));
            let at = model.end();
            match *step {
                Step::Write(_) => writer.write_at(at, batch).unwrap(),
                Step::Torn(_, torn) => {
                    writer.write_at(at, &batch[..torn.min(batch.len())]).unwrap();
                    writer = LogWriter::open(&model.dir, keep);
                    writer.write_at(at, batch).unwrap();
                    writer.write_at(at, batch).unwrap();
                }
                Step::Full(_) => model.gap(at, at + batch.len() as u64),
                Step::Reopen => {}
            }
            model.all.extend_from_slice(batch);
            let dir = &model.dir;
            model.total.advance(keep, batch, |index, count| LineIndex::note(dir, index, count).unwrap());
            writer.retain(model.end()).unwrap();
        }
        model
    }

    fn gap(&mut self, from: u64, to: u64) {
        match self.gaps.last_mut() {
            Some(last) if last.to == from => last.to = to,
            Some(_) | None if from < to => self.gaps.push(Gap { from, to, why: GapWhy::DiskFull }),
            Some(_) | None => {}
        }
    }

    pub(crate) fn end(&self) -> u64 {
        self.all.len() as u64
    }

    pub(crate) fn reader(&self) -> LogReader {
        LogReader::open(&self.dir, self.keep)
    }

    /// Why each byte is missing, or that it is not.
    pub(crate) fn missing(&self) -> Vec<Option<GapWhy>> {
        let kept_from = self.end().saturating_sub(self.keep.tail.max(1));
        (0..self.end())
            .map(|at| {
                let (first, len) = self.keep.segment_of(at);
                let dropped = (first > 0 && first + len <= kept_from).then_some(GapWhy::Retention);
                self.gaps.iter().find(|g| (g.from..g.to).contains(&at)).map(|g| g.why).or(dropped)
            })
            .collect()
    }

    pub(crate) fn kept(&self, range: Range<u64>) -> Vec<u8> {
        let missing = self.missing();
        range.filter(|&at| missing[at as usize].is_none()).map(|at| self.all[at as usize]).collect()
    }

    /// Joins chunks: where they begin, and for each byte its value or why it is missing.
    fn flat(chunks: &[Chunk]) -> (Option<u64>, Vec<Result<u8, GapWhy>>) {
        let mut flat = Vec::new();
        let mut begin = None;
        let mut last_gap = None;
        for chunk in chunks {
            match chunk {
                Chunk::Bytes { at, bytes } => {
                    assert_eq!(*begin.get_or_insert(*at) + flat.len() as u64, *at);
                    flat.extend(bytes.iter().map(|&b| Ok(b)));
                    last_gap = None;
                }
                Chunk::Gap { from, to, why } => {
                    assert_eq!(*begin.get_or_insert(*from) + flat.len() as u64, *from);
                    assert_ne!(last_gap.replace(*why), Some(*why), "neighbours of the same kind are one gap");
                    flat.resize(flat.len() + (to - from) as usize, Err(*why));
                }
                Chunk::End => panic!("the end is no part"),
            }
        }
        (begin, flat)
    }

    fn expected(&self, range: Range<u64>) -> Vec<Result<u8, GapWhy>> {
        let missing = self.missing();
        range.map(|at| missing[at as usize].map_or(Ok(self.all[at as usize]), Err)).collect()
    }
}

pub(crate) fn read_all(reader: &LogReader, from: u64, end: u64, max: usize, gaps: &[Gap]) -> Vec<Chunk> {
    let mut chunks = Vec::new();
    let mut at = from;
    loop {
        let chunk = reader.read(at, end, max, gaps).unwrap();
        at = match &chunk {
            Chunk::Bytes { at, bytes } => {
                assert!(!bytes.is_empty() && bytes.len() <= max.max(1));
                at + bytes.len() as u64
            }
            Chunk::Gap { from, to, .. } => {
                assert!(from < to);
                *to
            }
            Chunk::End => return chunks,
        };
        chunks.push(chunk);
    }
}

pub(crate) fn keeps() -> impl Strategy<Value = Keep> {
    (1..20_u64, 1..16_u64, 0..60_u64).prop_map(|(head, segment, tail)| Keep { head, segment, tail })
}

pub(crate) fn output() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(b'b'), Just(0)], 0..200)
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..40_usize).prop_map(Step::Write),
        2 => (0..40_usize, 0..40_usize).prop_map(|(n, torn)| Step::Torn(n, torn)),
        1 => (0..20_usize).prop_map(Step::Full),
        1 => Just(Step::Reopen),
    ];
    prop::collection::vec(step, 0..16)
}

proptest! {
    #[test]
    fn segments_tile_the_offsets(keep in keeps(), offset in prop_oneof![0..10_000_u64, any::<u64>()]) {
        let (first, len) = keep.segment_of(offset);
        prop_assert!(first <= offset && offset - first < len);
        prop_assert_eq!(keep.segment_of(first), (first, len));
        prop_assert_eq!(keep.segment_at(keep.index_of(offset)), (first, len));
        if let Some(next) = first.checked_add(len) {
            prop_assert_eq!(keep.segment_of(next).0, next);
            prop_assert_eq!(keep.index_of(next), keep.index_of(offset) + 1);
        }
    }

    #[test]
    fn a_reader_gets_the_kept_bytes_and_the_exact_gaps(
        (keep, all, steps) in (keeps(), output(), steps()), (a, b) in (any::<prop::sample::Index>(), any::<prop::sample::Index>()), max in 0..50_usize,
    ) {
        let model = Model::written(keep, &all, &steps);
        let (a, b) = (a.index(model.all.len() + 1) as u64, b.index(model.all.len() + 1) as u64);
        let (from, end) = (a.min(b), a.max(b));
        let reader = model.reader();
        let (begin, flat) = Model::flat(&read_all(&reader, from, end, max, &model.gaps));
        prop_assert_eq!(begin.unwrap_or(from), from);
        prop_assert_eq!(flat, model.expected(from..end));

        let mut out = Vec::new();
        let copied = reader.copy_to(from, end, &model.gaps, &mut out).unwrap();
        prop_assert_eq!(copied.bytes, out.len() as u64);
        prop_assert_eq!(out, model.kept(from..end));
        let taken: u64 = copied.gaps.iter().map(|g| g.to - g.from).sum();
        prop_assert_eq!(copied.bytes + taken, end - from);

        let (begin, flat) = Model::flat(&reader.read_back(end, max, &model.gaps).unwrap());
        let kept = model.kept(0..end);
        let bytes: Vec<u8> = flat.iter().filter_map(|b| b.ok()).collect();
        prop_assert_eq!(&bytes[..], &kept[kept.len().saturating_sub(max)..]);
        prop_assert_eq!(flat, model.expected(begin.unwrap_or(end)..end));
    }

    #[test]
    fn no_more_is_on_disk_than_head_tail_and_two_segments((keep, all, steps) in (keeps(), output(), steps())) {
        let model = Model::written(keep, &all, &steps);
        let held: u64 = model.dir.segments().unwrap().iter().map(|&f| std::fs::metadata(model.dir.segment(f)).unwrap().len()).sum();
        prop_assert!(held <= keep.head + keep.tail + 2 * keep.segment, "{held}");
    }
}

const KEEP: Keep = Keep { head: 10, segment: 8, tail: 20 };

fn text(n: usize) -> Vec<u8> {
    (0..n).map(|i| if i % 7 == 6 { b'\n' } else { b'a' + (i % 26) as u8 }).collect()
}

#[test]
fn nothing_is_created_before_the_first_byte() {
    let model = Model::new(KEEP);
    let mut writer = LogWriter::open(&model.dir, KEEP);
    writer.write_at(0, b"").unwrap();
    writer.retain(0).unwrap();
    writer.sync().unwrap();
    assert_eq!(model.dir.segments().unwrap(), [0_u64; 0]);
    assert_eq!(model.reader().read(0, 0, 9, &[]).unwrap(), Chunk::End);
    writer.write_at(0, b"0123456789abc").unwrap();
    writer.sync().unwrap();
    assert_eq!(model.dir.segments().unwrap(), [0, 10]);
}

#[test]
fn a_log_cut_at_any_byte_shows_what_was_lost() {
    let all = text(60);
    for first in [0, 34, 42, 50, 58] {
        let (_, len) = KEEP.segment_of(first);
        for cut in 0..=len.min(60 - first) {
            let model = Model::written(KEEP, &all, &[Step::Write(60)]);
            let path = model.dir.segment(first);
            std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(cut).unwrap();
            let lost = first + cut..(first + len).min(60);
            let expected: Vec<_> =
                model.expected(0..60).into_iter().zip(0..).map(|(b, at)| if lost.contains(&at) { Err(GapWhy::Lost) } else { b }).collect();
            let (_, flat) = Model::flat(&read_all(&model.reader(), 0, 60, 5, &[]));
            assert_eq!(flat, expected, "segment {first} cut at {cut}");
            // The writer continues after the cut, and no bytes are invented there.
            LogWriter::open(&model.dir, KEEP).write_at(60, b"xyz").unwrap();
            let (_, flat) = Model::flat(&read_all(&model.reader(), 0, 60, 5, &[]));
            if first != 58 {
                assert_eq!(flat, expected, "segment {first} cut at {cut}");
            }
        }
    }
}

#[test]
fn a_missing_segment_is_lost_unless_it_was_dropped_on_purpose() {
    let model = Model::written(KEEP, &text(60), &[Step::Write(60)]);
    let reader = model.reader();
    assert_eq!(reader.read(12, 60, 99, &[]).unwrap(), Chunk::Gap { from: 12, to: 34, why: GapWhy::Retention });
    // With an older end the tail would begin earlier: the reader was slow, nothing was lost.
    assert_eq!(reader.read(12, 40, 99, &[]).unwrap(), Chunk::Gap { from: 12, to: 34, why: GapWhy::Retention });
    std::fs::remove_file(model.dir.segment(42)).unwrap();
    assert_eq!(reader.read(45, 60, 99, &[]).unwrap(), Chunk::Gap { from: 45, to: 50, why: GapWhy::Lost });
    std::fs::remove_file(model.dir.segment(50)).unwrap();
    assert_eq!(reader.read(45, 60, 99, &[]).unwrap(), Chunk::Gap { from: 45, to: 58, why: GapWhy::Lost });
    std::fs::remove_file(model.dir.segment(0)).unwrap();
    assert_eq!(reader.read(0, 60, 99, &[]).unwrap(), Chunk::Gap { from: 0, to: 10, why: GapWhy::Lost });
}

#[test]
fn a_log_that_is_gone_as_a_whole_is_lost_as_a_whole() {
    let model = Model::new(KEEP);
    assert_eq!(model.reader().read(0, 25, 99, &[]).unwrap(), Chunk::Gap { from: 0, to: 25, why: GapWhy::Lost });
    // An absurd end, which only damage can produce, costs no memory.
    assert!(matches!(model.reader().read(0, u64::MAX, usize::MAX, &[]).unwrap(), Chunk::Gap { from: 0, .. }));
    assert!(model.reader().read_back(u64::MAX, usize::MAX, &[]).unwrap().iter().all(|c| matches!(c, Chunk::Gap { .. })));
}

#[test]
fn bytes_behind_the_committed_end_are_not_read() {
    let model = Model::written(KEEP, &text(30), &[Step::Write(30)]);
    let (_, flat) = Model::flat(&read_all(&model.reader(), 0, 13, 99, &[]));
    assert_eq!(flat, model.expected(0..13));
}

#[test]
fn a_successor_drops_what_a_killed_writer_left() {
    let model = Model::new(KEEP);
    LogWriter::open(&model.dir, KEEP).write_at(0, &text(100)).unwrap();
    assert_eq!(model.dir.segments().unwrap().len(), 13);
    std::fs::write(model.dir.path.join("log.other"), "").unwrap();
    let mut writer = LogWriter::open(&model.dir, KEEP);
    writer.write_at(100, b"x").unwrap();
    writer.retain(101).unwrap();
    assert_eq!(model.dir.segments().unwrap(), [0, 74, 82, 90, 98]);
    assert!(model.dir.path.join("log.other").exists());
}

#[test]
fn a_failed_write_says_how_much_is_there() {
    let model = Model::new(KEEP);
    std::fs::create_dir(model.dir.segment(18)).unwrap();
    let mut writer = LogWriter::open(&model.dir, KEEP);
    let failure = writer.write_at(4, &text(30)).unwrap_err();
    assert_eq!((failure.written, failure.error.kind()), (14, io::ErrorKind::IsADirectory));
    std::fs::remove_dir(model.dir.segment(18)).unwrap();
    writer.write_at(4, &text(30)).unwrap();
    assert_eq!(model.reader().read(18, 26, 99, &[]).unwrap(), Chunk::Bytes { at: 18, bytes: text(30)[14..22].to_vec() });
}

#[test]
fn a_link_is_not_a_segment() {
    let model = Model::new(KEEP);
    std::fs::write(model.dir.path.join("mine"), "precious").unwrap();
    std::os::unix::fs::symlink("mine", model.dir.segment(0)).unwrap();
    assert!(LogWriter::open(&model.dir, KEEP).write_at(0, b"x").is_err());
    assert!(model.reader().read(0, 5, 5, &[]).is_err());
    assert_eq!(std::fs::read(model.dir.path.join("mine")).unwrap(), b"precious");
}

#[test]
fn a_reader_beside_a_writer_that_drops_sees_bytes_or_gaps_and_no_error() {
    let model = Model::new(KEEP);
    let all = text(40_000);
    let committed = std::sync::atomic::AtomicU64::new(0);
    let order = std::sync::atomic::Ordering::SeqCst;
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut writer = LogWriter::open(&model.dir, KEEP);
            for (i, batch) in all.chunks(13).enumerate() {
                writer.write_at(13 * i as u64, batch).unwrap();
                let end = 13 * i as u64 + batch.len() as u64;
                committed.store(end, order);
                writer.retain(end).unwrap();
            }
        });
        let reader = model.reader();
        let mut end = 0;
        while end < all.len() as u64 {
            end = committed.load(order);
            let mut at = end.saturating_sub(60);
            loop {
                match reader.read(at, end, 9, &[]).unwrap() {
                    Chunk::Bytes { at: here, bytes } => {
                        assert_eq!(bytes, all[here as usize..here as usize + bytes.len()]);
                        at = here + bytes.len() as u64;
                    }
                    Chunk::Gap { to, why, .. } => {
                        assert_eq!(why, GapWhy::Retention);
                        at = to;
                    }
                    Chunk::End => break,
                }
            }
        }
    });
}
