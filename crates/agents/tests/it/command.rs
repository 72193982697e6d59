use crate::support::*;
use outlast_agents::{AgentFault, AgentNews, Attempt, Block, CommandDriver, CommandSettings, Driver, Opened, StopReason, stop_agents_of};
use outlast_testkit::product::eventually;
use std::time::Duration;

fn driver(world: &World, line: &str) -> CommandDriver {
    CommandDriver::new(world.place.clone(), CommandSettings::shell(line))
}

fn start(world: &World, line: &str) -> Chat {
    Chat::of(driver(world, line).start(world.conversation()))
}

#[tokio::test]
async fn the_prompt_is_standard_input_and_the_reply_standard_output() {
    let world = World::new().await;
    let mut chat = start(&world, "echo noise >&2; tr a-z A-Z; echo \"$OUTLAST_SESSION\"");
    for number in 1..=2 {
        let attempt = Attempt::new("turn-1", number);
        chat.handle.prompt(attempt, vec![Block::Text("a note".into()), Block::Text("and words".into())]).unwrap();
        let events = chat.turn().await;
        let text = format!("A NOTE\n\nAND WORDS\n{KEY}\n");
        assert_eq!((texts(&events), drafts(&events)), (vec![text.as_str()], text.clone()));
        assert_eq!(events.last(), Some(&AgentNews::Completed { stop_reason: StopReason::EndTurn }));
        let ready = AgentNews::Ready { session: None, opened: Opened::PerTurn };
        assert_eq!(events.contains(&ready), number == 1);
    }
    // The prompts are removed, and what was written to standard error stays.
    let names: Vec<_> = std::fs::read_dir(world.files()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.len() == 2 && names.iter().all(|name| name.ends_with(".stderr")), "{names:?}");
    chat.stop().await;
}

#[tokio::test]
async fn another_exit_fails_with_the_last_line_and_the_next_turn_is_taken() {
    let world = World::new().await;
    let line =
        "read n; case $n in 1) echo partial; echo >&2; echo 'no such model' >&2; exit 3;; 2) echo said why; exit 4;; 3) kill -9 $$;; esac";
    let mut chat = start(&world, line);
    chat.prompt(1, "1");
    let events = chat.turn().await;
    assert_eq!(texts(&events), ["partial\n"]);
    assert_eq!(
        events.last(),
        Some(&AgentNews::Failed { fault: AgentFault::Reported, why: "the command exited with code 3: no such model".into() })
    );
    chat.prompt(2, "2");
    assert_eq!(
        chat.turn().await.last(),
        Some(&AgentNews::Failed { fault: AgentFault::Reported, why: "the command exited with code 4: said why".into() })
    );
    // A signal is no answer of the command's.
    let attempt = chat.prompt(3, "3");
    let (of, had_prompt, why) = chat.gone().await;
    assert_eq!((of, had_prompt, why.as_str()), (Some(attempt), true, "the command was killed by SIGKILL"));
}

#[tokio::test]
async fn a_later_gateway_follows_the_same_process() {
    let world = World::new().await;
    let line = format!("echo x >> {0}; cat; while ! [ -e {1} ]; do sleep 0.01; done; echo after", world.path("runs"), world.path("go"));
    let mut chat = start(&world, &line);
    let attempt = chat.prompt(1, "before");
    chat.until(|news| matches!(news, AgentNews::Draft(_))).await;
    // As a crash would: without a word.
    drop(chat);
    world.product.kill_engine();
    let driver = driver(&world, &line);
    assert!(driver.holds(KEY, &attempt).await.unwrap());
    assert!(!driver.holds(KEY, &Attempt::new("turn-1", 2)).await.unwrap());
    assert!(!driver.holds("another", &attempt).await.unwrap());
    let mut chat = Chat::of(driver.start(world.conversation()));
    // What the prompt is by now does not matter: the process has it.
    chat.prompt(1, "something else");
    std::fs::write(world.path("go"), "").unwrap();
    let events = chat.turn().await;
    assert_eq!(texts(&events), ["before\nafter\n"]);
    assert_eq!(events.last(), Some(&AgentNews::Completed { stop_reason: StopReason::EndTurn }));
    // One that has ended is followed just so.
    drop(chat);
    assert!(driver.holds(KEY, &attempt).await.unwrap());
    let mut chat = Chat::of(driver.start(world.conversation()));
    chat.prompt(1, "");
    assert_eq!(texts(&chat.turn().await), ["before\nafter\n"]);
    assert_eq!(std::fs::read_to_string(world.path("runs")).unwrap(), "x\n");
    chat.stop().await;
}

