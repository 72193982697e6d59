//! Where each core case of the gateway's requirements is tested. A test about case 12 is named `case_012_…`, in the rules of the gateway or beside this file.
//! Cases about processes and their notices have numbers of their own, in `tests/it`; where a case of the gateway is about these, it is listed here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The core cases.
const CORE: &[u32] = &[
    1, 2, 3, 4, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 18, 19, 20, 21, 22, 24, 25, 26, 27, 28, 30, 31, 32, 33, 34, 36, 37, 38, 39, 40, 42, 43,
    44, 45, 46, 48, 50, 51, 52, 54, 55, 56, 57, 58, 60, 61, 62, 63, 64, 66, 67, 68, 69, 70, 72, 73, 74, 76, 78, 79, 80, 81, 82, 84, 85, 86,
    87, 88, 90, 91, 92, 93, 94, 96, 97, 98, 99, 100, 102, 103, 106, 108, 109, 110, 111, 112, 114, 115, 116, 117, 120, 121, 122, 123, 124,
    126, 127, 128, 129, 130, 132, 133, 134, 135, 136, 138, 139, 140, 141, 142, 144, 145, 146, 147, 148, 150, 152, 153, 154, 156, 157, 158,
    159, 160, 162, 163, 164, 165, 166, 168, 169, 170, 171, 172, 174, 175, 177, 178, 180, 181, 182, 183, 184, 186, 187, 188, 189, 190, 192,
    193, 195, 196, 198, 199, 200, 201, 202, 204, 205, 206, 208, 210, 211, 212, 213, 214, 220, 222, 223, 224,
];

/// Cases that are tested under another name, and the test.
const ELSEWHERE: &[(u32, &str)] = &[
    (102, "the_table_of_the_restart_drill_is_as_documented"),
    (133, "an_agent_that_is_silent_for_too_long_is_stopped_and_a_refused_prompt_is_not_the_end"),
    (181, "case_135_what_is_printed_after_the_end_is_not_told"),
    (204, "case_183_while_a_process_runs_the_home_is_active"),
    (208, "case_145_185_a_goal_that_waits_for_a_match_continues_with_it"),
    (211, "a_barrier_opens_at_a_time_or_with_the_end_of_a_pid"),
    (212, "case_212_what_was_taken_away_cannot_be_taken_away_again"),
    (213, "a_barrier_without_a_waiter_causes_a_notice_when_it_opens"),
    (214, "a_goal_hears_of_a_match_that_was_the_last_to_be_told"),
    (220, "a_drain_is_one_object_in_order_and_bounded_if_asked"),
    (222, "case_107_a_log_and_a_wait_of_its_owner_consume"),
    (223, "case_108_109_a_terminal_is_told_of_lines_of_what_it_has_seen_end_and_a_gateway_is_not"),
    (224, "case_113_each_conversation_drains_its_own"),
];

/// Cases without a test of their own, and why.
const NOT_HERE: &[(u32, &str)] = &[
    (54, "superseded by 55: a crash interrupts and does not suspend"),
    (63, "superseded: only a completed turn resets strikes, and a stop in between does not"),
    (94, "there is no marker to be written; what a gateway cannot write is in its log"),
    (108, "superseded by 109: a message during a drain is kept"),
    (115, "local chats have no threads, and there are no home channels"),
    (156, "a local chat has no messages that a reply could be anchored to"),
    (193, "local chats have no threads"),
    (198, "the kernel names the user of every message, so none is without one"),
    (199, "there is no pairing: the socket lets in the user of the home and root only"),
    (210, "goals are not part of the gateway; a barrier is, and it calls no judge"),
];

#[test]
fn every_core_case_is_tested_or_says_why_not() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned();
    let own = tests_in(&[crates.join("gateway/src"), crates.join("outlast/tests/gateway")]);
    let by_number: BTreeMap<u32, &String> =
        own.iter().flat_map(|name| numbers(name).into_iter().map(move |number| (number, name))).collect();
    let all = tests_in(&[crates]);
    let mut wrong = Vec::new();
    for number in CORE {
        let elsewhere = ELSEWHERE.iter().find(|(of, _)| of == number).map(|(_, test)| *test);
        let reason = NOT_HERE.iter().find(|(of, _)| of == number);
        match (by_number.get(number), elsewhere, reason) {
            (Some(_), None, None) | (None, None, Some(_)) => {}
            (None, Some(test), None) if all.contains(test) => {}
            (None, Some(test), None) => wrong.push(format!("case {number}: there is no test {test}")),
            (None, None, None) => wrong.push(format!("case {number} has no test")),
            (named, elsewhere, reason) => wrong.push(format!("case {number} is listed twice: {named:?}, {elsewhere:?}, {reason:?}")),
        }
    }
    let known: BTreeSet<u32> = CORE.iter().copied().collect();
    let listed = ELSEWHERE.iter().map(|(of, _)| of).chain(NOT_HERE.iter().map(|(of, _)| of));
    wrong.extend(listed.filter(|of| !known.contains(of)).map(|of| format!("case {of} is listed and is no core case")));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The names of all functions with `#[test]` above them, or inside `proptest!`.
fn tests_in(places: &[PathBuf]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut places = places.to_vec();
    while let Some(place) = places.pop() {
        if place.is_dir() {
            places.extend(std::fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().path()));
        } else if place.extension().is_some_and(|end| end == "rs") {
            let text = std::fs::read_to_string(&place).unwrap();
            let mut is_test = false;
            for line in text.lines().map(str::trim) {
                match line.trim_start_matches("async ").strip_prefix("fn ").and_then(|rest| rest.split_once('(')) {
                    Some((name, _)) if is_test => _ = names.insert(name.to_owned()),
                    _ => {}
                }
                // Other attributes and comments may stand between.
                is_test = line.starts_with("#[test]") || line.starts_with("#[tokio::test") || (is_test && line.starts_with(['#', '/']));
            }
        }
    }
    names
}

/// The cases in a name: `case_001_and_002_…`, `case_006_to_009_…`.
fn numbers(name: &str) -> Vec<u32> {
    let mut found: Vec<u32> = Vec::new();
    let mut is_range = false;
    for word in name.strip_prefix("case_").unwrap_or_default().split('_') {
        match (word, word.parse::<u32>()) {
            (_, Ok(number)) => {
                let from = found.last().copied().filter(|_| is_range).map_or(number, |last| last + 1);
                found.extend(from..=number);
                is_range = false;
            }
            ("and", _) => {}
            ("to", _) => is_range = true,
            _ => break,
        }
    }
    found
}

#[test]
fn a_name_says_which_cases_it_is_about() {
    assert_eq!(numbers("case_001_and_002_a_chat"), [1, 2]);
    assert_eq!(numbers("case_006_to_009_who_shares_3_groups"), [6, 7, 8, 9]);
    assert_eq!(numbers("case_042_to_be"), [42]);
    assert!(numbers("a_case_001").is_empty() && numbers("case_of_12").is_empty());
}
