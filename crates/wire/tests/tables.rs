//! The tables of requests and their answers name each request once.

use std::collections::BTreeMap;

fn words_of_table(source: &str, of: &str) -> BTreeMap<String, usize> {
    let (before, _) = source.split_once(&format!("pub enum {of} {{")).unwrap();
    let rows = before.lines().rev().skip_while(|line| !line.starts_with("/// |")).take_while(|line| line.starts_with("/// |"));
    let mut words = BTreeMap::new();
    for row in rows.filter(|row| !row.contains("---") && !row.contains("| request |")) {
        for word in row.split('|').nth(1).unwrap().split(',') {
            *words.entry(word.trim().to_owned()).or_default() += 1;
        }
    }
    words
}

/// The variants of an enum, as its messages name them.
fn words_of_enum(source: &str, of: &str) -> BTreeMap<String, usize> {
    let (_, body) = source.split_once(&format!("pub enum {of} {{")).unwrap();
    let (body, _) = body.split_once("\n}").unwrap();
    let variants = body.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| line.starts_with(char::is_uppercase));
    let word = |line: &str| {
        let name = line.split(|c: char| !c.is_alphanumeric()).next().unwrap();
        let spaced = name.chars().map(|c| if c.is_uppercase() { format!("_{}", c.to_lowercase()) } else { c.to_string() });
        spaced.collect::<String>().trim_start_matches('_').to_owned()
    };
    variants.map(|line| (word(line), 1)).collect()
}

#[test]
fn each_request_has_one_row_with_its_answer() {
    let engine = include_str!("../src/v1/request.rs");
    assert_eq!(words_of_table(engine, "Request"), words_of_enum(engine, "Request"));
    let gateway = include_str!("../src/v1/chat.rs");
    assert_eq!(words_of_table(gateway, "ChatRequest"), words_of_enum(gateway, "ChatRequest"));
}