#[tokio::test]
async fn a_turn_goes_on_when_the_engine_is_killed() {
    let world = World::new().await;
    let mut chat = start(&world, &format!("cat; while ! [ -e {} ]; do sleep 0.01; done; seq 1000", world.path("go")));
    chat.prompt(1, "before");
    let mut text = drafts(&chat.until(|news| matches!(news, AgentNews::Draft(_))).await);
    world.product.kill_engine();
    std::fs::write(world.path("go"), "").unwrap();
    let events = chat.turn().await;
    text += &drafts(&events);
    let want: String = "before\n".to_owned() + &(1..=1000).map(|n| format!("{n}\n")).collect::<String>();
    assert_eq!((text, texts(&events)), (want.clone(), vec![want.as_str()]));
    chat.stop().await;
}

#[tokio::test]
async fn a_cancel_stops_the_command_with_its_tree_and_so_do_silence_and_a_stop() {
    let world = World::new().await;
    let mut settings = CommandSettings::shell("echo begun; sleep 1000 & wait");
    let mut chat = Chat::of(CommandDriver::new(world.place.clone(), settings.clone()).start(world.conversation()));
    let attempt = chat.prompt(1, "hello");
    chat.until(|news| matches!(news, AgentNews::Draft(_))).await;
    chat.handle.cancel(&attempt).unwrap();
    assert_eq!(chat.turn().await.last(), Some(&AgentNews::Completed { stop_reason: StopReason::Cancelled }));
    assert_eq!(world.running().await, 0);
    let attempt = chat.prompt(2, "hello");
    chat.until(|news| matches!(news, AgentNews::Draft(_))).await;
    chat.handle.stop().unwrap();
    assert_eq!(chat.gone().await, (Some(attempt), true, "the agent was stopped".into()));
    settings.silence = Duration::from_millis(300);
    let mut chat = Chat::of(CommandDriver::new(world.place.clone(), settings).start(world.conversation()));
    chat.prompt(3, "hello");
    let events = chat.turn().await;
    assert!(matches!(events.last(), Some(AgentNews::Failed { why, .. }) if why.contains("printed nothing for 0.3 s")), "{events:?}");
    assert_eq!(world.running().await, 0);
    chat.stop().await;
}

#[tokio::test]
async fn a_command_that_leaves_something_behind_has_completed() {
    let world = World::new().await;
    let mut chat = start(&world, &format!("{} & echo done", world.lingering()));
    chat.prompt(1, "hello");
    let events = chat.turn().await;
    assert_eq!((texts(&events), events.last()), (vec!["done\n"], Some(&AgentNews::Completed { stop_reason: StopReason::EndTurn })));
    world.go();
    chat.stop().await;
}

#[tokio::test]
async fn agents_of_one_conversation_are_stopped_whole_and_no_others() {
    let world = World::new().await;
    let pids = world.path("pids");
    let line = format!("setsid sh -c 'echo $$ >> {pids}; sleep 1000' & sleep 1000 & echo $! >> {pids}; echo begun; wait");
    let mut chat = start(&world, &line);
    chat.prompt(1, "hello");
    chat.until(|news| matches!(news, AgentNews::Draft(_))).await;
    let mut other =
        Chat::of(driver(&world, &line).start(outlast_agents::Conversation::new("other", "1", world.product.work(), world.files())));
    other.prompt(1, "hello");
    other.until(|news| matches!(news, AgentNews::Draft(_))).await;
    let all = eventually("both trees", || Some(std::fs::read_to_string(&pids).ok()?).filter(|text| text.lines().count() == 4));
    drop(chat);
    assert_eq!(stop_agents_of(&world.client, KEY).await.unwrap(), 1);
    assert_eq!(world.running().await, 1);
    // One that was killed and that its keeper has not reaped yet is dead.
    let is_alive = |pid: &&str| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['Z', 'X']))
    };
    let alive = || all.lines().filter(is_alive).count();
    assert_eq!(alive(), 2);
    assert_eq!(stop_agents_of(&world.client, KEY).await.unwrap(), 0);
    other.stop().await;
    assert_eq!(alive(), 0);
}
