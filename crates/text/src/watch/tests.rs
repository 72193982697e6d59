use super::*;
use crate::strip::strip;
use proptest::prelude::*;

fn list(patterns: &[&str]) -> Vec<String> {
    patterns.iter().map(|p| (*p).to_owned()).collect()
}

fn scan(patterns: &[&str], pieces: &[&[u8]]) -> Option<Found> {
    let mut scanner = Scanner::new(&list(patterns), Cursor::default());
    for piece in pieces {
        scanner.push(piece);
    }
    scanner.take()
}

/// A simple search, line by line.
fn naive(patterns: &[String], bytes: &[u8], most_held: usize) -> Option<Found> {
    let mut found: Option<Found> = None;
    let mut offset = 0;
    for line in bytes.split_inclusive(|&b| b == b'\n') {
        let start = offset;
        offset += line.len() as u64;
        let (text, quote, is_long) = match line.strip_suffix(b"\n") {
            Some(line) => {
                let quote = &line[..line.len().min(most_held)];
                (strip(&String::from_utf8_lossy(line)).into_owned(), shown(quote), line.len() > most_held)
            }
            None if line.len() > most_held => (so_far(line, false), shown(&line[..most_held]), true),
            None => (so_far(line, false), so_far(line, true), false),
        };
        let mut held: Vec<(usize, usize)> = Vec::new();
        for (n, pattern) in patterns.iter().enumerate() {
            if let Some(at) = text.find(pattern.as_str()).filter(|_| !pattern.is_empty()) {
                held.push((if is_long { at + pattern.len() } else { 0 }, n));
            }
        }
        let Some((_, pattern)) = held.into_iter().min() else { continue };
        let found = found.get_or_insert(Found { cut: false, ..Found::unquoted(start, pattern, 0) });
        found.count += 1;
        let (quote, hit) = located(patterns, quote, is_long, || pattern);
        found.quote(&quote, hit, is_long);
    }
    found
}

#[test]
fn case_119_what_does_not_occur_is_not_found() {
    assert_eq!(scan(&["ERROR", "FATAL"], &[b"INFO ok\nERR\nOR\nerror\n"]), None);
}

#[test]
fn case_120_the_line_with_the_pattern_is_quoted() {
    let found = scan(&["ERROR"], &[b"INFO ok\nERROR: disk full  \t\r\n"]).unwrap();
    assert_eq!((found.offset, found.pattern, found.count, found.cut), (8, 0, 1, false));
    assert_eq!(found.lines, ["ERROR: disk full"]);
}

#[test]
fn a_line_that_is_too_long_is_quoted_around_its_match() {
    let long = format!("{} Listening on 80 {}\n", "x".repeat(5_000), "é".repeat(5_000));
    let found = scan(&["Listening"], &[long.as_bytes()]).unwrap();
    let line = &found.lines[0];
    assert!(line.starts_with("…xxx") && line.contains("x Listening on 80 é") && found.cut, "{line}");
    assert_eq!((line.chars().count(), line.find("Listening")), (MOST_CHARS, Some("…".len() + 200)));
    // Where the beginning has the match, it is quoted from there.
    let found = scan(&["Listening"], &[format!("Listening {}\n", "x".repeat(5_000)).as_bytes()]).unwrap();
    assert!(found.lines[0].starts_with("Listening x") && found.cut, "{:?}", found.lines);
    // Of a line that is not held, the beginning and the pattern are.
    let found = scan(&["Listening"], &[format!("{} Listening\n", "x".repeat(LONGEST_HELD + 100)).as_bytes()]).unwrap();
    assert!(found.lines[0].ends_with("xxx…Listening") && found.cut, "{:?}", found.lines);
}

#[test]
fn case_122_the_first_matching_line_names_the_pattern() {
    let found = scan(&["WARN", "ERROR"], &[b"ERROR: bad\nWARN: hmm\n"]).unwrap();
    assert_eq!((found.pattern, found.count), (1, 2));
    let found = scan(&["WARN", "ERROR"], &[b"ERROR after WARN\n"]).unwrap();
    assert_eq!(found.pattern, 0);
}

#[test]
fn case_123_a_line_with_two_patterns_is_listed_once() {
    let found = scan(&["WARN", "ERROR"], &[b"ERROR WARN ERROR\n"]).unwrap();
    assert_eq!((found.count, found.lines.len()), (1, 1));
}

