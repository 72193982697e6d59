//! A brief never costs more than it may, is the same each time, and what it leaves out is what it says.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_text::{Log, brief, count_tokens, lines};

fuzz_target!(|input: (u16, u16, &str)| {
    let (room, first_line, text) = input;
    let (room, first_line) = (usize::from(room % 1024), u64::from(first_line));
    let log = Log { first_line, dropped_lines: first_line / 2, dropped_bytes: first_line * 40, ..Log::whole(text) };
    let read = |lines: std::ops::Range<u64>| format!("outlast log proc_0123456789ab --offset {}", lines.start);
    let made = brief(&log, Some(room), &read);
    assert!(made.tokens <= room);
    assert_eq!(made.tokens, count_tokens(&made.text));
    assert_eq!(brief(&log, Some(room), &read), made);
    let mut end = 0;
    for left in &made.left_out {
        assert!(left.lines.start >= end && left.lines.start < left.lines.end);
        end = left.lines.end;
    }
    let left_out = |number: u64| made.left_out.iter().any(|left| left.lines.contains(&number));
    let mut rest = made.text.as_str();
    for line in lines(text) {
        let number = first_line + line.number;
        if left_out(number) || made.shortened.contains(&number) {
            continue;
        }
        let at = rest.find(line.text).expect("what is not left out is there, in order");
        rest = &rest[at + line.text.len()..];
    }
});
