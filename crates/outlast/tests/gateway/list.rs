//! `outlast list` in a home with conversations.

use crate::support::*;

#[test]
fn the_agent_of_a_conversation_is_listed_by_its_own_command() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("busy", &agent).turn;
    bench.wait_for_prompts(1);
    let text = |args: &[&str]| bench.product().call(args).good().text();
    assert_eq!(text(&["list"]), "", "people look for what was started, and not for our own");
    let all = text(&["list", "--all"]);
    let [head, line] = all.lines().collect::<Vec<_>>()[..] else { panic!("{all}") };
    assert!(head.contains("CHAT") && line.contains("  main  agent  /bin/sh -c "), "{all}");
    assert!(line.contains("words=$(cat)") && !line.contains("OUTLAST"), "{all}");
    let listed = bench.product().json(["list"]);
    assert_eq!((&listed["processes"][0]["conversation"], &listed["processes"][0]["is_agent"]), (&"main".into(), &true.into()), "{listed}");
    bench.open_gate();
    bench.wait(turn);
}