#[test]
fn case_125_at_most_twenty_lines_are_quoted() {
    let text: String = (0..30).map(|n| format!("ERROR {n}\n")).collect();
    let found = scan(&["ERROR"], &[text.as_bytes()]).unwrap();
    assert_eq!((found.count, found.lines.len(), found.cut), (30, 20, true));
    assert_eq!(found.lines[19], "ERROR 19");
    let found = scan(&["ERROR"], &["ERROR again\n".repeat(20).as_bytes()]).unwrap();
    assert_eq!((found.count, found.lines.len(), found.cut), (20, 20, false));
}

#[test]
fn case_126_at_most_two_thousand_characters_are_quoted() {
    let line = format!("{}ERROR\n", "é".repeat(5000));
    let found = scan(&["ERROR"], &[line.as_bytes()]).unwrap();
    assert_eq!((found.lines[0].chars().count(), found.cut), (2000, true));
    let found =
        scan(&["x"], &["x".repeat(900).as_bytes(), b"\n", b"y x\n".repeat(3).as_slice(), "x".repeat(5000).as_bytes(), b"\n"]).unwrap();
    assert_eq!(found.lines.iter().map(String::len).collect::<Vec<_>>(), [900, 3, 3, 3, 2000 - 900 - 9 - 4]);
    assert_eq!((found.count, found.cut), (5, true));
}

#[test]
fn case_137_w1_a_line_in_two_reads_is_found_once_and_quoted_whole() {
    let text = "before\nit says: ERROR, and é more\nafter\n";
    for cut in 0..text.len() {
        let (a, b) = text.as_bytes().split_at(cut);
        let found = scan(&["ERROR"], &[a, b]).unwrap();
        assert_eq!((found.count, found.offset, &found.lines[..]), (1, 7, &["it says: ERROR, and é more".to_owned()][..]), "{cut}");
    }
}

#[test]
fn case_138_w1_colours_do_not_hide_a_pattern() {
    let text = "a\n\x1b[1mBuild \x1b[32msucc\x1b[0meeded\x1b[K\n\x1b]0;Build succeeded\x07title\n";
    for cut in 0..text.len() {
        let (a, b) = text.as_bytes().split_at(cut);
        let found = scan(&["Build succeeded"], &[a, b]).unwrap();
        assert_eq!((found.count, found.offset, found.lines[0].as_str()), (1, 2, "Build succeeded"), "{cut}");
    }
}

#[test]
fn w33_a_line_ends_at_a_newline_only() {
    let text = "10% x\r20% x\r30% x\x0bVT\u{2028}LS\u{85}NEL x\nx\n";
    let found = scan(&["x"], &[text.as_bytes()]).unwrap();
    assert_eq!(found.count, 2);
    // Overwritten text matches, too. The quote is the text that a reader sees.
    let found = scan(&["failed"], &[b"one failed\rall is well\n"]).unwrap();
    assert_eq!(found.lines, ["all is well"]);
}

#[test]
fn a_prompt_matches_once_when_it_stays() {
    let mut scanner = Scanner::new(&list(&["assword:"]), Cursor::default());
    scanner.push(b"login\nPass");
    scanner.settle();
    assert_eq!((scanner.found(), scanner.is_open(), scanner.cursor()), (None, true, Cursor { upto: 6, counted: false }));
    scanner.push(b"word: ");
    scanner.settle();
    assert_eq!((scanner.is_open(), scanner.cursor()), (false, Cursor { upto: 16, counted: true }));
    let found = scanner.take().unwrap();
    assert_eq!((found.count, found.offset, &found.lines[..]), (1, 6, &["Password:".to_owned()][..]));
    // The rest of that line does not count again, here or in a scanner that continues.
    let mut heir = Scanner::new(&list(&["assword:"]), scanner.cursor());
    for scanner in [&mut scanner, &mut heir] {
        scanner.push(b" retype Password:");
        scanner.settle();
        assert_eq!(scanner.found(), None);
        scanner.push(b"\nPassword:\n");
        assert_eq!(scanner.take().map(|f| (f.count, f.offset)), Some((1, 34)));
        assert_eq!(scanner.cursor(), Cursor { upto: 44, counted: false });
    }
}

#[test]
fn what_an_open_sequence_may_hide_does_not_count_yet() {
    let mut scanner = Scanner::new(&list(&["ERROR"]), Cursor::default());
    scanner.push(b"\x1b]0;ERROR");
    scanner.settle();
    scanner.push(b"\x07\n");
    assert_eq!(scanner.take(), None);
}

