use super::*;
use outlast_core::{Cause, Ending, GapWhy, Incarnation, Outcome, OutputEnd, Owner, Role, StartFailure, Stop, StopWay, Time};
use std::time::Duration;

fn folder() -> (tempfile::TempDir, ProcessDir) {
    let place = tempfile::tempdir().unwrap();
    let dir = ProcessDir { path: place.path().to_owned() };
    (place, dir)
}

/// One record of each kind, with values that could be damaged on the way: large numbers, unusual texts, every variant.
fn every_record() -> Vec<Record> {
    let at = Time::from_micros(1_700_000_000_123_456);
    let of = Incarnation { pid: 4_194_304, start_ticks: u64::MAX, boot: u128::MAX - 5 };
    let by = Owner { session: Some("s\n\u{1}é".into()), task: None, generation: Some(String::new()) };
    let asked = Cause::Asked { by, source: "process.kill".into() };
    let ended = |outcome, cause| Record::Ended { ending: Ending { outcome, cause, at, oom: false }, log_end: u64::MAX };
    vec![
        Record::Accepted { at },
        Record::Started { at, of },
        Record::Adopted { at: Time::from_micros(-1), of: Incarnation { boot: 0, ..of } },
        Record::StopAsked { at, stop: Stop { cause: asked.clone(), way: StopWay::Escalate { grace: Duration::from_micros(1_500) } } },
        Record::StopAsked { at, stop: Stop { cause: Cause::Deadline, way: StopWay::TermOnly } },
        Record::TakenOver { at, role: Role::Pump, times: 3 },
        Record::TakenOver { at, role: Role::Holder, times: u32::MAX },
        Record::Gap { at, from: 1, to: u64::MAX, why: GapWhy::DiskFull },
        Record::Gap { at, from: 1, to: 2, why: GapWhy::Retention },
        Record::Gap { at, from: 1, to: 2, why: GapWhy::Lost },
        ended(Outcome::Code(-3), Cause::OfItsOwn),
        ended(Outcome::Signal { number: 11, dumped_core: true }, asked),
        ended(Outcome::NeverStarted(StartFailure { errno: 2, what: "execve".into() }), Cause::Deadline),
        ended(Outcome::Unknown, Cause::OfItsOwn),
        Record::OutputClosed { at, output: OutputEnd { end: 9, left_running: 2 } },
        Record::Orphaned { at, of },
        Record::Lost { at },
    ]
}

/// Writes the records, and returns where each begins, and the end.
fn write(dir: &ProcessDir, records: &[Record]) -> Vec<u64> {
    let mut journal = Journal::open_for_append(dir).unwrap();
    let mut ends = vec![HEADER.len() as u64];
    ends.extend(records.iter().map(|r| journal.append(r).unwrap()));
    ends
}

fn only(read: &JournalRead) -> Vec<Record> {
    read.records.iter().map(|(_, r)| r.clone()).collect()
}

#[test]
fn every_record_survives() {
    let (_place, dir) = folder();
    let records = every_record();
    assert_eq!(read_from(&dir.journal(), 0).unwrap(), JournalRead::default());
    let ends = write(&dir, &records);
    let read = read_from(&dir.journal(), 0).unwrap();
    assert_eq!(only(&read), records);
    assert_eq!(read.records.iter().map(|(at, _)| *at).collect::<Vec<_>>(), ends[..records.len()]);
    assert_eq!((read.cursor, read.damage, read.unknown, read.more), (ends[records.len()], None, vec![], false));
    for (i, &end) in ends.iter().enumerate() {
        assert_eq!(only(&read_from(&dir.journal(), end).unwrap()), records[i..]);
    }
}

#[test]
fn nothing_is_created_before_the_first_record() {
    let (_place, dir) = folder();
    Journal::open_for_append(&dir).unwrap().sync().unwrap();
    assert!(!dir.journal().exists());
}

#[test]
fn a_journal_cut_at_any_byte_keeps_its_whole_records_and_goes_on() {
    let (_place, dir) = folder();
    let records = every_record();
    let ends = write(&dir, &records);
    let bytes = std::fs::read(dir.journal()).unwrap();
    for cut in 0..=bytes.len() {
        std::fs::write(dir.journal(), &bytes[..cut]).unwrap();
        let whole = ends[1..].iter().filter(|&&e| e <= cut as u64).count();
        let read = read_from(&dir.journal(), 0).unwrap();
        assert_eq!((only(&read), read.damage), (records[..whole].to_vec(), None), "cut at {cut}");
        // A power cut may also leave zeros instead of the rest.
        for zeros in [1, 8, 9, 10, 5_000] {
            let mut padded = bytes[..cut].to_vec();
            padded.resize(cut + zeros, 0);
            std::fs::write(dir.journal(), &padded).unwrap();
            let read = read_from(&dir.journal(), 0).unwrap();
            assert_eq!((only(&read), read.damage), (records[..whole].to_vec(), None), "{zeros} zeros at {cut}");
        }
        let mut journal = Journal::open_for_append(&dir).unwrap();
        assert_eq!(journal.set_aside(), None);
        let more = Record::Lost { at: Time::from_micros(7) };
        let end = journal.append(&more).unwrap();
        let read = read_from(&dir.journal(), read.cursor).unwrap();
        assert_eq!((only(&read), read.cursor, read.damage), (vec![more], end, None), "cut at {cut}");
    }
}

