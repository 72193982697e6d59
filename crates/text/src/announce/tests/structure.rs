//! The structure of every notice, for the tests and for `fuzz/fuzz_targets/announce.rs`.

/// Checks that, apart from quoted lines, only the first line opens the notice and only the last closes it. Returns the other lines.
#[track_caller]
pub(super) fn check(text: &str) -> Vec<&str> {
    let lines: Vec<&str> = text.split(['\n', '\u{2028}', '\u{2029}']).collect();
    let ours: Vec<&str> = lines.iter().copied().filter(|line| !line.starts_with("| ")).collect();
    let opens = |line: &str| line.starts_with("[IMPORTANT: ") || line.starts_with("[ASYNC DELEGATION ");
    let closes = |line: &str| line == "]" || line.starts_with("[END OF ASYNC DELEGATION ");
    assert!(opens(lines[0]) && ours.iter().filter(|line| opens(line)).count() == 1, "{text:?}");
    match lines.len() {
        1 => assert!(text.ends_with(']'), "{text:?}"),
        last => assert!(closes(lines[last - 1]) && ours.iter().filter(|line| closes(line)).count() == 1, "{text:?}"),
    }
    assert!(!text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')), "{text:?}");
    ours
}
