//! What the documents print is what the program prints.
//!
//! Each `console` block of a document is a session at a terminal, in a home of its own. Ids, pids, times and durations may differ, and a line `...` stands for any
//! number of lines. `UPDATE_DOCS=1 cargo test -p outlast --test it docs::` writes what is printed into the documents.

use crate::shell::shows;
use crate::support::*;
use regex::Regex;
use std::path::{Path, PathBuf};

fn document(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)
}

/// A command line, and the lines behind it.
struct Step {
    typed: String,
    expected: Vec<String>,
}

/// The document in parts: text as it is, and sessions.
enum Part {
    Text(String),
    Session(Vec<Step>),
}

fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    for (n, piece) in text.split_inclusive("```console\n").enumerate() {
        let (session, rest) = if n == 0 { ("", piece) } else { piece.split_at(piece.find("```\n").expect("the end of a block")) };
        if n > 0 {
            let mut steps: Vec<Step> = Vec::new();
            for line in session.lines() {
                match line.strip_prefix("$ ") {
                    Some(typed) => steps.push(Step { typed: typed.into(), expected: Vec::new() }),
                    None => steps.last_mut().expect("a block begins with a command").expected.push(line.into()),
                }
            }
            parts.push(Part::Session(steps));
        }
        parts.push(Part::Text(rest.into()));
    }
    parts
}

/// The line with what differs from run to run replaced.
fn pattern(line: &str) -> String {
    let table = [
        (r"proc_[0-9a-f]{12}", "proc_ID"),
        (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?", "TIME"),
        (r"\b\d\d:\d\d:\d\d\b", "TIME"),
        (r"\b\d+(\.\d+)? ?(ms|s|m|h|d)\b", "DURATION"),
        (r"(DURATION ?)+", "DURATION "),
        (r"(\bpid|\brunning|still running:) +\d+", "$1 PID"),
        (r"\b\d{3,}\b", "NUMBER"),
        (r" +", " "),
    ];
    let replaced =
        table.iter().fold(line.to_owned(), |line, (regex, with)| Regex::new(regex).unwrap().replace_all(&line, *with).into_owned());
    replaced.trim_end().to_owned()
}

fn agree(expected: &[String], shown: &[&str]) -> bool {
    match expected {
        [] => shown.is_empty(),
        [any, rest @ ..] if any == "..." => (0..=shown.len()).any(|n| agree(rest, &shown[n..])),
        [first, rest @ ..] => shown.split_first().is_some_and(|(line, others)| pattern(first) == pattern(line) && agree(rest, others)),
    }
}

fn check(name: &str) {
    let path = document(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let (mut written, mut wrong, mut sessions) = (String::new(), Vec::new(), 0);
    for part in parts(&text) {
        let steps = match part {
            Part::Text(text) => {
                written += &text;
                continue;
            }
            Part::Session(steps) => steps,
        };
        sessions += 1;
        let p = product();
        for Step { typed, expected } in steps {
            let (shown, _) = shows(&p, &typed);
            let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
            // On a slow machine the notice may be there before it is waited for.
            let is_of_both = |line: &str| !line.starts_with("nothing is pending; waiting");
            let expected_of_both: Vec<String> = expected.iter().filter(|line| is_of_both(line)).cloned().collect();
            let lines_of_both: Vec<&str> = lines.iter().copied().filter(|line| is_of_both(line)).collect();
            written += &format!("$ {typed}\n");
            if agree(&expected_of_both, &lines_of_both) {
                expected.iter().for_each(|line| written += &format!("{line}\n"));
            } else {
                lines.iter().for_each(|line| written += &format!("{line}\n"));
                wrong.push(format!("$ {typed}\n--- documented\n{}\n--- printed\n{}", expected.join("\n"), lines.join("\n")));
            }
        }
    }
    assert!(sessions > 0, "{name} shows no session");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, written).unwrap();
    } else {
        assert!(wrong.is_empty(), "{name}:\n\n{}", wrong.join("\n\n"));
    }
}