#[test]
fn a_line_without_end_is_searched_across_its_windows() {
    let mut scanner = Scanner::new(&list(&["needle in it"]), Cursor::default());
    let piece = vec![b'-'; 60_000];
    for _ in 0..5 {
        scanner.push(&piece);
    }
    assert_eq!((scanner.is_open(), scanner.cursor()), (false, Cursor::default()));
    scanner.push(b"needle ");
    assert_eq!(scanner.found(), None);
    scanner.push(b"in it");
    assert_eq!(scanner.found().map(|f| (f.count, f.offset, f.cut)), Some((1, 0, true)));
    scanner.push(b"needle in it\nneedle in it\n");
    assert_eq!(scanner.take().map(|f| f.count), Some(2));
    assert_eq!(scanner.cursor().upto, scanner.at());
}

#[test]
fn one_line_over_and_over_is_counted_right() {
    for (line, times) in [("y\n", 1), ("y\n", 2), ("y\n", 6), ("y\n", 32_768), ("a y b\n", 999), ("\x1b[1my\x1b[m\n", 500)] {
        for (before, after) in [("", ""), ("no\n", "no\n"), ("", "y end\n"), ("yy\n", "y"), ("y y\n", "")] {
            let text = format!("{before}{}{after}", line.repeat(times));
            let found = scan(&["y"], &[text.as_bytes()]);
            let lines = &text.as_bytes()[..text.rfind('\n').unwrap() + 1];
            assert_eq!(found, naive(&list(&["y"]), lines, LONGEST_HELD), "{line:?} {times} {before:?} {after:?}");
        }
    }
}

#[test]
fn patterns_that_can_never_be_found_harm_nobody() {
    assert_eq!(scan(&["", "a\nb"], &[b"a\nb\n"]), None);
    assert_eq!(scan(&["", "a\nb", "b"], &[b"a\nb\n"]).map(|f| f.pattern), Some(2));
    assert_eq!(scan(&["\u{FFFD}"], &[b"a\xffb\n"]).map(|f| f.count), Some(1));
}

#[test]
fn many_patterns_are_found_wherever_they_lie() {
    let patterns: Vec<String> = (0..200).map(|n| format!("{}{n:03}", &"abcdefghijklmnopq"[..4 + n % 13])).collect();
    let mut scanner = Scanner::new(&patterns, Cursor::default());
    for (n, pattern) in patterns.iter().enumerate() {
        let text = format!("{}\n{}{pattern}{}\n", "x".repeat(n), "y".repeat(n % 40), "z".repeat(n % 7));
        scanner.restart(Cursor::default());
        scanner.push(text.as_bytes());
        let found = scanner.take();
        assert_eq!(found.as_ref().map(|f| (f.count, f.offset)), Some((1, n as u64 + 1)), "{text}");
        assert_eq!(found, naive(&patterns, text.as_bytes(), LONGEST_HELD));
    }
}

/// The search looks for a few bytes of each pattern. In this text the first choice is everywhere, and so are most later choices.
#[test]
fn what_the_text_is_full_of_is_looked_for_no_more() {
    for patterns in [10, 40] {
        let patterns: Vec<String> = (0..patterns).map(|n| format!("zz{n:02} worker died ZZZZ{n}")).collect();
        let line = "zz01 worker idle ZZZZ, zz07 worker died ZZZ, ZZZZ9 worker\n";
        let mut scanner = Scanner::new(&patterns, Cursor::default());
        let mut bytes = Vec::new();
        for n in 0..2_000 {
            let text =
                if n % 500 == 499 { format!("a \x1b[1mzz0{}\x1b[0m worker died ZZZZ{}!\n", n % 7, n % 7) } else { format!("{n} {line}") };
            scanner.push(text.as_bytes());
            bytes.extend(text.into_bytes());
        }
        let found = scanner.take();
        assert_eq!(found.as_ref().map(|f| f.count), Some(4));
        assert_eq!(found, naive(&patterns, &bytes, LONGEST_HELD));
    }
}

