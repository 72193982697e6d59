//! What becomes of notices in conversations: who is told, once, in whose words, and what a person sees.

use crate::support::{Bench, KEY, cat};
use outlast_client::{AgentChoice, Client, Owner, Shown, Take, TurnInfo, TurnKind, TurnOutcome, Verdict};
use outlast_testkit::product::{eventually, kill_and_wait, terminate};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Calls the command line in the conversation, as its agent does.
fn call(bench: &Bench, args: &[&str]) -> Value {
    let generation = bench.generation();
    let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", generation.as_str())];
    let out = bench.product().command([&args[..1], &["--json"], &args[1..]].concat()).envs(env).output().unwrap();
    serde_json::from_slice(&out.stdout).unwrap_or_else(|_| panic!("{args:?}: {out:?}"))
}

/// Starts a process of the conversation, and gives its id.
fn run(bench: &Bench, flags: &[&str], line: &str) -> String {
    let ran = call(bench, &[&["run"], flags, &["--", line]].concat());
    ran["session_id"].as_str().unwrap_or_else(|| panic!("{ran}")).to_owned()
}

/// The notices of the home that are in this state.
fn history(bench: &Bench, flags: &[&str]) -> Vec<Value> {
    bench.product().json([&["events", "history"], flags].concat())["notices"].as_array().unwrap().clone()
}

fn notices(shown: &Shown) -> Vec<&TurnInfo> {
    shown.turns.iter().filter(|turn| turn.kind == TurnKind::Notice).collect()
}

/// Waits until this many notices were answered, and returns the conversation.
fn answered(bench: &Bench, count: usize) -> Shown {
    bench.until("turns about notices", |shown| notices(shown).iter().filter(|turn| turn.is_finished()).count() >= count)
}

/// A conversation with one message in it, so that it is there.
fn opened(config: &str) -> Bench {
    let bench = Bench::configured(config);
    bench.wait(bench.send("hi", &cat()).turn);
    bench
}