#[test]
fn the_readme_prints_what_the_program_prints() {
    check("README.md");
}

#[test]
fn the_page_about_the_command_line_prints_what_the_program_prints() {
    check("docs/cli.md");
}

/// A reader who has to scroll for long does not get to the end.
#[test]
fn the_readme_is_short() {
    let length = std::fs::metadata(document("README.md")).unwrap().len();
    assert!(length <= 8 * 1024, "README.md has {length} bytes, and 8 kB are its limit");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let link = Regex::new(r"(?m)\]\(([^)#:\s]+)(?:#[^)]*)?\)|^\[\d+\]: ([^#:\s]+)").unwrap();
    let mut pages = vec![document("README.md"), document("CONTRIBUTING.md"), document("SECURITY.md")];
    for dir in ["docs", "docs/agents", "docs/decisions"] {
        let found = std::fs::read_dir(document(dir)).unwrap().map(|entry| entry.unwrap().path());
        pages.extend(found.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for found in link.captures_iter(&text) {
            let name = found.get(1).or(found.get(2)).unwrap().as_str();
            assert!(page.parent().unwrap().join(name).exists(), "{} links to {name}, which does not exist", page.display());
        }
    }
}

#[test]
fn every_error_code_is_described() {
    let constant = Regex::new(r#"pub const [A-Z_]+: &str = "([a-z_]+)";"#).unwrap();
    let source = std::fs::read_to_string(document("crates/wire/src/code.rs")).unwrap();
    let mut codes: Vec<String> = constant.captures_iter(&source).map(|found| found[1].to_owned()).collect();
    let page = std::fs::read_to_string(document("docs/json.md")).unwrap();
    let (_, table) = page.split_once("\n## Errors\n").expect("a section about errors");
    let row = Regex::new(r"(?m)^\| `([a-z_]+)` \| .+ \|$").unwrap();
    let mut described: Vec<String> = row.captures_iter(table).map(|found| found[1].to_owned()).collect();
    codes.sort();
    described.sort();
    assert!(codes.len() > 30, "{codes:?}");
    assert_eq!(described, codes);
}

/// A decision is found by its number: one page has it, and the index names that page.
#[test]
fn the_index_of_decisions_names_the_page_of_each() {
    let heading = Regex::new(r"(?m)^### (\d+)\. ").unwrap();
    let row = Regex::new(r"(?m)^\| (\d+) \| .*\]\(([a-z-]+\.md)#(\d+)-").unwrap();
    let index = std::fs::read_to_string(document("docs/decisions/README.md")).unwrap();
    let mut listed: Vec<_> = row.captures_iter(&index).map(|row| (row[1].to_owned(), row[2].to_owned())).collect();
    let mut there = Vec::new();
    for page in std::fs::read_dir(document("docs/decisions")).unwrap().map(|entry| entry.unwrap().path()) {
        let (text, name) = (std::fs::read_to_string(&page).unwrap(), page.file_name().unwrap().to_str().unwrap().to_owned());
        there.extend(heading.captures_iter(&text).map(|found| (found[1].to_owned(), name.clone())));
    }
    listed.sort();
    there.sort();
    assert!(there.windows(2).all(|pair| pair[0].0 != pair[1].0), "a number has two pages");
    assert_eq!(listed, there);
}

#[test]
fn lines_agree_if_only_ids_and_times_differ() {
    let expected = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    assert!(agree(
        &expected(&["proc_0123456789ab  running  12  3s", "...", "end"]),
        &["proc_ba9876543210  running  1234  1m 20s", "x", "y", "end"]
    ));
    assert!(!agree(&expected(&["exited with code 3"]), &["exited with code 4"]));
    assert!(
        agree(&expected(&["..."]), &[]) && agree(&expected(&["...", "a"]), &["b", "a"]) && !agree(&expected(&["...", "a"]), &["a", "b"])
    );
    assert!(!agree(&expected(&["a", "b"]), &["a"]) && !agree(&expected(&["a"]), &["a", "b"]));
}
