//! `log --json`: pages of a log that grows, which a program joins, and `--grep` in them.

use super::{lines, numbers};
use crate::gate::{Gate, until_printed};
use crate::support::*;

/// Joins pages as docs/cli.md describes it.
#[derive(Default)]
struct JoinedPages {
    text: String,
    is_partial: bool,
    next_byte: u64,
    next_line: u64,
}

impl JoinedPages {
    fn add_by_byte(&mut self, page: &Value) {
        if page["lines"] != 0 {
            let continues = self.is_partial && page["from_byte"] == self.next_byte;
            if !self.text.is_empty() && !continues {
                self.text.push('\n');
            }
            self.text += page["output"].as_str().unwrap();
            self.is_partial = page["partial"] == true;
        }
        (self.next_byte, self.next_line) = (page["next_byte"].as_u64().unwrap(), page["next_line"].as_u64().unwrap());
    }

    /// A last line without an end comes again with the next page.
    fn add_by_line(&mut self, page: &Value) {
        let lines = page["lines"].as_u64().unwrap() as usize - usize::from(page["partial"] == true);
        for line in page["output"].as_str().unwrap().split('\n').take(lines) {
            self.text += line;
            self.text.push('\n');
        }
        self.next_line = page["next_line"].as_u64().unwrap();
    }
}

/// Reads pages of two lines until the end that the log has now.
fn read_on(p: &Product, id: &str, flag: &str, joined: &mut JoinedPages) -> Value {
    loop {
        let from = if flag == "--offset" { joined.next_line } else { joined.next_byte };
        let page = p.json(["log", id, flag, &from.to_string(), "--limit", "2"]);
        if flag == "--offset" {
            joined.add_by_line(&page)
        } else {
            joined.add_by_byte(&page)
        }
        if page["at_end"] == true {
            return page;
        }
    }
}

#[test]
fn pages_of_a_log_that_grows_in_mid_line_are_joined_to_what_was_printed() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    let steps = ["one\\ntw", "o\\n\\nthr", "ee", "\\nfour\\n", "five\\nsix\\nseven\\nno end"];
    let line: String = steps.iter().map(|step| format!("printf '{step}'; {}; ", gate.wait())).collect();
    let id = p.run(&line);
    let (mut by_byte, mut by_line) = (JoinedPages::default(), JoinedPages::default());
    let mut printed = String::new();
    for step in steps {
        printed += &step.replace("\\n", "\n");
        until_printed(&p, &id, &printed);
        for (flag, joined) in [("--from-byte", &mut by_byte), ("--offset", &mut by_line)] {
            let last = read_on(&p, &id, flag, joined);
            let open = !printed.ends_with('\n');
            assert_eq!(last.get("partial"), open.then_some(&json!(true)), "{last}");
            let complete = printed.matches('\n').count();
            assert_eq!((&last["next_line"], &last["next_byte"]), (&json!(complete), &json!(printed.len())), "{last}");
        }
        assert_eq!(by_byte.text, printed.strip_suffix('\n').unwrap_or(&printed));
        assert_eq!(by_line.text, printed[..=printed.rfind('\n').unwrap()]);
        gate.open();
    }
    p.wait(&id);
    // An empty page changes nothing, and a last line without an end keeps it so.
    let last = read_on(&p, &id, "--from-byte", &mut by_byte);
    assert_eq!((&last["lines"], &last["next_line"]), (&json!(0), &json!(8)), "{last}");
    assert_eq!((by_byte.text.as_bytes(), by_byte.is_partial), (p.call(["log", &id, "--raw"]).good().out.as_slice(), true));
}

#[test]
fn a_line_longer_than_a_page_is_partial_until_its_last_page() {
    let p = product();
    let id = p.run("head -c 450000 /dev/zero | tr '\\0' x; echo end");
    p.wait(&id);
    let mut joined = JoinedPages::default();
    let partial: Vec<bool> = std::iter::from_fn(|| {
        let page = p.json(["log", &id, "--from-byte", &joined.next_byte.to_string()]);
        joined.add_by_byte(&page);
        (page["lines"] != 0).then_some(page["partial"] == true)
    })
    .collect();
    assert_eq!((partial.as_slice(), joined.text.len()), (&[true, true, false][..], 450_003));
}

