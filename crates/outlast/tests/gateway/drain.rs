//! The end of a gateway: drain, marks, exit codes, idleness.

use crate::support::{Bench, KEY, cat};
use outlast_client::{AgentChoice, Chat, TurnOutcome, TurnState};
use outlast_testkit::product::{PATIENCE, Product, eventually, terminate, wait_for_end};
use outlast_wire::v1::Done;
use outlast_wire::v1::chat::ChatRequest;
use rustix::process::{Pid, Signal, kill_process};
use std::process::Stdio;
use std::time::Duration;

#[test]
fn a_stop_waits_for_the_turn_and_stays_stopped() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("work", &agent).turn;
    bench.wait_for_prompts(1);
    let stopping = bench.spawn({
        let chat = bench.chat();
        async move { chat.shutdown(None).await }
    });
    bench.until_line("shutting down");
    let late = bench.send("kept", &agent);
    assert!(late.note.unwrap().contains("will be answered when the gateway is started again"));
    bench.open_gate();
    bench.block(stopping).unwrap().unwrap();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"));
    // The engine does not start it again; a person does, and the message is answered.
    bench.start();
    assert_eq!((bench.word().as_str(), bench.wait(turn).outcome), ("at work", Some(TurnOutcome::Completed)));
    bench.wait_for_prompts(2);
    bench.open_gate();
    assert_eq!(bench.wait(late.turn).reply.as_deref(), Some("did: kept"));
}

#[test]
fn a_gateway_that_the_engine_was_starting_when_a_person_stopped_it_stays_away() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let points = bench.product().points();
    points.arm("gateway.before_lock").unwrap();
    bench.kill();
    // The engine has decided, and its gateway has not taken the lock yet.
    let late = eventually("the engine's gateway", || points.held("gateway.before_lock"));
    bench.start();
    bench.block(bench.chat().shutdown(None)).unwrap();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"));
    points.release("gateway.before_lock").unwrap();
    assert!(wait_for_end(late, PATIENCE), "{}", bench.log());
    assert_eq!((bench.word().as_str(), bench.try_pid()), ("stopped", None));
}

/// A client whose gateway found another one at work, which died in that moment, once gave up.
#[test]
fn a_client_starts_another_gateway_if_the_one_that_was_first_is_gone() {
    let bench = Bench::stopped(Product::new(env!("CARGO_BIN_EXE_outlast")));
    let points = bench.product().points();
    points.arm("gateway.before_lock").unwrap();
    points.arm("gateway.taken").unwrap();
    let mut call = bench.product().command(["chat", "send", "main", "hello", "--command", "cat", "--wait"]);
    let client = call.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the client's gateway", || points.held("gateway.before_lock"));
    bench.start();
    points.release("gateway.before_lock").unwrap();
    eventually("it found the other one", || points.held("gateway.taken"));
    // The engine starts another one, which comes too late.
    points.arm("gateway.before_lock").unwrap();
    bench.kill();
    eventually("the engine's gateway", || points.held("gateway.before_lock"));
    points.release("gateway.taken").unwrap();
    let said = client.wait_with_output().unwrap();
    assert_eq!((said.status.code(), String::from_utf8_lossy(&said.stdout).as_ref()), (Some(0), "hello\n"), "{said:?}");
    points.release("gateway.before_lock").unwrap();
}

#[test]
fn case_091_a_drain_that_times_out_marks_the_turn_and_the_next_gateway_resumes_it() {
    let bench = Bench::configured("[gateway]\ndrain_timeout_seconds = 0.3\n");
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    bench.block(bench.chat().shutdown(Some(Duration::from_millis(300)))).unwrap();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"));
    assert!(bench.product().json(["list"])["processes"].as_array().unwrap().is_empty(), "the agent was stopped");
    bench.start();
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[1].contains("interrupted by a gateway shutdown"), "{prompts:?}");
    bench.open_gate();
    let ended = bench.wait(turn);
    assert_eq!(
        (ended.outcome, ended.attempt, ended.interrupt_reason.as_deref()),
        (Some(TurnOutcome::Completed), 2, Some("shutdown_timeout"))
    );
    let lines = bench.lines();
    assert!(lines[0].contains("I'll try to resume") && lines[1] == "Resumed after a restart of the gateway.", "{lines:?}");
}

