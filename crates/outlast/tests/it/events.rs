//! `events`: taken, settled, drained, followed, posted, listed, replayed.

use crate::gate::Held;
use crate::person::Person;
use crate::support::*;
use crate::told::*;
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::{Child, ChildStdout, Stdio};

fn post(p: &Product, session: &str, event: &Value) -> Value {
    p.json(["events", "post", "--session", session, &event.to_string()])
}

fn posted(p: &Product, session: &str, n: u64) -> String {
    post(p, session, &json!({"type": "note", "n": n}))["event"]["event_id"].as_str().unwrap().to_owned()
}

fn numbers(notices: &Value) -> Vec<u64> {
    notices.as_array().unwrap().iter().map(|told| told["event"]["n"].as_u64().unwrap()).collect()
}

#[test]
fn a_leased_notice_has_one_taker_until_the_lease_ends_or_it_is_settled() {
    let p = product();
    let names: Vec<String> = (0..4).map(|n| posted(&p, "s", n)).collect();
    let given = p.json(["events", "next", "--session", "s", "--limit", "2", "--lease", "60"]);
    assert_eq!(numbers(&given["notices"]), [0, 1], "{given}");
    let word = given["lease"].as_str().unwrap();
    for told in given["notices"].as_array().unwrap() {
        assert_eq!((&told["state"], &told["attempts"], told["lease"].as_str()), (&json!("leased"), &json!(1), Some(word)), "{told}");
    }
    let text = given["text"].as_str().unwrap();
    assert!(text.starts_with("[IMPORTANT: 2 background notices arrived together"), "{text}");
    let third = p.json(["events", "next", "--session", "s"]);
    assert_eq!(numbers(&third["notices"]), [2]);
    // By name or by number, with the word or without, more than once.
    p.call(["events", "ack", "--session", "s", "--lease", word, &names[0]]).good();
    p.call(["events", "ack", "--session", "s", &names[0]]).good();
    let second = given["notices"][1]["event"]["seq"].as_u64().unwrap().to_string();
    p.call(["events", "drop", "--session", "s", "--reason", "of no use", &second]).good();
    p.call(["events", "release", "--session", "s", "--lease", third["lease"].as_str().unwrap(), &names[2]]).good();
    let after = p.json(["events", "next", "--session", "s", "--limit", "9"]);
    assert_eq!(numbers(&after["notices"]), [2, 3]);
    // A release with the lease token proves that it was not delivered. Without the token the next delivery may be a repeat.
    assert!(after["notices"][0]["event"].get("repeat").is_none(), "{after}");
    p.call(["events", "release", "--session", "s", &names[3]]).good();
    assert_eq!(p.json(["events", "next", "--session", "s"])["notices"][0]["event"]["repeat"], true);
    let states: Vec<(String, String)> = history(&p, &["--session", "s"])
        .iter()
        .map(|t| (t["state"].as_str().unwrap().to_owned(), t["reason"].as_str().unwrap_or_default().to_owned()))
        .collect();
    let want = [("delivered", ""), ("dropped", "of no use"), ("leased", ""), ("leased", "")];
    assert_eq!(states, want.map(|(a, b)| (a.to_owned(), b.to_owned())));
    for bad in ["evt_000000000000000000000000", "nonsense", "9999"] {
        assert_eq!(p.call(["events", "ack", "--session", "s", bad]).code, Some(1), "{bad}");
    }
}

#[test]
fn a_lease_that_ends_without_a_word_gives_it_again_as_a_repeat() {
    let p = product();
    posted(&p, "s", 1);
    p.call(["events", "next", "--session", "s", "--lease", "0.3"]).good();
    assert_eq!(p.json(["events", "next", "--session", "s"])["notices"], json!([]));
    let again = p.json(["events", "next", "--session", "s", "--wait"]);
    assert_eq!((numbers(&again["notices"]), &again["notices"][0]["event"]["repeat"]), (vec![1], &json!(true)), "{again}");
}