#[test]
fn a_search_in_json_covers_everything_unless_a_range_is_given() {
    let p = product();
    let id = numbers(&p, 100_000);
    let found = p.json(["log", &id, "--grep", "^77"]);
    let sevens: Vec<String> = (0..100_000).filter(|n| n.to_string().starts_with("77")).map(|n| n.to_string()).collect();
    assert_eq!((&found["matched"], found["output"].as_str().unwrap()), (&json!(sevens.len()), sevens.join("\n").as_str()));
    let whole = [&found["first_line"], &found["lines"], &found["total_lines"], &found["next_line"]];
    assert_eq!(whole, [&json!(0), &json!(100_000), &json!(100_000), &json!(100_000)], "{}", found["showing"]);
    assert_eq!((&found["at_end"], &found["showing"]), (&json!(true), &json!("100000 lines")));
    let ranged = p.json(["log", &id, "--grep", "[05]$", "-n", "10"]);
    assert_eq!((&ranged["matched"], &ranged["output"], &ranged["lines"]), (&json!(2), &json!("99990\n99995"), &json!(10)), "{ranged}");
    let from = p.json(["log", &id, "--grep", "^5", "--offset", "99990"]);
    assert_eq!((&from["matched"], &from["output"], &from["showing"]), (&json!(0), &json!(""), &json!("10 lines")), "{from}");
    let one = p.json(["log", &id, "--grep", "9", "--offset", "99999"]);
    assert_eq!((&one["matched"], &one["showing"]), (&json!(1), &json!("1 line")), "{one}");
}

#[test]
fn a_search_that_finds_more_than_a_page_says_where_to_continue() {
    let p = product();
    let id = numbers(&p, 100_000);
    let (mut line, mut read, mut answers) = (0, Vec::new(), 0);
    loop {
        let found = p.json(["log", &id, "--grep", ".", "--offset", &line.to_string()]);
        read.extend(found["output"].as_str().unwrap().lines().map(str::to_owned));
        (line, answers) = (found["next_line"].as_u64().unwrap(), answers + 1);
        assert_eq!(line, read.len() as u64);
        if found["at_end"] == true {
            break;
        }
    }
    assert!(answers > 1 && read.join("\n") == lines(0, 100_000), "{answers} answers, {} lines", read.len());
}

#[test]
fn the_answer_of_a_wait_has_as_much_of_the_output_as_a_page() {
    let p = product();
    let whole = format!("{}\n", lines(0, 5_000));
    let run = p.json(["run", "--wait", "seq 0 4999"]);
    let id = run["id"].as_str().unwrap();
    let gate = Gate::new(&p, "gate");
    let runs = p.run(&format!("seq 0 4999; {}", gate.wait()));
    until_printed(&p, &runs, "\n4999\n");
    for answer in [&run, &p.wait(id), &p.json(["wait", id, id, &p.run("true")])["processes"][0], &p.json(["kill", &runs])] {
        assert_eq!((answer["output"].as_str(), answer.get("output_cut"), answer.get("from_byte")), (Some(whole.as_str()), None, None));
    }
    // What is left out is read with `log --from-byte 0` up to `from_byte`.
    let id = numbers(&p, 50_000);
    let answer = p.wait(&id);
    let (shown, from) = (answer["output"].as_str().unwrap(), answer["from_byte"].as_u64().unwrap() as usize);
    assert!(shown.len() <= 200_000 && format!("{}\n", lines(0, 50_000))[from..] == *shown, "{} from {from}", shown.len());
    assert_eq!(answer["output_cut"], from);
}

#[test]
fn raw_bytes_are_refused_in_json() {
    let p = product();
    let refused = p.call(["log", "--json", "--raw", &numbers(&p, 1)]);
    assert_eq!((refused.code, &refused.json()["code"]), (Some(2), &json!("usage")));
}