#[test]
fn case_098_a_restart_comes_back_by_itself_with_exit_code_75() {
    let bench = Bench::configured("[gateway]\ndrain_timeout_seconds = 0.2\n");
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    let pid = bench.pid();
    bench.block(bench.chat().restart(Some(KEY))).unwrap();
    assert_eq!(bench.ended().code(), Some(75));
    bench.next_after(pid);
    bench.wait_for_prompts(2);
    bench.open_gate();
    assert_eq!(bench.wait(turn).interrupt_reason.as_deref(), Some("restart_timeout"));
}

#[test]
fn case_103_an_unasked_sigterm_exits_with_1_and_an_idle_gateway_with_0() {
    let bench = Bench::configured("[gateway]\nidle_exit_seconds = 0.5\n");
    let turn = bench.send("x", &cat()).turn;
    bench.wait(turn);
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), ""));
    let pid = bench.start();
    bench.send("y", &bench.gated());
    bench.wait_for_prompts(1);
    outlast_testkit::product::terminate(pid);
    bench.until_line("shutting down");
    bench.open_gate();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(1), ""));
}

#[test]
fn case_085_and_086_only_a_turn_that_runs_at_the_limit_is_marked() {
    let bench = Bench::configured("[gateway.agents.mute]\nargv = [\"/bin/sleep\", \"600\"]\n");
    let agent = bench.gated();
    bench.send("in time", &agent);
    bench.wait_for_prompts(1);
    let stays = AgentChoice::Command(format!("cat >> {}/seen; exec sleep 600", bench.work().display()));
    bench.send_to("agent:main:local:dm:long", "too long", &stays);
    eventually("its prompt", || std::fs::read_to_string(bench.work().join("seen")).ok().filter(|text| !text.is_empty()));
    // An agent that never says that it is ready has no prompt.
    bench.send_to("agent:main:local:dm:early", "not begun", &AgentChoice::Agent("mute".into()));
    let agents = || bench.product().json(["list"])["processes"].as_array().map_or(0, Vec::len);
    eventually("three agents", || (agents() == 3).then_some(()));
    let stopping = bench.spawn({
        let chat = bench.chat();
        async move { chat.shutdown(Some(Duration::from_secs(2))).await }
    });
    bench.until_line("shutting down");
    bench.open_gate();
    bench.block(stopping).unwrap().unwrap();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"));
    let db = rusqlite::Connection::open(bench.home().join("gateway.db")).unwrap();
    let mut rows = db.prepare("SELECT state, attempt, COALESCE(interrupt_reason, outcome, '') FROM turn ORDER BY id").unwrap();
    let found: Vec<(String, u32, String)> =
        rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap().collect::<Result<_, _>>().unwrap();
    let wanted = [("finished", 1, "completed"), ("interrupted", 1, "shutdown_timeout"), ("queued", 0, "")];
    assert_eq!(found, wanted.map(|(state, attempt, how)| (state.to_owned(), attempt, how.to_owned())));
}

#[test]
fn case_106_a_process_of_the_agent_outlives_a_restart_and_its_end_is_delivered() {
    let bench = Bench::new();
    let work = bench.work();
    let outlast = env!("CARGO_BIN_EXE_outlast");
    // The first turn starts a build and asks for a restart; the one about its end repeats what it is told.
    let line = format!(
        "case \"$(tee -a {0}/seen)\" in begin) {outlast} run --notify -- 'read gate < {0}/gate; echo built' > {0}/id; {outlast} gateway restart;; *) echo told;; esac",
        work.display()
    );
    bench.gated();
    let pid = bench.pid();
    let turn = bench.send("begin", &AgentChoice::Command(line)).turn;
    assert_eq!(bench.ended().code(), Some(75));
    bench.next_after(pid);
    assert_eq!(bench.wait(turn).outcome, Some(TurnOutcome::Completed));
    let id = std::fs::read_to_string(work.join("id")).unwrap();
    assert_eq!(bench.product().json(["poll", id.trim()])["status"], "running");
    bench.open_gate();
    let shown = bench.until("a turn about the build", |shown| shown.turns.len() == 2 && shown.turns[1].is_finished());
    assert_eq!(shown.turns[1].reply.as_deref(), Some("told"));
    assert!(std::fs::read_to_string(work.join("seen")).unwrap().contains("built"));
}