fn output() -> impl Strategy<Value = Vec<u8>> {
    let atom = prop_oneof![
        4 => "[abc ]{0,4}".prop_map(String::into_bytes),
        2 => Just(b"\n".to_vec()),
        1 => Just(b"ab\nab\nab\nab\nab\nab\n".to_vec()),
        1 => Just("é🦀".as_bytes().to_vec()),
        1 => Just(b"\x1b[1m".to_vec()),
        1 => Just(b"\x1b]0;ab".to_vec()),
        1 => Just(b"\x07".to_vec()),
        1 => Just("\u{9b}".as_bytes().to_vec()),
        1 => Just(b"\r".to_vec()),
        1 => Just(b"\x08".to_vec()),
        1 => Just(b"longer pattern".to_vec()),
        1 => proptest::collection::vec(any::<u8>(), 0..3),
    ];
    proptest::collection::vec(atom, 0..40).prop_map(|atoms| atoms.concat())
}

fn patterns() -> impl Strategy<Value = Vec<String>> {
    let pattern =
        prop_oneof![Just("ab"), Just("bc a"), Just("é"), Just("🦀a"), Just("longer pattern"), Just("a\rb"), Just(""), Just("\u{FFFD}")];
    (proptest::collection::vec(pattern, 0..4), any::<bool>()).prop_map(|(some, many)| {
        // Enough patterns for the search by n-grams as well.
        let others = if many { 0..20 } else { 0..0 };
        let others = others.map(|n| if n == 7 { "nger patt".to_owned() } else { format!("never there {n}") });
        some.into_iter().map(str::to_owned).chain(others).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn pieces_give_what_the_whole_gives(
        bytes in output(),
        patterns in patterns(),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        most_held in prop_oneof![Just(3_usize), Just(20), Just(LONGEST_HELD)],
        chooses in any::<bool>(),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|c| c.index(bytes.len() + 1)).chain([0, bytes.len()]).collect();
        cuts.sort_unstable();
        let mut scanner = Scanner::new(&patterns, Cursor::default());
        scanner.most_held = most_held;
        if chooses {
            scanner.search.never_content();
        }
        for cut in cuts.windows(2) {
            scanner.push(&bytes[cut[0]..cut[1]]);
        }
        prop_assert_eq!(scanner.at(), bytes.len() as u64);
        scanner.settle();
        prop_assert_eq!(scanner.take(), naive(&patterns, &bytes, most_held));
    }

    /// Patterns of all lengths, in a text full of their beginnings and ends: each is found, wherever it lies between the checked places.
    #[test]
    fn any_of_many_patterns_is_found_in_a_text_like_it(
        text in "[ab\n]{200,1500}",
        absent in proptest::collection::vec("[abc]{7,24}", 17..40),
        present in proptest::collection::vec((any::<prop::sample::Index>(), 1_usize..24), 0..3),
        pieces in 1_usize..900,
        chooses in any::<bool>(),
    ) {
        let present = present.iter().map(|(at, len)| {
            let from = at.index(text.len());
            text[from..text.len().min(from + len)].to_owned()
        });
        let patterns: Vec<String> = absent.into_iter().chain(present).collect();
        let mut scanner = Scanner::new(&patterns, Cursor::default());
        if chooses {
            scanner.search.never_content();
        }
        for piece in text.as_bytes().chunks(pieces) {
            scanner.push(piece);
        }
        scanner.settle();
        prop_assert_eq!(scanner.take(), naive(&patterns, text.as_bytes(), LONGEST_HELD));
    }

    /// A scanner that is killed at any time, with its matches recorded: a scanner that continues from the cursor finds the rest, and nothing twice.
    #[test]
    fn an_heir_goes_on(
        bytes in output(),
        patterns in patterns(),
        steps in proptest::collection::vec((any::<prop::sample::Index>(), any::<bool>(), any::<bool>()), 0..12),
    ) {
        let mut steps: Vec<_> = steps.iter().map(|(c, settle, die)| (c.index(bytes.len() + 1), *settle, *die)).collect();
        steps.sort_unstable();
        steps.push((bytes.len(), true, false));
        let mut scanner = Scanner::new(&patterns, Cursor::default());
        let mut immortal = Scanner::new(&patterns, Cursor::default());
        let mut count = 0;
        for (to, settle, die) in steps {
            scanner.push(&bytes[scanner.at() as usize..to]);
            immortal.push(&bytes[immortal.at() as usize..to]);
            if settle {
                scanner.settle();
                immortal.settle();
            }
            if die {
                count += scanner.found().map_or(0, |f| f.count);
                let cursor = scanner.cursor();
                scanner = Scanner::new(&patterns, cursor);
            }
        }
        count += scanner.found().map_or(0, |f| f.count);
        prop_assert_eq!(count, immortal.found().map_or(0, |f| f.count));
    }
}
