//! `outlast doctor` in a home with conversations.

use crate::support::*;
use serde_json::Value;

/// What it says of the gateway: state and words of each check.
fn checks(bench: &Bench) -> Vec<(String, String)> {
    let answer = bench.product().call(["doctor", "--quick", "--json"]).json();
    let text = |check: &Value, name: &str| check[name].as_str().unwrap_or_default().to_owned();
    let all = answer["checks"].as_array().unwrap_or_else(|| panic!("{answer}"));
    all.iter().filter(|check| check["name"] == "gateway").map(|check| (text(check, "state"), text(check, "what"))).collect()
}

fn stop(bench: &Bench) {
    bench.product().call(["gateway", "stop", "--timeout", "0"]).good();
    bench.ended();
}

#[test]
fn doctor_names_what_the_gateway_cannot_read() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let pid = bench.pid();
    assert_eq!(checks(&bench), [("ok".into(), format!("runs as pid {pid}"))]);
    stop(&bench);
    assert_eq!(checks(&bench), [("ok".into(), "does not run, and all that it remembers can be read".into())]);
    bench.sql("UPDATE turn SET state = 'jumping'; UPDATE part SET body = '{' WHERE id = 1");
    let found = checks(&bench);
    let [(state, turn), (_, part)] = &found[..] else { panic!("{found:?}") };
    assert!(state == "degraded" && turn.starts_with("a row of turns cannot be read (1):"), "{found:?}");
    assert!(part.starts_with("a row of parts cannot be read (1):"), "{found:?}");
    // A gateway that runs knows itself what it has skipped.
    bench.start();
    let found = checks(&bench);
    assert!(
        matches!(&found[..], [(state, what)] if state == "degraded" && what.starts_with("a row of turns cannot be read (1):")),
        "{found:?}"
    );
    stop(&bench);
    assert_eq!(bench.word(), "stopped", "a look leaves the lock as it is");
}

#[test]
fn doctor_says_why_a_gateway_cannot_be_started() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    stop(&bench);
    bench.sql("PRAGMA user_version = 1000");
    let found = checks(&bench);
    assert!(matches!(&found[..], [(state, what)] if state == "broken" && what.contains("was written by a newer version")), "{found:?}");
    let database = bench.home().join("gateway.db");
    std::fs::write(&database, "this was a database once, and is long enough to be looked at".repeat(100)).unwrap();
    let found = checks(&bench);
    assert!(matches!(&found[..], [(state, what)] if state == "broken" && what.contains("not a database")), "{found:?}");
    std::fs::remove_file(&database).unwrap();
    assert_eq!(checks(&bench), [], "there are no conversations");
}

#[test]
fn doctor_names_an_agent_that_is_configured_wrong() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    stop(&bench);
    bench.product().configure("[gateway.agents.mine]\nargv = \"one word\"\n");
    let found = checks(&bench);
    assert!(matches!(&found[..], [(state, what)] if state == "broken" && what.contains("gateway.agents.mine")), "{found:?}");
    bench.product().configure("");
}