#[test]
fn case_099_a_stop_after_a_restart_is_a_stop_with_its_own_limit() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    bench.block(bench.chat().restart(None)).unwrap();
    bench.until_line("restarting");
    let status = bench.block(bench.chat().status()).unwrap();
    assert_eq!((status.draining, status.ending.as_deref()), (true, Some("restart")));
    // A second restart changes nothing, and a longer limit neither.
    bench.block(bench.chat().restart(None)).unwrap();
    bench.block(bench.chat().shutdown(Some(Duration::from_millis(100)))).unwrap();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"));
    bench.start();
    let prompts = bench.wait_for_prompts(2);
    assert!(prompts[1].contains("interrupted by a gateway shutdown"), "{prompts:?}");
    bench.open_gate();
    assert_eq!(bench.wait(turn).interrupt_reason.as_deref(), Some("shutdown_timeout"));
    let banners = bench.lines().iter().filter(|line| line.contains("I'll try to resume")).count();
    assert_eq!(banners, 2, "one for each plan: {:?}", bench.lines());
}

#[test]
fn a_command_that_an_earlier_gateway_started_is_marked_however_soon_the_next_one_is_stopped() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    bench.product().points().arm("gateway.before_marks").unwrap();
    let pid = bench.kill();
    let next = eventually("the next gateway", || bench.product().points().held("gateway.before_marks"));
    assert_ne!(next, pid);
    // It finds this signal when it begins to serve.
    outlast_testkit::product::terminate(next);
    bench.product().points().release("gateway.before_marks").unwrap();
    bench.pid();
    bench.until_line("shutting down");
    assert!(bench.lines().iter().all(|line| !line.contains("kept")), "its agent has the prompt: {:?}", bench.lines());
    bench.open_gate();
    assert!(outlast_testkit::product::wait_for_end(next, outlast_testkit::product::PATIENCE));
    bench.start();
    let ended = bench.wait(turn);
    assert_eq!((ended.outcome, ended.attempt, ended.reply.as_deref()), (Some(TurnOutcome::Completed), 1, Some("did: long")));
}

#[test]
fn a_gateway_with_a_terminal_or_a_turn_does_not_exit() {
    let bench = Bench::configured("[gateway]\nidle_exit_seconds = 0.2\n");
    let agent = bench.gated();
    let turn = bench.send("x", &agent).turn;
    bench.wait_for_prompts(1);
    let (pid, chat) = (bench.pid(), bench.chat());
    bench.block(async {
        let mut feed = chat.follow(KEY).attended();
        while !matches!(feed.next().await.unwrap(), outlast_client::Heard::Event(outlast_client::ChatEvent::CaughtUp { .. })) {}
        bench.open_gate();
        while !matches!(feed.next().await.unwrap(), outlast_client::Heard::Event(outlast_client::ChatEvent::Turn { turn }) if turn.is_finished()) {}
        // Longer than the limit, as nothing tells that something does not happen.
        tokio::time::sleep(Duration::from_millis(600)).await;
        assert_eq!(chat.status().await.unwrap().pid, pid);
    });
    assert_eq!(bench.ended().code(), Some(0));
    bench.start();
    assert_eq!(bench.wait(turn).state, TurnState::Finished);
}

#[test]
fn a_hold_keeps_new_turns_back_until_it_is_lifted() {
    let bench = Bench::new();
    bench.wait(bench.send("before", &cat()).turn);
    bench.block(bench.chat().drain(None)).unwrap();
    let held = bench.send("held", &cat());
    let line = "The gateway is drained and starts no new turns. Your message is kept and waits for 60 minutes at most, or until \
                `outlast gateway drain --off`.";
    assert_eq!((held.note.as_deref(), bench.lines()), (Some(line), vec![line.to_owned()]));
    let status = bench.block(bench.chat().status()).unwrap();
    assert_eq!((status.draining, status.queued), (true, 1));
    let waited = bench.product().call(["chat", "send", "main", "--wait", "--timeout", "0.1", "also held"]);
    assert!(
        waited.code == Some(124) && waited.err.contains("The gateway is drained") && !waited.err.contains("not complete yet"),
        "{waited:?}"
    );
    bench.block(bench.chat().undrain()).unwrap();
    assert_eq!(bench.wait(held.turn).reply.as_deref(), Some("held"));
}

