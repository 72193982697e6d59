use crate::support::*;
use outlast_agents::{AgentNews, Decision, PermissionMode, PermissionPolicy, SettledBy};
use serde_json::json;
use std::time::Duration;

fn settled(events: &[AgentNews]) -> Vec<(&str, bool, SettledBy)> {
    let mut all = Vec::new();
    for news in events {
        if let AgentNews::PermissionSettled { title, is_allowed, by, .. } = news {
            all.push((title.as_str(), *is_allowed, *by));
        }
    }
    all
}

#[tokio::test]
async fn a_person_is_asked_and_decides() {
    let world = World::new().await;
    let script = json!({"turns": [[{"ask": "rm -r target"}], [{"ask": "rm -r target"}], [{"ask": "rm -r target"}], [{"ask": "Shell", "of": "rm -r x"}]]});
    let mut chat = world.start_with(world.settings(&script), world.conversation().attended());
    for (number, decision, want, is_allowed) in [
        (1, Decision::Allow, "allow_once", true),
        (2, Decision::Deny, "reject_once", false),
        (3, Decision::Choose("allow_always".into()), "allow_always", true),
    ] {
        chat.prompt(number, "hello");
        let events = chat.until(|news| matches!(news, AgentNews::Permission(_))).await;
        let Some(AgentNews::Permission(ask)) = events.last() else { unreachable!() };
        assert_eq!((ask.title.as_str(), ask.kind.as_deref(), ask.options.len()), ("rm -r target", Some("execute"), 3));
        // What was not offered, and what is not asked, changes nothing.
        chat.handle.allow(&ask.id, Decision::Choose("sudo".into())).unwrap();
        chat.handle.allow("perm-999", Decision::Deny).unwrap();
        chat.handle.allow(&ask.id, decision).unwrap();
        let events = chat.turn().await;
        assert_eq!(settled(&events), [("rm -r target", is_allowed, SettledBy::Person)]);
        assert!(drafts(&events).contains(want), "{events:?}");
    }
    // The person reads what a title does not say.
    chat.prompt(4, "hello");
    let events = chat.until(|news| matches!(news, AgentNews::Permission(_))).await;
    let Some(AgentNews::Permission(ask)) = events.last() else { unreachable!() };
    assert_eq!((ask.title.as_str(), ask.question().as_str()), ("Shell", "Shell: rm -r x"));
    chat.handle.allow(&ask.id, Decision::Deny).unwrap();
    assert_eq!(settled(&chat.turn().await), [("Shell: rm -r x", false, SettledBy::Person)]);
    chat.stop().await;
}

#[tokio::test]
async fn what_no_person_decides_about_is_denied_when_its_limit_is_over_and_shown() {
    let world = World::new().await;
    let limit = Duration::from_millis(50);
    let mut settings = world.settings(&json!({"turns": [[{"ask": "rm"}]]}));
    settings.permission = PermissionPolicy::default().denied_after(limit);
    let mut chat = world.start_with(settings.clone(), world.conversation());
    chat.prompt(1, "hello");
    let events = chat.turn().await;
    assert_eq!(settled(&events), [("rm", false, SettledBy::Limit(limit))]);
    assert!(drafts(&events).contains("reject_once"));
    // A person who is present is waited for, and the limit counts from when the last one leaves.
    chat.handle.attend(true).unwrap();
    chat.prompt(2, "hello");
    chat.until(|news| matches!(news, AgentNews::Permission(_))).await;
    assert!(tokio::time::timeout(Duration::from_millis(200), chat.next()).await.is_err());
    chat.handle.attend(false).unwrap();
    assert_eq!(settled(&chat.turn().await), [("rm", false, SettledBy::Limit(limit))]);
    chat.stop().await;
}

#[tokio::test]
async fn lists_and_modes_decide_without_a_person() {
    let world = World::new().await;
    let script = json!({"turns": [[{"ask": "git status"}]]});
    for (mode, by) in [
        (PermissionMode::AllowList(vec!["git status".into()]), SettledBy::AllowList),
        (PermissionMode::AllowList(vec!["kind:execute".into()]), SettledBy::AllowList),
        (PermissionMode::Always, SettledBy::Always),
    ] {
        let mut settings = world.settings(&script);
        settings.permission = PermissionPolicy::new(mode);
        let mut chat = world.start_with(settings, world.conversation());
        chat.prompt(1, "hello");
        let events = chat.turn().await;
        assert_eq!(settled(&events), [("git status", true, by)]);
        assert!(!events.iter().any(|news| matches!(news, AgentNews::Permission(_))));
        chat.stop().await;
    }
}

#[tokio::test]
async fn a_cancel_settles_what_is_asked() {
    let world = World::new().await;
    let mut chat = world.start(&json!({"turns": [[{"ask": "rm"}]]}));
    let attempt = chat.prompt(1, "hello");
    chat.until(|news| matches!(news, AgentNews::Permission(_))).await;
    chat.handle.cancel(&attempt).unwrap();
    let events = chat.turn().await;
    assert_eq!(settled(&events), [("rm", false, SettledBy::Cancel)]);
    assert!(drafts(&events).contains("\"cancelled\""), "{events:?}");
    chat.stop().await;
}
