//! The restart drill: for each reason why a gateway ends, what is left in its journal, what the next start does, and what the person reads. The table in
//! docs/gateway.md is made of these facts. `OUTLAST_RECORD=1 cargo test -p outlast --test gateway drill` writes it again.

mod rows;
mod scene;

use scene::{Agent, Facts};
use std::collections::VecDeque;
use std::sync::Mutex;

/// One row: what happened, with which agents it is tried, and the run that finds out.
pub(crate) struct Row {
    what: &'static str,
    agents: &'static [Agent],
    run: fn(Agent) -> Facts,
}

/// How many rows are run at a time. Most of the time of a row is spent waiting.
const ROWS_AT_A_TIME: usize = 4;
/// How wide documents are.
const PAGE_COLUMNS: usize = 120;
const BEGIN: &str = "<!-- The table of the restart drill; `OUTLAST_RECORD=1 cargo test -p outlast --test gateway drill` writes it. -->\n";
const END: &str = "<!-- The end of the table. -->\n";

#[test]
fn the_table_of_the_restart_drill_is_as_documented() {
    let found = run_all();
    let made = table(&found);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/gateway.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has the mark before the table");
    let (documented, after) = rest.split_once(END).expect("the page has the mark behind the table");
    if std::env::var_os("OUTLAST_RECORD").is_some() {
        std::fs::write(path, format!("{before}{BEGIN}{made}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(documented, made, "docs/gateway.md differs from what was found; OUTLAST_RECORD=1 writes it again");
}

/// The facts of each row and agent, in the order of the table.
fn run_all() -> Vec<(&'static str, Agent, Facts)> {
    let jobs = rows::ROWS.iter().flat_map(|row| row.agents.iter().map(move |agent| (row, *agent)));
    let waiting: Mutex<VecDeque<_>> = Mutex::new(jobs.enumerate().collect());
    let found = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..ROWS_AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let Some((at, (row, agent))) = waiting.lock().unwrap().pop_front() else { return };
                    // A thread of its own, so that a failure names the row.
                    let name = format!("{} ({})", row.what, agent.word());
                    let run = row.run;
                    let facts = std::thread::Builder::new().name(name).spawn(move || run(agent)).unwrap().join();
                    found.lock().unwrap().push((at, row.what, agent, facts));
                }
            });
        }
    });
    let mut found = found.into_inner().unwrap();
    found.sort_by_key(|(at, ..)| *at);
    found.into_iter().map(|(_, what, agent, facts)| (what, agent, facts.expect("the row ran to its end"))).collect()
}

/// The Markdown: rows whose facts are the same for every agent are one, and each line that a person reads is quoted in full below.
fn table(found: &[(&'static str, Agent, Facts)]) -> String {
    let columns =
        ["what happened", "agent", "exit", "lock", "left in the journal", "next start by", "what that one does", "the person reads"];
    let mut text = format!("| {} |\n|{}\n", columns.join(" | "), "---|".repeat(columns.len()));
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut rest = found;
    while let Some((what, agent, facts)) = rest.first() {
        let same = rest.iter().take_while(|(of, _, other)| of == what && other == facts).count();
        let agent = if same > 1 { "any" } else { agent.word() };
        rest = &rest[same..];
        let mut reads = Vec::new();
        for (name, line) in &facts.reads {
            reads.push(format!("*{name}*"));
            if !lines.iter().any(|(known, _)| known == name) {
                lines.push((name.clone(), line.clone()));
            }
        }
        let reads = if reads.is_empty() { "nothing".to_owned() } else { reads.join(", ") };
        let Facts { exit, word, left, starter, does, .. } = facts;
        text += &format!("| {what} | {agent} | {exit} | {word} | {left} | {starter} | {does} | {reads} |\n");
    }
    text += "\n";
    for (name, line) in lines {
        text += &wrapped(&format!("- *{name}*: {line}"));
    }
    text
}

/// One item of a list, in lines that fit the page.
fn wrapped(item: &str) -> String {
    let mut lines = vec![String::new()];
    for word in item.split(' ') {
        let last = lines.last_mut().expect("there is one");
        if last.len() + 1 + word.len() > PAGE_COLUMNS {
            lines.push(format!("  {word}"));
        } else if last.is_empty() {
            *last = word.to_owned();
        } else {
            *last = format!("{last} {word}");
        }
    }
    lines.join("\n") + "\n"
}