fn fifo(bench: &Bench, name: &str) -> PathBuf {
    let path = bench.work().join(name);
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

/// Sends a message and waits for its answer: what was told before it has its turn by then.
fn settle(bench: &Bench) -> Shown {
    bench.wait(bench.send("anything else?", &cat()).turn);
    bench.show()
}

fn engine(bench: &Bench) -> Client {
    bench.block(Client::connect(&bench.to())).unwrap().with_owner(Owner::session(KEY))
}

#[test]
fn case_153_and_154_a_notice_goes_to_the_conversation_that_started_its_process_not_to_its_route() {
    let bench = opened("");
    run(&bench, &["--notify", "--route", "platform=telegram", "--route", "chat=42", "--route", "user=7"], "echo built");
    let shown = answered(&bench, 1);
    assert!(notices(&shown)[0].reply.as_deref().unwrap().contains("built"), "{shown:?}");
}

#[test]
fn case_159_what_the_agent_saw_by_wait_or_log_starts_no_turn() {
    let bench = opened("");
    let outlast = bench.product().program().display().to_string();
    for verb in ["wait", "log"] {
        let line = format!("id=$({outlast} run --notify -- 'echo seen'); {outlast} wait $id > /dev/null; {outlast} {verb} $id");
        let reply = bench.wait(bench.send("do it", &AgentChoice::Command(line)).turn).reply.unwrap();
        assert!(reply.contains("seen"), "{reply}");
    }
    eventually("both consumed", || (history(&bench, &["--state", "consumed"]).len() == 2).then_some(()));
    assert!(notices(&settle(&bench)).is_empty());
    assert!(bench.lines().is_empty(), "no message for people either: {:?}", bench.lines());
}

#[test]
fn case_160_what_the_agent_only_polled_is_told() {
    let bench = opened("");
    let outlast = bench.product().program().display().to_string();
    // The turn about the notice has the same agent, which starts nothing then: its process would be told, too.
    let line = format!(
        "words=$(cat); [ \"$words\" = 'do it' ] || exit 0; id=$({outlast} run --notify -- true); \
         until {outlast} poll --json $id | grep -q '\"status\":\"exited\"'; do :; done; echo polled"
    );
    assert_eq!(bench.wait(bench.send("do it", &AgentChoice::Command(line)).turn).reply.as_deref(), Some("polled"));
    assert_eq!(notices(&answered(&bench, 1)).len(), 1);
}

#[test]
fn case_162_a_stop_and_the_end_that_it_races_with_are_one_turn() {
    let bench = opened("");
    for _ in 0..3 {
        let gate = bench.work().join("race");
        assert!(Command::new("mkfifo").arg(&gate).status().unwrap().success());
        let id = run(&bench, &["--notify"], &format!("cat {}", gate.display()));
        // A person outside of the conversation stops it, while it is about to end.
        let mut stop = bench.product().command(["kill", &id]).spawn().unwrap();
        drop(std::fs::OpenOptions::new().write(true).custom_flags_nonblocking().open(&gate));
        stop.wait().unwrap();
        bench.product().wait(&id);
        std::fs::remove_file(&gate).unwrap();
    }
    assert_eq!(notices(&answered(&bench, 3)).len(), 3);
    assert_eq!(notices(&settle(&bench)).len(), 3);
}

#[test]
fn case_164_and_165_a_notice_that_is_offered_again_is_recognised_also_by_a_later_gateway() {
    let bench = opened("");
    run(&bench, &["--notify"], "echo once");
    answered(&bench, 1);
    let pid = bench.kill();
    bench.next_after(pid);
    bench.product().call(["events", "replay", "--from", "1"]).good();
    eventually("acknowledged again", || {
        let all = history(&bench, &[]);
        (all.len() == 1 && all[0]["state"] == "delivered" && all[0]["attempts"].as_u64() >= Some(2)).then_some(())
    });
    assert_eq!(notices(&settle(&bench)).len(), 1);
}

#[test]
fn case_166_a_long_output_is_told_from_the_start_of_a_line_and_as_cut() {
    let bench = opened("");
    run(&bench, &["--notify"], "for i in $(seq 1000); do echo line $i; done");
    let shown = answered(&bench, 1);
    let text = notices(&shown)[0].words.clone().unwrap();
    let (remark, output) = text.split_once("Output:\n").unwrap();
    assert!(remark.contains("characters of output before this were cut"), "{text}");
    assert!(output.lines().next().unwrap().starts_with("| line ") && output.contains("| line 1000"), "{text}");
}

#[test]
fn case_171_an_agent_learns_of_an_end_in_the_turn_that_started_the_process() {
    let bench = opened("");
    let outlast = bench.product().program().display().to_string();
    let line = format!("{outlast} run --notify -- 'echo built' > /dev/null; {outlast} events drain --wait 60");
    let reply = bench.wait(bench.send("build and go on", &AgentChoice::Command(line)).turn).reply.unwrap();
    assert!(reply.contains("completed normally") && reply.contains("built"), "{reply}");
    assert!(notices(&settle(&bench)).is_empty(), "what it was told needs no turn");
}

#[test]
fn case_172_after_new_an_end_wakes_no_one_and_is_told_to_the_person_and_kept() {
    let bench = opened("");
    let gate = fifo(&bench, "build");
    let id = run(&bench, &["--notify"], &format!("cat {}", gate.display()));
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    std::fs::write(&gate, "the result\n").unwrap();
    bench.until_line(&format!("A process ended (exit code 0): cat {} (of an earlier generation; the agent is not told)", gate.display()));
    assert!(notices(&settle(&bench)).is_empty());
    let dropped = history(&bench, &["--state", "dropped"]);
    assert!(dropped[0]["reason"].as_str().unwrap().contains("has ended"), "{dropped:?}");
    assert_eq!(dropped[0]["event"]["session_id"], json!(id));
    assert!(bench.product().call(["log", &id]).good().text().contains("the result"));
}

/// The agent of a conversation in another home that has the same name. The gateway took nothing any more, not even for its own processes, until `/new`.
#[test]
fn a_generation_that_the_gateway_did_not_make_silences_no_conversation() {
    let bench = opened("");
    let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", "7-1700000000000000")];
    let foreign = bench.product().command(["run", "--notify", "--", "echo foreign"]).envs(env).output().unwrap();
    assert!(foreign.status.success(), "{foreign:?}");
    run(&bench, &["--notify"], "echo own");
    let shown = answered(&bench, 1);
    let told = notices(&shown);
    assert!(told.len() == 1 && told[0].words.as_deref().unwrap().contains("own"), "{shown:?}");
    bench.until_line("A process ended (exit code 0): echo foreign (of an earlier generation; the agent is not told)");
    assert!(history(&bench, &["--state", "pending"]).is_empty(), "nothing has the engine start a gateway");
}

/// Our own hint for a row that cannot be read says to restore the database from a copy.
#[test]
fn a_conversation_whose_database_was_restored_from_a_copy_gets_its_notices() {
    let bench = opened("");
    let (file, copy) = (bench.home().join("gateway.db"), bench.work().join("kept.db"));
    let stop = || {
        bench.block(bench.chat().shutdown(None)).unwrap();
        bench.ended();
    };
    stop();
    std::fs::copy(&file, &copy).unwrap();
    let earlier = bench.start();
    let before = bench.generation();
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    bench.wait(bench.send("in the next generation", &cat()).turn);
    run(&bench, &["--notify"], "echo later");
    answered(&bench, 1);
    stop();
    for end in ["-wal", "-shm"] {
        // Gone after an orderly end.
        let _gone = std::fs::remove_file(format!("{}{end}", file.display()));
    }
    std::fs::copy(&copy, &file).unwrap();
    assert_ne!(bench.start(), earlier);
    assert_eq!(bench.generation(), before);
    run(&bench, &["--notify"], "echo restored");
    let shown = answered(&bench, 1);
    assert!(notices(&shown)[0].words.as_deref().unwrap().contains("restored"), "{shown:?}");
}

#[test]
fn case_174_what_was_to_be_told_is_told_although_gateway_and_engine_die_right_after_the_start() {
    let bench = opened("");
    let gate = fifo(&bench, "build");
    run(&bench, &["--notify"], &format!("cat {}", gate.display()));
    let engine = bench.product().engine();
    bench.kill();
    kill_and_wait(engine).unwrap();
    std::fs::write(&gate, "after all\n").unwrap();
    // The keeper of the process starts an engine, and that a gateway.
    let shown = answered(&bench, 1);
    assert!(notices(&shown)[0].words.as_deref().unwrap().contains("after all"), "{shown:?}");
}

#[test]
fn case_175_of_an_end_that_no_one_saw_both_say_that_the_exit_code_is_unknown() {
    let bench = opened("gateway.notices = 'result'\n");
    let mut sleeper = Command::new("sleep").arg("600").spawn().unwrap();
    let entry = json!([{"pid": sleeper.id(), "session_key": KEY, "command": "npm run dev", "notify_on_complete": true}]);
    let taken = bench.product().call_with_input(["adopt", "--json", "-"], entry.to_string().as_bytes()).json();
    assert_eq!(taken["adopted"].as_array().map(Vec::len), Some(1), "{taken}");
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    let shown = answered(&bench, 1);
    let text = notices(&shown)[0].words.clone().unwrap();
    assert!(text.contains("output was not kept") && text.contains("(exit code ?)") && !text.contains("None"), "{text}");
    let lines = bench.lines();
    assert!(lines[0].starts_with("A process was lost (its exit code is unknown): npm run dev"), "{lines:?}");
}

#[test]
fn case_177_and_178_and_180_a_match_wakes_the_idle_conversation_of_its_own_process_and_no_other() {
    let bench = opened("");
    let other = "agent:main:local:dm:other";
    bench.send_to(other, "hi", &cat());
    let gate = fifo(&bench, "server");
    let line = format!("echo ready; cat {}", gate.display());
    let mine = run(&bench, &["--watch", "ready"], &line);
    let theirs = bench.product().run_with(&["--watch", "ready", "--session", other], &line);
    let shown = answered(&bench, 1);
    assert!(notices(&shown)[0].words.as_deref().unwrap().contains(&mine), "{shown:?}");
    let shown =
        eventually("the other's turn", || bench.try_show(other).filter(|shown| notices(shown).iter().any(|turn| turn.is_finished())));
    let [notice] = notices(&shown)[..] else { panic!("{shown:?}") };
    assert!(notice.words.as_deref().unwrap().contains(&theirs), "{notice:?}");
    assert_eq!(notices(&bench.show()).len(), 1);
    assert!(bench.lines().iter().any(|line| line.starts_with("A process printed \"ready\": echo ready")), "{:?}", bench.lines());
    for id in [mine, theirs] {
        bench.product().call(["kill", &id]).good();
    }
}

#[test]
fn case_182_and_183_a_flood_is_told_to_its_conversation_as_a_message_of_its_own() {
    let bench = opened("[watch]\nburst = 1\nwindow_seconds = 20\nrest_seconds = 1\nlifetime = 0\n");
    for _ in 0..2 {
        run(&bench, &["--watch", "hit"], "echo hit");
    }
    let has = |shown: &Shown, text: &str| notices(shown).iter().any(|turn| turn.words.as_deref().is_some_and(|words| words.contains(text)));
    let shown = bench.until("trip and release", |shown| {
        has(shown, "Watch-pattern overflow")
            && has(shown, "Watch-pattern notifications resumed")
            && notices(shown).iter().all(|t| t.is_finished())
    });
    let about_floods: Vec<_> =
        notices(&shown).into_iter().filter(|turn| turn.words.as_deref().unwrap().contains("Watch-pattern")).collect();
    assert!(about_floods.iter().all(|turn| !turn.words.as_deref().unwrap().contains("exit code")), "{about_floods:?}");
    let lines = bench.lines();
    assert!(lines.iter().any(|line| line.contains("for a while none are reported")), "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("Watched lines are reported again. 1 were left out")), "{lines:?}");
}

#[test]
fn case_184_a_process_that_matches_too_often_is_told_of_once_and_so_is_its_end() {
    let bench = opened("[watch]\nspacing_seconds = 2\nstrikes = 1\nlifetime = 0\n");
    let id = run(&bench, &["--watch", "hit", "--notify"], "for i in $(seq 80); do echo hit $i; sleep 0.05; done; exit 3");
    bench.product().wait(&id);
    let told = |kind: &str| history(&bench, &["--kind", kind]);
    eventually("the end", || (told("completion").len() == 1).then_some(()));
    let count = history(&bench, &[]).len();
    let shown = answered(&bench, count);
    let disabled = notices(&shown).into_iter().filter(|turn| turn.words.as_deref().unwrap().contains("Watch patterns disabled")).count();
    let ends = notices(&shown).into_iter().filter(|turn| turn.words.as_deref().unwrap().contains("(exit code 3)")).count();
    assert_eq!((disabled, ends, told("watch_disabled").len()), (1, 1, 1));
    assert!(bench.lines().iter().any(|line| line.starts_with("A process is no longer watched")), "{:?}", bench.lines());
}

/// An end that was delivered silences what is still to be told of the process's lines.
#[test]
fn after_an_end_was_told_a_match_of_that_process_is_dropped() {
    let bench = opened("");
    bench.block(bench.chat().drain(None)).unwrap();
    run(&bench, &["--watch", "hit", "--notify"], "echo hit; exit 3");
    eventually("match and end", || (history(&bench, &["--state", "pending"]).len() == 2).then_some(()));
    // Another taker has the match while the gateway tells the end, and does not come back.
    let taken = bench.block(engine(&bench).take(&Take::default().limit(1).lease(Duration::from_secs(3)))).unwrap();
    assert_eq!(taken.notices[0].event.kind(), "watch_match");
    bench.block(bench.chat().undrain()).unwrap();
    let shown = answered(&bench, 1);
    assert!(notices(&shown)[0].words.as_deref().unwrap().contains("(exit code 3)"), "{shown:?}");
    let dropped = eventually("the match is dropped", || history(&bench, &["--state", "dropped"]).first().cloned());
    assert_eq!(dropped["reason"], "the end of the process was told already");
    assert_eq!(notices(&settle(&bench)).len(), 1);
}

#[test]
fn a_notice_that_was_leased_too_often_is_given_up_with_a_record() {
    let bench = opened("");
    bench.block(bench.chat().drain(None)).unwrap();
    run(&bench, &["--notify"], "echo deadly");
    eventually("the end", || (history(&bench, &["--state", "pending"]).len() == 1).then_some(()));
    let engine = engine(&bench);
    for _ in 0..5 {
        bench.block(async {
            let taken = engine.take(&Take::default()).await.unwrap();
            let told = &taken.notices[0];
            engine.settle(&[&told.event.event_id], told.lease.as_deref(), Verdict::Released).await.unwrap();
        });
    }
    bench.block(bench.chat().undrain()).unwrap();
    let shown = answered(&bench, 1);
    let notice = notices(&shown)[0];
    assert_eq!((notice.outcome.clone(), notice.why.as_deref()), (Some(TurnOutcome::Obsolete), Some("leased_too_often")));
    assert_eq!(bench.lines(), ["Recorded 1 notice that could not be processed after several attempts; no turn is started."]);
    assert_eq!(notice.reply, None);
}

#[test]
fn case_186_and_195_people_see_as_much_as_is_set_and_never_an_id_or_an_escape_code() {
    let line = "printf '\\033[31mred\\033[0m and proc_\\n'; exit 4";
    for (mode, is_shown, has_output) in [
        ("all", true, true),
        ("result", true, true),
        ("error", true, true),
        ("concise", true, true),
        ("loud", true, true),
        ("off", false, false),
    ] {
        let bench = opened(&format!("gateway.notices = '{mode}'\n"));
        let id = run(&bench, &["--notify"], line);
        let shown = answered(&bench, 1);
        assert!(notices(&shown)[0].words.as_deref().unwrap().contains(&id), "the agent is told in any case");
        let lines = bench.lines();
        assert_eq!(!lines.is_empty(), is_shown, "{mode}: {lines:?}");
        let text = lines.join("\n");
        assert_eq!(text.contains("\nred and proc_"), has_output, "{mode}: {text}");
        assert!(!text.contains(&id) && !text.contains('\u{1b}') && !text.contains("[IMPORTANT"), "{mode}: {text}");
    }
}

/// What an earlier generation left behind may be the first thing of it that the engine hears of.
#[test]
fn a_process_that_an_ended_generation_starts_late_silences_no_later_one() {
    let bench = opened("");
    let old = bench.generation();
    bench.block(bench.chat().start_anew(KEY)).unwrap();
    bench.wait(bench.send("anew", &cat()).turn);
    run(&bench, &["--notify"], "echo first");
    answered(&bench, 1);
    let env = [("OUTLAST_SESSION", KEY), ("OUTLAST_GENERATION", old.as_str())];
    assert!(bench.product().command(["run", "--notify", "--", "echo late"]).envs(env).output().unwrap().status.success());
    bench.until_line("A process ended (exit code 0): echo late (of an earlier generation; the agent is not told)");
    run(&bench, &["--notify"], "echo second");
    let shown = answered(&bench, 2);
    assert!(notices(&shown)[1].words.as_deref().unwrap().contains("echo second"), "{shown:?}");
}

trait Nonblocking {
    fn custom_flags_nonblocking(&mut self) -> &mut Self;
}

impl Nonblocking for std::fs::OpenOptions {
    fn custom_flags_nonblocking(&mut self) -> &mut Self {
        use std::os::unix::fs::OpenOptionsExt;
        // Without a reader, opening a FIFO otherwise would wait for ever.
        self.custom_flags(0o4000)
    }
}

#[test]
fn a_notice_whose_taker_died_starts_a_gateway_when_its_lease_ends() {
    let bench = opened("");
    bench.block(bench.chat().drain(None)).unwrap();
    run(&bench, &["--notify"], "echo built");
    eventually("the end", || (history(&bench, &["--state", "pending"]).len() == 1).then_some(()));
    let taken = bench.block(engine(&bench).take(&Take::default().lease(Duration::from_secs(3)))).unwrap();
    assert_eq!(taken.notices.len(), 1);
    terminate(bench.pid());
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(1), ""));
    let shown = answered(&bench, 1);
    assert!(notices(&shown)[0].words.as_deref().unwrap().contains("(this may be a repeat)"), "{shown:?}");
}
