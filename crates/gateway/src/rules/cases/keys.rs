use proptest::prelude::*;

use crate::rules::conversation::Cause;
use crate::rules::key::{ChatType, Isolation, MAX_CHAT_NAME_LEN, Origin, SessionKey, parse};
use crate::rules::turn::TurnKind;

fn origin(platform: &str, chat_type: ChatType) -> Origin {
    let (namespace, platform) = ("main".to_owned(), platform.to_owned());
    Origin { namespace, platform, chat_type, chat_id: None, thread_id: None, user_id: None, user_id_alt: None }
}

fn some(id: &str) -> Option<String> {
    Some(id.to_owned())
}

fn key(origin: &Origin) -> String {
    SessionKey::of(origin, Isolation::default()).to_string()
}

#[test]
fn case_001_and_002_a_direct_chat_and_its_thread() {
    let dm = Origin { chat_id: some("123"), ..origin("telegram", ChatType::Dm) };
    assert_eq!(key(&dm), "agent:main:telegram:dm:123");
    assert_eq!(key(&Origin { thread_id: some("42"), ..dm.clone() }), "agent:main:telegram:dm:123:42");
    assert_eq!(key(&Origin { user_id: some("7"), ..dm }), "agent:main:telegram:dm:123");
}

#[test]
fn case_003_without_a_chat_two_users_never_share_a_lane() {
    let dm = |user: &str| Origin { user_id: some(user), chat_id: some(""), ..origin("signal", ChatType::Dm) };
    assert_eq!(key(&dm("anna")), "agent:main:signal:dm:anna");
    assert_ne!(key(&dm("anna")), key(&dm("ben")));
    assert_eq!(key(&Origin { thread_id: some("t"), ..dm("anna") }), "agent:main:signal:dm:anna:t");
}

#[test]
fn case_004_without_any_id_there_is_one_lane() {
    let bare = origin("sms", ChatType::Dm);
    assert_eq!(key(&bare), "agent:main:sms:dm");
    assert_eq!(key(&Origin { thread_id: some("t"), ..bare }), "agent:main:sms:dm:t");
}

#[test]
fn case_006_to_009_who_shares_a_group_or_a_thread() {
    let group = |user: &str| Origin { chat_id: some("g"), user_id: some(user), ..origin("discord", ChatType::Group) };
    let shared = Isolation { is_per_user_in_groups: false, is_per_user_in_threads: false };
    let strict = Isolation { is_per_user_in_groups: true, is_per_user_in_threads: true };
    assert_eq!(key(&group("a")), "agent:main:discord:group:g:a");
    assert_eq!(SessionKey::of(&group("a"), shared), SessionKey::of(&group("b"), shared));
    let thread = |user: &str| Origin { thread_id: some("t"), ..group(user) };
    assert_eq!(key(&thread("a")), "agent:main:discord:group:g:t");
    assert_eq!(key(&thread("a")), key(&thread("b")));
    assert_eq!(SessionKey::of(&thread("a"), strict).as_str(), "agent:main:discord:group:g:t:a");
    assert_eq!(key(&Origin { user_id_alt: some("alt"), ..group("a") }), "agent:main:discord:group:g:alt");
}

#[test]
fn case_010_a_user_in_a_group_is_not_taken_for_a_thread() {
    let parsed = parse("agent:main:discord:group:chan:xyz").unwrap();
    assert_eq!((parsed.platform.as_str(), parsed.chat_type, parsed.chat_id.as_str()), ("discord", ChatType::Group, "chan"));
    assert_eq!(parsed.thread_id, None);
    assert_eq!(parse("agent:main:discord:dm:chan:xyz").unwrap().thread_id, some("xyz"));
    assert_eq!(parse("agent:main:discord:thread:chan:xyz").unwrap().thread_id, some("xyz"));
}

#[test]
fn case_012_what_is_no_key_has_no_parts() {
    for text in
        ["", ":", "agent", "agent:main:x:dm", "12345", "other:main:x:dm:1", "agent:main:x:nowhere:1", "agent:main:x:dm:", "agent:::dm:1"]
    {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn case_013_an_id_with_a_colon_is_not_recovered_from_a_key() {
    let room = Origin { chat_id: some("!room:example.org"), ..origin("matrix", ChatType::Group) };
    assert_eq!(parse(&key(&room)).unwrap().chat_id, "!room");
}

#[test]
fn case_201_no_message_can_pass_for_a_notice() {
    let forged = Cause::Message("evt_1".into());
    assert_eq!(forged.to_string(), "msg:evt_1");
    assert_eq!(forged.to_string().parse::<Cause>().unwrap().kind(), TurnKind::Message);
    assert_eq!("evt_1".parse::<Cause>(), Ok(Cause::Notice("evt_1".into())));
    assert!("1".parse::<Cause>().is_err());
}

#[test]
fn a_local_chat_has_a_plain_name() {
    assert_eq!(SessionKey::local("work").unwrap().as_str(), "agent:main:local:dm:work");
    let long = "x".repeat(MAX_CHAT_NAME_LEN + 1);
    for name in ["", "a:b", "../x", "..", "a b", "a\n", "é", &long] {
        assert!(SessionKey::local(name).is_err(), "{name:?}");
    }
}

proptest! {
    #[test]
    fn an_origin_without_colons_is_found_again(
        chat in "[a-z0-9]{1,8}",
        thread in proptest::option::of("[a-z0-9]{1,8}"),
        kind in 0..4_usize,
    ) {
        let chat_type = [ChatType::Dm, ChatType::Group, ChatType::Channel, ChatType::Thread][kind];
        let from = Origin { chat_id: Some(chat.clone()), thread_id: thread.clone(), ..origin("p", chat_type) };
        let parsed = parse(&key(&from)).unwrap();
        prop_assert_eq!((parsed.chat_type, parsed.chat_id), (chat_type, chat));
        prop_assert_eq!(parsed.thread_id, thread.filter(|_| matches!(chat_type, ChatType::Dm | ChatType::Thread)));
    }

    #[test]
    fn no_text_breaks_the_parser(text in ".*") {
        let _whatever_it_says = parse(&text);
    }
}