#[test]
fn a_changed_byte_ends_the_journal_there_and_invents_nothing() {
    let (_place, dir) = folder();
    let records = every_record();
    let ends = write(&dir, &records);
    let bytes = std::fs::read(dir.journal()).unwrap();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x02, 0x10, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            std::fs::write(dir.journal(), &bad).unwrap();
            let read = read_from(&dir.journal(), 0).unwrap();
            let whole = ends.iter().filter(|&&e| e <= at as u64).count().saturating_sub(1);
            assert_eq!(only(&read), records[..whole], "{flip:#x} at {at}");
            let begin = if at < HEADER.len() { 0 } else { ends[whole] };
            assert_eq!(read.cursor, begin);
            // A damaged last record cannot be told from a torn one; other damaged records can.
            if whole + 1 < records.len() {
                assert_eq!(read.damage.as_ref().map(|d| d.offset), Some(begin), "{flip:#x} at {at}");
            }
            let mut journal = match Journal::open_for_append(&dir) {
                Ok(journal) => journal,
                Err(e) => {
                    assert!(at == 6 && e.to_string().contains("newer"), "{flip:#x} at {at}: {e}");
                    continue;
                }
            };
            assert_eq!(journal.set_aside(), read.damage.as_ref());
            if read.damage.is_some() {
                assert_eq!(std::fs::read(dir.path.join("journal.damaged")).unwrap(), bad[begin as usize..]);
            }
            let more = Record::Lost { at: Time::from_micros(7) };
            journal.append(&more).unwrap();
            let read = read_from(&dir.journal(), begin).unwrap();
            assert_eq!((only(&read), read.damage), (vec![more], None), "{flip:#x} at {at}");
        }
    }
}

#[test]
fn what_a_newer_version_wrote_is_skipped_and_told() {
    let (_place, dir) = folder();
    let at = Time::from_micros(1);
    let end = *write(&dir, &[Record::Accepted { at }]).last().unwrap();
    let mut bytes = std::fs::read(dir.journal()).unwrap();
    frame::push(&mut bytes, 1, &serde_json::json!({"record": "hibernated", "at": 1}), FRAME_LIMIT).unwrap();
    frame::push(&mut bytes, 9, &serde_json::json!([1, 2]), FRAME_LIMIT).unwrap();
    // A known record with an unknown value.
    frame::push(&mut bytes, 1, &serde_json::json!({"record": "taken_over", "at": 1, "role": "guard", "times": 1}), FRAME_LIMIT).unwrap();
    // A known record with an unknown field.
    frame::push(&mut bytes, 1, &serde_json::json!({"record": "lost", "at": 1, "mood": "sad"}), FRAME_LIMIT).unwrap();
    std::fs::write(dir.journal(), &bytes).unwrap();
    let read = read_from(&dir.journal(), end).unwrap();
    assert_eq!((only(&read), read.damage, read.cursor), (vec![Record::Lost { at }], None, bytes.len() as u64));
    let told: Vec<_> = read.unknown.iter().map(|u| (u.version, u.kind.as_deref())).collect();
    assert_eq!(told, [(1, Some("hibernated")), (9, None), (1, Some("taken_over"))]);
}

#[test]
fn a_newer_journal_is_read_by_nobody_and_harmed_by_nobody() {
    let (_place, dir) = folder();
    std::fs::write(dir.journal(), b"OLJRNL2\nwhatever").unwrap();
    assert!(read_from(&dir.journal(), 0).unwrap().damage.is_some());
    assert!(Journal::open_for_append(&dir).is_err());
    assert_eq!(std::fs::read(dir.journal()).unwrap(), b"OLJRNL2\nwhatever");
}

#[test]
fn a_cursor_behind_the_end_is_damage() {
    let (_place, dir) = folder();
    write(&dir, &every_record());
    let read = read_from(&dir.journal(), 1 << 40).unwrap();
    assert_eq!((read.damage.unwrap().offset, read.records.len()), (1 << 40, 0));
}

#[test]
fn a_long_journal_comes_in_parts() {
    let (_place, dir) = folder();
    let mut bytes = HEADER.to_vec();
    let record = Record::Ended {
        ending: Ending {
            outcome: Outcome::NeverStarted(StartFailure { errno: 0, what: "x".repeat(900_000) }),
            cause: Cause::OfItsOwn,
            at: Time::from_micros(0),
            oom: false,
        },
        log_end: 0,
    };
    for _ in 0..20 {
        frame::push(&mut bytes, 1, &v1::Record::from(&record), FRAME_LIMIT).unwrap();
    }
    std::fs::write(dir.journal(), &bytes).unwrap();
    let (mut cursor, mut found, mut parts) = (0, 0, 0);
    loop {
        let read = read_from(&dir.journal(), cursor).unwrap();
        found += read.records.len();
        parts += 1;
        cursor = read.cursor;
        if !read.more {
            break;
        }
    }
    assert_eq!((found, cursor, parts), (20, bytes.len() as u64, 2));
}

#[test]
fn a_record_too_long_to_be_read_is_not_written() {
    let (_place, dir) = folder();
    let what = "x".repeat(FRAME_LIMIT);
    let ending = Ending {
        outcome: Outcome::NeverStarted(StartFailure { errno: 0, what }),
        cause: Cause::OfItsOwn,
        at: Time::from_micros(0),
        oom: false,
    };
    let mut journal = Journal::open_for_append(&dir).unwrap();
    assert!(journal.append(&Record::Ended { ending, log_end: 0 }).is_err());
    journal.append(&Record::Lost { at: Time::from_micros(0) }).unwrap();
    assert_eq!(read_from(&dir.journal(), 0).unwrap().records.len(), 1);
}

#[test]
fn a_link_is_not_a_journal() {
    let (_place, dir) = folder();
    std::fs::write(dir.path.join("elsewhere"), "").unwrap();
    std::os::unix::fs::symlink("elsewhere", dir.journal()).unwrap();
    assert!(Journal::open_for_append(&dir).is_err() && read_from(&dir.journal(), 0).is_err());
}