#[test]
fn a_second_gateway_leaves_the_first_alone() {
    let bench = Bench::new();
    let pid = bench.pid();
    let second = bench.command().output().unwrap();
    assert_eq!(second.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&second.stderr).contains("another gateway serves"), "{second:?}");
    assert_eq!(bench.pid(), pid);
    let wrong = Bench::stopped(outlast_testkit::product::Product::new(env!("CARGO_BIN_EXE_outlast")));
    wrong.product().configure("[gateway.agents.x]\npermission = \"sometimes\"\n");
    assert_eq!(wrong.command().output().unwrap().status.code(), Some(78));
    assert_eq!(wrong.try_pid(), None);
}

/// The gateway waited for the engine without a limit, and ignored every further signal.
#[test]
fn a_gateway_that_is_told_to_end_does_so_although_the_engine_does_not_answer() {
    let bench = Bench::configured("[gateway]\ndrain_timeout_seconds = 0.2\n");
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    let pid = bench.pid();
    let frozen = bench.freeze_engine();
    terminate(pid);
    assert_eq!(bench.ended().code(), Some(1), "{}", bench.log());
    // No time could be set for the turn that waits, so the engine starts the next gateway at once.
    assert_eq!(bench.word(), "at work", "{}", bench.log());
    drop(frozen);
    bench.next_after(pid);
    bench.wait_for_prompts(2);
    bench.open_gate();
    assert_eq!(bench.wait(turn).outcome, Some(TurnOutcome::Completed));
}

/// Ctrl-C of `gateway run` did nothing until the engine answered.
#[test]
fn a_gateway_that_waits_for_the_engine_in_its_start_ends_with_a_signal() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    let frozen = bench.freeze_engine();
    for (before, signal, code, after) in [
        ("", Signal::TERM, 1, ""),
        // The one before died, and was that of a service manager.
        ("service\n", Signal::TERM, 1, "at work"),
        ("", Signal::INT, 0, "stopped"),
        ("stopped\n", Signal::TERM, 1, "stopped"),
    ] {
        std::fs::write(bench.home().join("gateway.lock"), before).unwrap();
        let mut child = bench.command().stderr(Stdio::piped()).spawn().unwrap();
        eventually("that it starts", || (bench.word() == "at work" && is_locked(&bench)).then_some(()));
        kill_process(Pid::from_child(&child), signal).unwrap();
        assert!(wait_for_end(child.id(), PATIENCE), "{before:?} {signal:?}");
        assert_eq!((child.wait().unwrap().code(), bench.word().as_str()), (Some(code), after), "{before:?} {signal:?}");
    }
    drop(frozen);
    bench.start();
}

/// The engine started the next gateway a second after the stop was answered.
#[test]
fn a_gateway_that_is_stopped_just_after_it_was_killed_stays_stopped() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let points = bench.product().points();
    points.arm("gateway.before_lock").unwrap();
    bench.kill();
    let late = eventually("the engine's gateway", || points.held("gateway.before_lock"));
    let stopped = bench.product().json(["gateway", "stop"]);
    assert_eq!((&stopped["status"], bench.word().as_str()), (&"stopped".into(), "stopped"), "{stopped}");
    points.release("gateway.before_lock").unwrap();
    assert!(wait_for_end(late, PATIENCE), "{}", bench.log());
    assert_eq!((bench.word().as_str(), bench.try_pid()), ("stopped", None));
    // Once more is no failure, and changes nothing.
    assert_eq!(bench.product().json(["gateway", "stop"])["status"], "not_running");
    bench.start();
}

/// It was answered that no gateway runs, and a moment later one did.
#[test]
fn a_stop_waits_for_a_gateway_that_starts() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let points = bench.product().points();
    points.arm("gateway.before_marks").unwrap();
    bench.kill();
    let next = eventually("the next gateway, which has the lock", || points.held("gateway.before_marks"));
    let stop = bench.product().command(["gateway", "stop", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    points.release("gateway.before_marks").unwrap();
    let said = stop.wait_with_output().unwrap();
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((&said["status"], &said["pid"]), (&"stopped".into(), &next.into()), "{said}");
    assert_eq!(bench.word(), "stopped");
    bench.start();
}

/// `/restart` in a terminal started the gateway that a person had stopped.
#[test]
fn a_restart_starts_no_gateway_that_was_stopped() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let chat = bench.block(Chat::connect(&bench.to().starting(env!("CARGO_BIN_EXE_outlast-gateway")))).unwrap();
    bench.block(bench.chat().shutdown(None)).unwrap();
    bench.ended();
    for refused in [bench.block(chat.restart(None)), bench.block(chat.begin_shutdown(None, None))] {
        assert!(refused.as_ref().is_err_and(outlast_client::ClientError::is_not_running), "{refused:?}");
    }
    assert_eq!((bench.word().as_str(), bench.try_pid()), ("stopped", None), "{}", bench.log());
    bench.start();
}

