use super::*;
use proptest::prelude::*;

fn read(lines: Range<u64>) -> String {
    format!("outlast log proc_0123456789ab --offset {} --limit {}", lines.start, (lines.end - lines.start).min(200))
}

fn make(text: &str, room: usize) -> Brief {
    brief(&Log::whole(text), Some(room), &read)
}

/// Every line of a brief is a line of the log, in order, or a marker, and the markers name exactly the missing lines.
fn check(log: &Log<'_>, room: usize, made: &Brief) {
    assert!(made.tokens <= room, "{} tokens for {room}", made.tokens);
    assert_eq!(made.tokens, count_tokens(&made.text));
    let lines: Vec<&str> = crate::lines(log.text).map(|l| l.text).collect();
    let end = log.numbers(lines.len()).end;
    let mut at = 0;
    for left in &made.left_out {
        assert!(left.lines.start >= at && !left.lines.is_empty() && left.lines.end <= end, "{:?}", made.left_out);
        assert_eq!(left.why == Why::Before, left.lines.start < log.first_line);
        at = left.lines.end;
    }
    let missing = |number: u64| made.left_out.iter().any(|left| left.lines.contains(&number));
    let mut rest = made.text.as_str();
    for hole in log.holes {
        assert!((1..=hole.lines).all(|before| missing(log.number(hole.at) - before)), "{hole:?} in {:?}", made.left_out);
    }
    for (number, line) in (0..).map(|at| log.number(at)).zip(&lines).filter(|(number, _)| !missing(*number)) {
        if made.shortened.contains(&number) {
            let last = line.trim_end().chars().next_back().unwrap();
            assert!(rest.contains(last), "{line:?} in {rest:?}");
            continue;
        }
        let found = rest.find(line).unwrap_or_else(|| panic!("line {number} {line:?} is neither in {rest:?} nor left out"));
        rest = &rest[found + line.len()..];
    }
    let markers = made.text.lines().filter(|l| l.starts_with("[… ")).count();
    let others = made.text.lines().count() - markers;
    assert!(others <= lines.len());
}

#[test]
fn what_fits_is_given_back_as_it_is() {
    let text = "one\ntwo 1\ntwo 2\ntwo 3\ntwo 4\ntwo 5\ntwo 6\nthree";
    let made = make(text, 100);
    assert_eq!(made.text, text);
    assert_eq!((made.left_out, made.shortened), (vec![], vec![]));
    assert_eq!(brief(&Log::whole(""), None, &read).text, "");
}

#[test]
fn the_beginning_the_first_error_and_the_end_are_there() {
    let mut text = String::from("cargo build\n");
    text.extend((0..300).map(|n| format!("   Compiling crate-{n} v1.{n}.0\n")));
    text += "error[E0308]: mismatched types\n  --> src/main.rs:3:5\n   |\n3  |     \"x\"\n   |     ^^^ expected `u32`, found `&str`\n\n";
    text.extend((0..300).map(|n| format!("note {n} {}\n", "about something else ".repeat(n % 5))));
    text += "error: could not compile `app` due to 1 previous error\n";
    let made = make(&text, 300);
    check(&Log::whole(&text), 300, &made);
    for wanted in ["cargo build", "error[E0308]: mismatched types", "expected `u32`", "could not compile"] {
        assert!(made.text.contains(wanted), "{wanted} in {}", made.text);
    }
    assert!(made.text.contains("outlast log proc_0123456789ab --offset"), "{}", made.text);
}

#[test]
fn no_marker_stands_for_lines_that_the_reader_has() {
    let log = Log { first_line: 4, continues: true, ..Log::whole("five\nsix") };
    let made = brief(&log, Some(100), &|_| "read".into());
    assert_eq!((made.text.as_str(), made.left_out.len()), ("five\nsix", 0));
    let made = brief(&Log { text: "", ..log }, Some(100), &|_| "read".into());
    assert_eq!(made.text, "");
    // What is left out here is marked, with its number in the log.
    let text = (0..100).map(|n| format!("{}\n", "ab ".repeat(n % 7 + 1))).collect::<String>();
    let made = brief(&Log { text: &text, ..log }, Some(60), &|_| "read".into());
    assert!(made.left_out.iter().all(|left| left.lines.start >= 4) && made.text.contains("[… "), "{made:?}");
}