#[test]
fn a_taker_waits_for_as_long_as_it_said() {
    let p = product();
    let began = std::time::Instant::now();
    assert_eq!(p.json(["events", "next", "--session", "s", "--wait", "0.3"])["notices"], json!([]));
    assert!(began.elapsed().as_millis() >= 300);
    let args = ["events", "next", "--json", "--session", "s", "--wait"];
    let taker = p.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // The wait survives the death of an engine.
    p.kill_engine();
    posted(&p, "other", 6);
    posted(&p, "s", 7);
    let said: Value = serde_json::from_slice(&taker.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(numbers(&said["notices"]), [7]);
    // An interrupt of the session ends its waits.
    let taker = p.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    eventually("a wait to interrupt", || (p.json(["interrupt", "--session", "s"])["count"] == 1).then_some(()));
    let said: Value = serde_json::from_slice(&taker.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(said["notices"], json!([]));
}

#[test]
fn a_taker_that_heard_of_others_can_still_be_interrupted() {
    let p = product();
    p.engine();
    let args = ["events", "next", "--json", "--session", "s", "--wait", "60"];
    let taker = p.command(args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    // What is for others wakes it as well. Nothing tells that it waits; if it does not yet, this shows less, and nothing wrong.
    for n in 0..20 {
        posted(&p, "other", n);
    }
    eventually("a wait to interrupt", || (p.json(["interrupt", "--session", "s"])["count"] == 1).then_some(()));
    let said: Value = serde_json::from_slice(&taker.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!(said["notices"], json!([]));
}

#[test]
fn a_drain_whose_output_cannot_be_written_gives_everything_back() {
    let p = product();
    let name = posted(&p, "s", 1);
    let state = || history(&p, &[])[0]["state"].as_str().unwrap().to_owned();
    // The reader of the pipe is gone.
    let unread = || {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        Stdio::from(writer)
    };
    for json in [&["--json"][..], &[]] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        for to in [Stdio::from(full), unread()] {
            let args = ["events", "drain", "--session", "s"].iter().chain(json);
            let refused: Answer = p.command(args).stdout(to).output().unwrap().into();
            assert_eq!((refused.code, state().as_str()), (Some(1), "pending"), "{refused:?}");
        }
    }
    // The same for one that takes.
    let status = p.command(["events", "next", "--session", "s"]).stdout(unread()).stderr(Stdio::null()).status().unwrap();
    assert_eq!((status.code(), state().as_str()), (Some(1), "pending"));
    let told = drained(&p, "s");
    assert_eq!((told[0]["event_id"].as_str(), told[0].get("repeat")), (Some(&*name), None), "{told:?}");
    assert_eq!(state(), "delivered");
}

#[test]
fn a_drain_is_one_object_in_order_and_bounded_if_asked() {
    let p = product();
    (0..5).for_each(|n| drop(posted(&p, "s", n)));
    let said = p.json(["events", "drain", "--session", "s", "--limit", "2"]);
    let n = |said: &Value| said["events"].as_array().unwrap().iter().map(|e| e["event"]["n"].as_u64().unwrap()).collect::<Vec<_>>();
    assert_eq!(n(&said), [0, 1]);
    assert_eq!(said["events"][0].as_object().unwrap().keys().collect::<Vec<_>>(), ["event", "text"]);
    assert_eq!(n(&p.json(["events", "drain", "--session", "s"])), [2, 3, 4]);
    assert_eq!(n(&p.json(["events", "drain", "--session", "s"])), [0; 0]);
}

#[test]
fn more_than_one_answer_holds_is_drained_all_the_same() {
    let p = product();
    let long = "x".repeat(200_000);
    for n in 0..12 {
        let event = json!({"type": "note", "n": n, "long": long}).to_string();
        let said = p.call_with_input(["events", "post", "--session", "s", "-"], event.as_bytes());
        assert_eq!(said.code, Some(0), "{}", said.err);
    }
    let some = p.json(["events", "next", "--session", "s", "--limit", "1000"]);
    let given: Vec<&str> = some["notices"].as_array().unwrap().iter().map(|n| n["event"]["event_id"].as_str().unwrap()).collect();
    assert!((1..12).contains(&given.len()), "{given:?}");
    p.call(["events", "release", "--session", "s"].iter().chain(&given)).good();
    assert_eq!(drained(&p, "s").len(), 12);
    // Looking on has no such bound, and a history says where it stopped by what it shows last.
    assert!(!history(&p, &["--after", "0", "--limit", "1000"]).is_empty());
}

/// An event with this many objects and lists inside each other.
fn nested(levels: usize, inmost: &str) -> String {
    let (open, close) = ("[".repeat(levels - 1), "]".repeat(levels - 1));
    format!(r#"{{"type": "note", "n": 1, "deep": {open}{inmost}{close}}}"#)
}

#[test]
fn a_post_that_a_reader_would_choke_on_is_refused() {
    let p = product();
    for levels in [65, 100, 124, 125, 126] {
        let refused = p.call_with_input(["events", "post", "--json", "--session", "s", "-"], nested(levels, "").as_bytes());
        assert_eq!((refused.code, &refused.json()["code"]), (Some(1), &json!("bad_request")), "{levels}: {refused:?}");
        assert!(refused.json()["error"].as_str().unwrap().contains(&format!("{levels} deep")), "{levels}: {refused:?}");
    }
    assert!(history(&p, &[]).is_empty());
    p.call_with_input(["events", "post", "--session", "s", "-"], nested(64, "").as_bytes()).good();
    assert_eq!((history(&p, &[]).len(), drained(&p, "s").len()), (1, 1));
}

#[test]
fn a_post_whose_text_would_be_far_longer_than_itself_stops_no_reader() {
    let p = product();
    let ones = "1,".repeat(120_000);
    let goal = "g".repeat(120_000);
    let same = r#"{"task_index":0},"#.repeat(7_000);
    let events = [
        nested(60, ones.trim_end_matches(',')),
        format!(r#"{{"type": "async_delegation", "n": 1, "results": [{}]}}"#, ones.trim_end_matches(',')),
        format!(r#"{{"type": "async_delegation", "n": 1, "goals": ["{goal}"], "results": [{}]}}"#, same.trim_end_matches(',')),
        // A bracket alone gets a backslash, and that another in JSON.
        format!(r#"{{"type": "note", "n": 1, "message": "{}"}}"#, "[".repeat(250_000)),
    ];
    for _ in 0..3 {
        for event in &events {
            p.call_with_input(["events", "post", "--session", "s", "-"], event.as_bytes()).good();
        }
    }
    let mut follower = Follower::new(&p, &["--from", "0"]);
    assert!((0..12).all(|_| follower.next()["event"]["n"] == 1));
    assert_eq!(follower.leaves(), Some(0));
    assert!(!history(&p, &["--after", "0", "--limit", "1000"]).is_empty());
    assert_eq!(drained(&p, "s").len(), 12);
}

#[test]
fn the_end_of_a_command_as_long_as_the_kernel_takes_is_told() {
    let p = product();
    // Each of these is four characters in a shell line, and five in JSON.
    let argument = "'".repeat(130_000);
    let command = std::iter::once("true").chain(std::iter::repeat_n(&*argument, 13));
    p.call(["run", "--notify", "--session", "s", "--"].into_iter().chain(command)).good();
    let told = p.json(["events", "drain", "--session", "s", "--wait", "60"]);
    let (event, text) = (&told["events"][0]["event"], told["events"][0]["text"].as_str().unwrap());
    assert_eq!(event["command"].as_str().unwrap().len(), 4 + 13 * (1 + 2 + 4 * 130_000));
    assert!(text.contains("Command: true '") && text.ends_with("\nOutput:\n]"), "{text:.100}");
    assert!(text.len() < 100_000 && text.contains(" characters of the command are not shown)\n"), "{}", text.len());
}

struct Follower {
    call: Child,
    out: BufReader<ChildStdout>,
}

impl Follower {
    fn new(p: &Product, flags: &[&str]) -> Self {
        let mut call = p.command(["events", "follow", "--json"].iter().chain(flags)).stdout(Stdio::piped()).spawn().unwrap();
        let out = BufReader::new(call.stdout.take().unwrap());
        Self { call, out }
    }

    fn next(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{e}: {line:?}"))
    }

    /// Ctrl-C.
    fn leaves(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_raw(self.call.id() as i32).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let code = self.call.wait().unwrap().code();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        code
    }
}

#[test]
fn a_follower_settles_nothing_and_survives_the_death_of_the_engine() {
    let p = product();
    posted(&p, "a", 0);
    let mut all = Follower::new(&p, &["--from", "0"]);
    assert_eq!(all.next()["event"]["n"], 0);
    let mut own = Follower::new(&p, &["--from", "1", "--session", "b"]);
    for n in 1..=6 {
        if n % 2 == 0 {
            p.kill_engine();
        }
        posted(&p, if n > 3 { "b" } else { "a" }, n);
        let told = all.next();
        assert_eq!((&told["event"]["n"], &told["state"]), (&json!(n), &json!("pending")), "{told}");
        if n > 3 {
            assert_eq!(own.next()["event"]["n"], n);
        }
    }
    assert_eq!((all.leaves(), own.leaves()), (Some(0), Some(0)));
    assert!(history(&p, &[]).iter().all(|told| told["state"] == "pending"));
    // From the middle, settled ones too.
    assert_eq!(drained(&p, "a").len(), 4);
    let third = history(&p, &[])[2]["event"]["seq"].as_u64().unwrap().to_string();
    let mut again = Follower::new(&p, &["--from", &third]);
    let told = again.next();
    assert_eq!((&told["event"]["n"], &told["state"]), (&json!(2), &json!("delivered")));
    for n in 3..=6 {
        assert_eq!(again.next()["event"]["n"], n);
    }
    assert_eq!(again.leaves(), Some(0));
}

#[test]
fn a_follower_misses_nothing_while_no_engine_runs() {
    let p = product();
    let before = ended(&p, "s", "true");
    let mut person = Person::calls(&p, &["events", "follow"]);
    person.sees("Ctrl-C leaves");
    // While it is held there is another engine, and the first notice since it came.
    let held = Held::new(person.pid());
    p.kill_engine();
    let id = ended(&p, "s", "true");
    drop(held);
    person.sees(&id);
    assert!(!person.seen.contains(&before), "{:?}", person.seen);
    person.types("\x03");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn a_follower_that_acknowledges_gets_each_notice_once() {
    let p = product();
    posted(&p, "a", 0);
    let mut follower = Follower::new(&p, &["--ack", "--session", "a", "--lease", "1"]);
    for n in 0..5 {
        assert_eq!(follower.next()["event"]["n"], n);
        eventually("its acknowledgement", || history(&p, &["--state", "leased"]).is_empty().then_some(()));
        if n % 2 == 0 {
            p.kill_engine();
        }
        posted(&p, "b", 100 + n);
        posted(&p, "a", n + 1);
    }
    assert_eq!(follower.next()["event"]["n"], 5);
    eventually("its acknowledgement", || history(&p, &["--session", "a", "--state", "delivered"]).get(5).cloned());
    assert_eq!(follower.leaves(), Some(0));
    assert_eq!(history(&p, &["--state", "pending"]).len(), 5);
    assert!(history(&p, &["--session", "a"]).iter().all(|told| told["attempts"] == 1));
}

#[test]
fn a_post_is_the_same_under_the_same_id() {
    let p = product();
    let event = r#"{"type": "deploy", "message": "done", "unknown": {"nested": [1, null]}}"#;
    let args = |event| ["events", "post", "--session", "s", "--id", "one", event];
    let first = p.json(args(event));
    assert_eq!((&first["existed"], &first["state"]), (&json!(false), &json!("pending")), "{first}");
    assert_eq!(first["event"]["unknown"], json!({"nested": [1, null]}), "{first}");
    p.kill_engine();
    let again = p.json(args(event));
    assert_eq!((&again["existed"], &again["event"]), (&json!(true), &first["event"]), "{again}");
    let other = p.call(["--json"].iter().chain(&args(r#"{"type": "deploy", "message": "failed"}"#)));
    assert_eq!((other.code, &other.json()["code"]), (Some(1), &json!("id_taken")), "{other:?}");
    // An id is its conversation's own, and delivered or not it stays the same.
    assert_eq!(p.json(["events", "post", "--session", "t", "--id", "one", event])["existed"], false);
    assert_eq!(drained(&p, "s").len(), 1);
    assert_eq!(p.json(args(event))["existed"], true);
    assert_eq!(drained(&p, "s"), [Value::Null; 0]);
}

#[test]
fn what_is_posted_with_a_route_is_followed_and_can_be_posted_again() {
    let p = product();
    let mut follower = Follower::new(&p, &["--from", "0"]);
    let post = || {
        let args = ["events", "post", "--session", "s", "--id", "one", "--route", "platform=irc", "--route", "chat=#dev"];
        p.json(args.iter().chain(&[r##"{"type": "note", "n": 1, "thread_id": 9}"##]))
    };
    assert_eq!(post()["existed"], false);
    let told = follower.next();
    let where_ = ["platform", "chat_id", "thread_id"].map(|field| told["event"][field].as_str().unwrap());
    assert_eq!((&told["event"]["n"], where_), (&json!(1), ["irc", "#dev", "9"]), "{told}");
    assert_eq!(follower.leaves(), Some(0));
    let again = post();
    assert_eq!((&again["existed"], &again["event"]), (&json!(true), &told["event"]), "{again}");
    // The same for another place is something else.
    let elsewhere = p.json(["events", "post", "--session", "s", "--id", "one", r##"{"type": "note", "n": 1}"##]);
    assert_eq!(elsewhere["code"], "id_taken", "{elsewhere}");
    assert_eq!(drained(&p, "s").len(), 1);
}

#[test]
fn case_233_a_secret_is_masked_in_what_is_posted() {
    let p = product();
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let event = json!({
        "type": "async_delegation", "delegation_id": "deleg_1", "summary": format!("it is {secret}"), secret: 1,
        "deep": [{"in": [secret, "plain", 7, null]}], "chat_id": "+491701234567",
    });
    let post = || p.json(["events", "post", "--session", "s", "--id", "one", &event.to_string()]);
    let first = post();
    assert_eq!((&first["existed"], &first["event"]["deep"][0]["in"][1]), (&json!(false), &json!("plain")), "{first}");
    // The place of the owner is not a secret to the taker, which has to answer there.
    assert_eq!(first["event"]["chat_id"], "+491701234567", "{first}");
    assert_eq!(post()["existed"], true);
    let told = p.call(["events", "drain", "--json", "--session", "s"]).good().text();
    let all = format!("{first}{told}{:?}", history(&p, &[]));
    assert!(told.contains("it is ghp_01...wxyz") && !all.contains(secret), "{all}");
    for file in std::fs::read_dir(&p.home().root).unwrap().flatten().filter(|f| f.file_name().to_string_lossy().starts_with("index.db")) {
        let bytes = std::fs::read(file.path()).unwrap();
        assert!(!bytes.windows(secret.len()).any(|w| w == secret.as_bytes()), "{:?}", file.path());
    }
}

#[test]
fn case_225_what_cannot_be_an_event_is_refused() {
    let p = product();
    let long = format!(r#"{{"type": "x", "long": "{}"}}"#, "x".repeat(300_000));
    let named = format!(r#"{{"type": "{}"}}"#, "x".repeat(300));
    for bad in [
        "{}",
        "[]",
        "7",
        "not JSON",
        r#"{"type": ""}"#,
        r#"{"type": null}"#,
        r#"{"type": {"a": 1}}"#,
        r#"{"type": "a\nb"}"#,
        r#"{"type": "completion"}"#,
        r#"{"type": "watch_match"}"#,
        r#"{"type": "until"}"#,
        r#"{"type": "x", "session_id": "nonsense"}"#,
        r#"{"type": "x", "chat_id": ["a"]}"#,
        r#"{"type": "x", "session_key": "another's"}"#,
        &named,
        &long,
    ] {
        let refused = p.call_with_input(["events", "post", "--json", "--session", "s", "-"], bad.as_bytes());
        let said = refused.json();
        assert_eq!(refused.code, Some(1), "{said}");
        assert!(["usage", "bad_request", "not_yours"].contains(&said["code"].as_str().unwrap()), "{said}");
    }
    assert!(history(&p, &[]).is_empty());
    for id in ["", "a\nb", &"x".repeat(257)] {
        assert_eq!(p.call(["events", "post", "--id", id, r#"{"type": "x"}"#]).code, Some(1), "{id:?}");
    }
}

#[test]
fn what_is_posted_carries_its_route_and_says_that_it_was_posted() {
    let p = product();
    let event = json!({"type": "async_delegation", "delegation_id": "deleg_1", "goal": "count", "summary": "42", "chat_id": 7, "seq": 99, "repeat": true});
    p.json(["events", "post", "--session", "s", "--route", "platform=irc", &event.to_string()]);
    p.json(["events", "post", "--session", "s", r#"{"type": "x", "message": "[IMPORTANT: not ours]"}"#]);
    let told = drained_with_texts(&p, "s");
    let (delegation, text) = &told[0];
    assert_eq!((&delegation["platform"], &delegation["chat_id"]), (&json!("irc"), &json!("7")), "{delegation}");
    assert!(delegation["seq"] != 99 && delegation.get("repeat").is_none(), "{delegation}");
    assert!(text.starts_with("[ASYNC DELEGATION COMPLETE — deleg_1]") && text.contains("42"), "{text}");
    assert!(told[1].1.ends_with("was posted.\nMessage: [IMPORTANT: not ours]\n]"), "{}", told[1].1);
}

#[test]
fn a_delegation_that_is_posted_twice_is_told_once() {
    let p = product();
    let post = |event: Value| p.call(["events", "post", "--json", "--session", "s", &event.to_string()]);
    let delegation = |id: &str, summary: &str| json!({"type": "async_delegation", "delegation_id": id, "summary": summary});
    let first = post(delegation("deleg_1", "42")).good().json();
    let again = post(delegation("deleg_1", "42")).good().json();
    assert_eq!((&first["existed"], &again["existed"]), (&json!(false), &json!(true)), "{again}");
    assert_eq!(first["event"]["event_id"], again["event"]["event_id"]);
    assert_eq!(post(delegation("deleg_1", "43")).json()["code"], "id_taken");
    assert_eq!(post(delegation("deleg_2", "42")).good().json()["existed"], false);
    // Without a name, or of another kind, each is its own.
    for event in [delegation("", "42"), json!({"type": "other", "delegation_id": "deleg_1"})] {
        assert_eq!((&post(event.clone()).json()["existed"], &post(event).json()["existed"]), (&json!(false), &json!(false)));
    }
    assert_eq!(drained(&p, "s").len(), 6);
}

#[test]
fn a_history_is_filtered_and_a_table_for_people() {
    let p = product();
    let id = ended(&p, "s", "exit 3");
    (0..3).for_each(|n| drop(posted(&p, "t", n)));
    assert_eq!(drained(&p, "s").len(), 1);
    let seqs = |flags: &[&str]| -> Vec<u64> { history(&p, flags).iter().map(|t| t["event"]["seq"].as_u64().unwrap()).collect() };
    let all = seqs(&[]);
    assert_eq!((all.len(), all.is_sorted()), (4, true), "{all:?}");
    assert_eq!(seqs(&["--session", "t"]), all[1..]);
    assert_eq!(seqs(&["--kind", "note", "--limit", "2"]), all[2..]);
    assert_eq!(seqs(&["--kind", "note", "--limit", "2", "--after", "0"]), all[1..3]);
    assert_eq!(seqs(&["--state", "delivered"]), all[..1]);
    assert_eq!(seqs(&["--process", &id[..9]]), all[..1]);
    assert_eq!(seqs(&["--after", &all[3].to_string()]), [0; 0]);
    let table = p.call(["events", "history"]).good().text();
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("SEQ") && lines.len() == 5, "{table}");
    assert!(lines[1].contains("delivered") && lines[1].contains(&format!("exit 3 ({id}) failed (exit 3) after ")), "{table}");
    for bad in [&["--state", "gone"][..], &["--process", "ffff"], &["--limit", "0"], &["--limit", "1001"]] {
        assert_ne!(p.call(["events", "history"].iter().chain(bad)).code, Some(0), "{bad:?}");
    }
}

#[test]
fn what_was_delivered_can_be_offered_again() {
    let p = product();
    let id = ended(&p, "s", "true");
    posted(&p, "s", 1);
    posted(&p, "t", 2);
    let told = drained(&p, "s");
    assert_eq!((told.len(), drained(&p, "t").len()), (2, 1));
    assert_eq!(p.json(["events", "replay", "--session", "s", "--from", "1"])["count"], 2);
    assert_eq!(p.json(["events", "consumed", &id])["consumed"], false);
    let again = drained(&p, "s");
    assert_eq!(again.len(), 2);
    assert!(again.iter().zip(&told).all(|(b, a)| a["event_id"] == b["event_id"] && b["repeat"] == true), "{again:?}");
    assert_eq!(drained(&p, "t"), [Value::Null; 0]);
    assert_eq!(p.json(["events", "replay", "--from", "9999"])["count"], 0);
    assert_eq!(p.json(["events", "replay", "--dead"])["count"], 0);
    assert_eq!(p.json(["events", "dead"])["letters"], json!([]));
}

#[test]
fn huge_empty_and_broken_patterns_are_refused_before_anything_runs() {
    let p = product();
    let huge = "x".repeat(1025);
    for bad in ["", "two\nlines", &huge, "\u{1b}[31mred", "\u{9b}31mred", "100%\rdone", "bell\u{7}"] {
        let refused = p.call(["run", "--json", "--watch", "fine", "--watch", bad, "--", "touch ran"]);
        assert_eq!((refused.code, &refused.json()["code"]), (Some(125), &json!("bad_spec")), "{refused:?}");
        assert!(refused.json()["error"].as_str().unwrap().contains("watch pattern 2"), "{refused:?}");
    }
    let many: Vec<&str> = std::iter::repeat_n(["--watch", "x"], 257).flatten().collect();
    assert_eq!(p.json(["run"].iter().chain(&many).chain(&["--", "touch ran"]))["code"], "bad_spec");
    for bad in ["chat=", &format!("chat={}", "x".repeat(257)), "user=a\u{7}"] {
        assert_eq!(p.json(["run", "--notify", "--route", bad, "--", "touch ran"])["code"], "bad_spec", "{bad:?}");
    }
    assert!(!p.work().join("ran").exists());
    assert_eq!(p.json(["list", "--all"])["processes"], json!([]));
    // A tab is text.
    let tabbed = p.run_with(&["--watch", "a\tb", "--session", "s"], "printf 'a\\tb\\n'");
    p.wait(&tabbed);
    assert_eq!(history(&p, &["--process", &tabbed, "--kind", "watch_match"]).len(), 1);
}

#[test]
fn an_id_that_is_used_again_must_want_to_be_told_the_same() {
    let p = product();
    let run = |flags: &[&str]| p.json(["run", "--id", "proc_0123456789ab"].iter().chain(flags).chain(&["--", "true"]));
    let first = run(&["--notify", "--watch", "a"]);
    assert_eq!(first["session_id"], "proc_0123456789ab", "{first}");
    assert_eq!(run(&["--notify", "--watch", "a"])["session_id"], "proc_0123456789ab");
    for other in [&["--notify"][..], &["--notify", "--watch", "b"], &["--watch", "a"], &["--notify", "--watch", "a", "--route", "chat=1"]] {
        assert_eq!(run(other)["code"], "id_taken", "{other:?}");
    }
}