/// A client that waited for a reply started the next gateway in place of the one that died, as the engine did.
#[test]
fn a_gateway_that_is_stopped_just_after_it_was_killed_is_started_by_no_onlooker() {
    let bench = Bench::new();
    let AgentChoice::Command(line) = bench.gated() else { panic!("it is a command") };
    let mut script =
        bench.product().command(["chat", "send", "main", "--command", &line, "--wait", "go"]).stdout(Stdio::null()).spawn().unwrap();
    bench.wait_for_prompts(1);
    // Only the script starts a gateway.
    let frozen = bench.freeze_engine();
    let points = bench.product().points();
    points.arm("gateway.before_lock").unwrap();
    bench.kill();
    let late = eventually("the script's gateway", || points.held("gateway.before_lock"));
    assert_eq!(bench.product().json(["gateway", "stop"])["status"], "stopped");
    points.release("gateway.before_lock").unwrap();
    assert!(wait_for_end(late, Duration::from_secs(10)) && bench.word() == "stopped", "{}", bench.log());
    drop(frozen);
    bench.start();
    bench.open_gate();
    assert!(script.wait().unwrap().success());
}

/// The script looked for questions about permissions once more when it had the reply, and started the next gateway for that.
#[test]
fn a_gateway_that_is_stopped_while_a_script_waits_for_the_reply_stays_stopped() {
    let bench = Bench::new();
    let points = bench.product().points();
    let AgentChoice::Command(line) = bench.gated() else { panic!("it is a command") };
    let mut script =
        bench.product().command(["chat", "send", "main", "--command", &line, "--wait", "go"]).stdout(Stdio::null()).spawn().unwrap();
    bench.wait_for_prompts(1);
    let chat = bench.chat();
    let status = || bench.block(chat.status()).unwrap();
    eventually("the script, which looks for questions", || (status().terminals == 1).then_some(()));
    points.arm("gateway.before_word").unwrap();
    let mut stop = bench.product().command(["gateway", "stop"]).stdout(Stdio::null()).spawn().unwrap();
    eventually("the drain", || status().ending);
    bench.open_gate();
    eventually("the end of the gateway", || points.held("gateway.before_word"));
    let code = eventually("the end of the script, which waits for no gateway", || script.try_wait().unwrap());
    points.release("gateway.before_word").unwrap();
    assert!(code.success() && stop.wait().unwrap().success());
    assert_eq!((bench.word().as_str(), bench.try_pid()), ("stopped", None), "{}", bench.log());
    bench.reap();
}