#[test]
fn a_marker_names_what_is_missing_and_how_to_read_it() {
    let text: String = (0..1000).map(|n| format!("line number {n} of a log in which nothing repeats: {}\n", "x".repeat(n % 7))).collect();
    let log = Log { text: &text, first_line: 5000, continues: false, dropped_lines: 400, dropped_bytes: 12_345, holes: &[] };
    let made = brief(&log, Some(200), &read);
    check(&log, 200, &made);
    let first = made.text.lines().next().unwrap();
    let wanted = "[… 5,000 lines before this, 400 of them (12,345 bytes) no longer kept (0–4999): outlast log proc_0123456789ab --offset 0 --limit 200]";
    assert_eq!(first, wanted);
    assert_eq!(made.left_out[0], LeftOut { lines: 0..5000, why: Why::Before });
}

#[test]
fn lines_after_a_hole_have_their_own_numbers() {
    let text = "begin\n1 done\n2 done\n3 done\nerror: it broke\nend\n";
    let log = Log { holes: &[Hole { at: 3, lines: 1_000 }, Hole { at: 5, lines: 7 }], ..Log::whole(text) };
    let made = brief(&log, Some(100), &|_| "log".into());
    check(&log, 100, &made);
    assert_eq!(
        made.text,
        "begin\n1 done\n2 done\n[… 1,000 lines left out (3–1002): log]\n3 done\nerror: it broke\n[… 7 lines left out (1005–1011)]\nend\n"
    );
}

#[test]
fn repeats_are_told_with_their_number() {
    let text = format!("begin\n{}end\n", (0..500).map(|n| format!("{n} of 500 done\n")).collect::<String>());
    let made = make(&text, 120);
    assert_eq!(
        made.text,
        "begin\n0 of 500 done\n[… 498 lines like these (2–499): outlast log proc_0123456789ab --offset 2 --limit 200]\n499 of 500 done\nend\n"
    );
    assert_eq!(made.left_out, [LeftOut { lines: 2..500, why: Why::Alike }]);
}

#[test]
fn one_giant_line_is_shown_by_its_ends() {
    for text in
        ["a".repeat(3_000_000), "0123456789abcdef ".repeat(100_000), "🦀".repeat(50_000), format!("begin {} end", "x".repeat(500_000))]
    {
        for room in [10, 50, 400, 2_500] {
            let made = make(&text, room);
            assert!(made.tokens <= room && !made.text.is_empty(), "{room}");
            assert_eq!(made.shortened, [0]);
        }
    }
}

#[test]
fn little_room_is_for_the_end() {
    let text = format!("{}the last line says how it went\n", "something\nelse\n".repeat(50));
    assert_eq!(make(&text, 0).text, "");
    assert_eq!(make(&text, 0).left_out, [LeftOut { lines: 0..101, why: Why::Room }]);
    assert!("the last line says how it went".ends_with(&make(&text, 4).text));
    assert!(make(&text, 40).text.contains("the last line says how it went"));
}

#[test]
fn without_a_number_it_is_half_but_not_less_than_a_little() {
    let text: String = (0..200).map(|n| format!("{n}: a line about {}\n", ["wood", "stone", "glass"][n % 3].repeat(n % 4 + 1))).collect();
    let whole = count_tokens(&text);
    let made = brief(&Log::whole(&text), None, &read);
    assert!(made.tokens <= whole / 2 && made.tokens > whole / 3, "{} of {whole}", made.tokens);
    let small = &text[..text.len() / 8];
    assert_eq!(brief(&Log::whole(small), None, &read).text, small);
    assert!(brief(&Log::whole(&text.repeat(50)), None, &read).tokens <= DEFAULT_TOKENS);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn no_log_costs_more_than_it_may(
        lines in proptest::collection::vec(prop_oneof!["[a-z 0-9%é🦀\\[\\]…=>.:/-]{0,60}", Just("error: it broke".to_owned()), Just("   Compiling foo v1".to_owned()), Just("[… 3 lines left out (1–3)]".to_owned()), "[x]{0,900}"], 0..80),
        ends in any::<bool>(),
        first_line in prop_oneof![Just(0u64), 1u64..5000],
        room in 0usize..400,
        missing in proptest::collection::btree_map(1usize..80, 1u64..9000, 0..3),
    ) {
        let text = lines.join("\n") + if ends { "\n" } else { "" };
        let some = crate::lines(&text).count();
        let holes: Vec<Hole> = missing.into_iter().filter(|(at, _)| *at < some).map(|(at, lines)| Hole { at, lines }).collect();
        let log = Log { text: &text, first_line, continues: false, dropped_lines: first_line / 2, dropped_bytes: first_line * 10, holes: &holes };
        let made = brief(&log, Some(room), &read);
        check(&log, room, &made);
        prop_assert_eq!(brief(&log, Some(room), &read), made);
    }
}