/// The gateway ended as a stop does, and then the restart that had been asked for first started it again.
#[test]
fn a_restart_that_a_person_turns_into_a_stop_starts_no_gateway() {
    let bench = Bench::new();
    let agent = bench.gated();
    let turn = bench.send("long", &agent).turn;
    bench.wait_for_prompts(1);
    let restart = bench.product().command(["gateway", "restart", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    bench.until_line("restarting");
    let chat = bench.chat();
    let stopping = bench.spawn(async move { chat.shutdown(None).await });
    bench.until_line("shutting down");
    bench.open_gate();
    bench.block(stopping).unwrap().unwrap();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"));
    let said = restart.wait_with_output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    assert_eq!((said.status.code(), &answer["status"]), (Some(0), &"stopped".into()), "{answer}");
    assert_eq!((bench.word().as_str(), bench.try_pid()), ("stopped", None), "{}", bench.log());
    bench.start();
    assert_eq!(bench.wait(turn).outcome, Some(TurnOutcome::Completed));
}

/// It was answered that the gateway had ended, and the engine started the next one.
#[test]
fn a_stop_that_meets_the_end_of_a_restart_leads_to_a_stopped_gateway() {
    let bench = Bench::new();
    bench.wait(bench.send("hi", &cat()).turn);
    let points = bench.product().points();
    let chat = bench.chat();
    let pid = bench.block(chat.status()).unwrap().pid;
    points.arm("gateway.before_word").unwrap();
    bench.block(bench.chat().restart(None)).unwrap();
    eventually("the end of the gateway", || points.held("gateway.before_word"));
    // Over a connection from before. The gateway does not take orders any more.
    let mut late = Box::pin(chat.shutdown(None));
    let asked = bench.block(std::future::poll_fn(|task| std::task::Poll::Ready(late.as_mut().poll(task))));
    assert!(asked.is_pending(), "{asked:?}");
    let stop = bench.product().command(["gateway", "stop", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    points.release("gateway.before_word").unwrap();
    assert_eq!(bench.block(late).unwrap().status, "gone");
    let said = stop.wait_with_output().unwrap();
    assert!(said.status.success(), "{said:?}");
    assert_eq!(bench.ended().code(), Some(75));
    assert!(wait_for_end(pid, PATIENCE) && bench.word() == "stopped" && bench.try_pid().is_none(), "{}", bench.log());
    bench.start();
}

/// The machine went down, a person stopped the gateway meanwhile, and the engine started the next one.
#[test]
fn a_stop_during_the_drain_of_a_signal_leads_to_a_stopped_gateway() {
    let bench = Bench::new();
    let turn = bench.send("long", &bench.gated()).turn;
    bench.wait_for_prompts(1);
    terminate(bench.pid());
    bench.until_line("shutting down");
    let taken = bench.ask_raw::<Done>(&ChatRequest::Shutdown { timeout_ms: None, from: None });
    assert!(taken.error.is_none(), "{taken:?}");
    bench.open_gate();
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), "stopped"), "{}", bench.log());
    bench.start();
    assert_eq!(bench.wait(turn).outcome, Some(TurnOutcome::Completed));
}

/// It was answered that no gateway runs, and the next notice started one.
#[test]
fn a_stop_counts_although_the_gateway_had_nothing_to_do_and_has_exited() {
    let bench = Bench::configured("[gateway]\nidle_exit_seconds = 0.5\n");
    bench.wait(bench.send("hi", &cat()).turn);
    assert_eq!((bench.ended().code(), bench.word().as_str()), (Some(0), ""));
    let said = bench.product().call(["gateway", "stop"]).good().text();
    assert_eq!((bench.word().as_str(), said.contains("none is started until `outlast chat NAME`")), ("stopped", true), "{said}");
    let ran = bench.product().command(["run", "--notify", "--session", KEY, "--", "true"]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    let pending = || bench.product().json(["events", "history", "--state", "pending"])["notices"].as_array().map_or(0, Vec::len);
    eventually("its notice", || (pending() == 1).then_some(()));
    assert_eq!((bench.word().as_str(), bench.try_pid()), ("stopped", None), "{}", bench.log());
    bench.start();
    bench.until("the turn about it", |shown| shown.turns.len() == 2 && shown.turns[1].is_finished());
}

/// The running turn was cancelled for a message that was not started either.
#[test]
fn in_mode_interrupt_a_message_cancels_nothing_while_new_turns_are_held_back() {
    let bench = Bench::configured("[gateway]\nmode = \"interrupt\"\n");
    let agent = bench.gated();
    let first = bench.send("first", &agent).turn;
    bench.wait_for_prompts(1);
    bench.product().call(["gateway", "drain"]).good();
    let second = bench.send("second", &agent);
    assert!(second.note.as_deref().is_some_and(|note| note.contains("The gateway is drained")), "{second:?}");
    let states: Vec<TurnState> = bench.show().turns.into_iter().map(|turn| turn.state).collect();
    assert_eq!(states, [TurnState::Running, TurnState::Queued]);
    bench.open_gate();
    assert_eq!(bench.wait(first).outcome, Some(TurnOutcome::Completed));
    bench.product().call(["gateway", "drain", "--off"]).good();
    bench.wait_for_prompts(2);
    bench.open_gate();
    assert_eq!(bench.wait(second.turn).reply.as_deref(), Some("did: second"));
}

fn is_locked(bench: &Bench) -> bool {
    let lock = std::fs::File::open(bench.home().join("gateway.lock")).unwrap();
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockShared).is_err()
}
