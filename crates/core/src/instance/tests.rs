use super::*;
use std::fmt::Write as _;

const SECOND: Uptime = 1_000_000;
const NOW: Uptime = 1_000 * SECOND;

/// A process that began at this second.
fn process(pid: u32, began: u64) -> Incarnation {
    Incarnation { pid, start_ticks: began * 100, boot: 7 }
}

fn instance(key: &str, kind: InstanceKind, client: Incarnation) -> Instance {
    Instance { key: key.into(), kind, client }
}

/// A server of a client, both begun at these seconds.
fn server((client, began): (u32, u64), (server, served): (u32, u64)) -> Instance {
    instance(&format!("server {server} of {client}"), InstanceKind::Server { server: process(server, served) }, process(client, began))
}

fn session(key: &str, begun: i64) -> Instance {
    instance(key, InstanceKind::Session { begun: begun * SECOND }, process(90, 10))
}

#[test]
fn the_whole_table_of_what_an_instance_has_of_another() {
    let first = server((10, 100), (11, 101));
    let known = |about: &Instance| KnownInstance::new(about.clone(), 200 * SECOND);
    let with = |about: &Instance, server: Option<i64>, client: Option<i64>| {
        let at = |second: i64| second * SECOND;
        KnownInstance { server_gone: server.map(at), client_gone: client.map(at), ..known(about) }
    };
    let holders = [
        ("a server, alive", known(&first)),
        ("its server ended at 500", with(&first, Some(500), None)),
        ("its client ended at 500", with(&first, Some(500), Some(500))),
        ("the client 10 itself", known(&instance("client 10", InstanceKind::Client, process(10, 100)))),
        ("the client 10, ended at 500", with(&instance("client 10", InstanceKind::Client, process(10, 100)), None, Some(500))),
        ("HTTP, used at 200", known(&session("a", 50))),
        ("HTTP, used at 900", KnownInstance { seen: 900 * SECOND, ..known(&session("a", 50)) }),
        ("HTTP, its server ended at 500", with(&session("a", 50), None, Some(500))),
        ("HTTP, used at 200, a request is under way", KnownInstance { under_way: 1, ..known(&session("a", 50)) }),
        ("elsewhere, its client ended at 500", KnownInstance { is_foreign: true, ..with(&first, None, Some(500)) }),
        (
            "also served by 31 of 30",
            known(&first).resumed(Instance { key: first.key.clone(), ..server((30, 150), (31, 150)) }, 200 * SECOND),
        ),
    ];
    let askers = [
        ("the same", first),
        ("the same, resumed", instance("server 11 of 10", InstanceKind::Server { server: process(31, 801) }, process(30, 800))),
        ("client 10, begun beside", server((10, 100), (12, 102))),
        ("client 10, begun at 600", server((10, 100), (12, 600))),
        ("another, begun beside", server((20, 110), (21, 600))),
        ("another, begun at 499", server((20, 499), (21, 499))),
        ("another, begun at 600", server((20, 600), (21, 601))),
        ("the client 10 itself", instance("client 10", InstanceKind::Client, process(10, 100))),
        ("another client, at 600", instance("client 20", InstanceKind::Client, process(20, 600))),
        ("HTTP, begun at 60", session("b", 60)),
        ("HTTP, begun at 850", session("b", 850)),
        ("unknown", instance("", InstanceKind::Unknown, process(90, 10))),
    ];
    let mut table = String::new();
    for (holder, known) in &holders {
        writeln!(table, "{holder}").unwrap();
        for (who, asker) in &askers {
            let passes = match known.passes_to(asker, false, NOW) {
                None => "",
                Some(true) => ", passes, marked",
                Some(false) => ", passes",
            };
            let belonging = format!("{:?}", known.belonging(asker, NOW)).to_lowercase();
            writeln!(table, "  {who:<25} {belonging}{passes}").unwrap();
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn it_is_the_same_after_the_way_over_the_wire() {
    let boot = u128::MAX - 5;
    for kind in [InstanceKind::Server { server: Incarnation { pid: 2, start_ticks: 3, boot } }, InstanceKind::Client, InstanceKind::Unknown]
    {
        let sent = instance("k", kind, Incarnation { pid: 1, start_ticks: 2, boot });
        let text = serde_json::to_string(&sent).unwrap();
        assert_eq!(serde_json::from_str::<Instance>(&text).unwrap(), sent, "{text}");
    }
}

#[test]
fn a_client_that_is_new_to_the_session_counts_from_its_server_on() {
    let ended = KnownInstance { client_gone: Some(500 * SECOND), ..KnownInstance::new(server((10, 100), (11, 101)), 200 * SECOND) };
    // A background process that the first conversation had started serves the next one.
    let next = server((20, 110), (21, 600));
    assert_eq!((ended.passes_to(&next, true, NOW), ended.passes_to(&next, false, NOW)), (Some(true), None));
    assert_eq!(ended.passes_to(&server((20, 110), (21, 120)), true, NOW), None, "its server lived beside");
}

#[test]
fn a_session_over_http_passes_later_to_one_that_began_after_its_last_use() {
    let left = KnownInstance::new(session("a", 50), 200 * SECOND);
    let later = |to: &Instance, now: i64| left.passes_later_to(to, false, now * SECOND);
    let (next, beside) = (session("b", 201), session("b", 199));
    assert_eq!((later(&next, 799), later(&next, 801), later(&beside, 801)), (None, Some(true), None));
    assert_eq!(left.passes_to(&beside, false, NOW), Some(true), "with its first request, as it may have been late");
    assert_eq!(later(&server((20, 201), (21, 201)), 801), Some(true));
    let by_its_server = KnownInstance { client_gone: Some(250 * SECOND), ..left.clone() };
    assert_eq!(by_its_server.passes_later_to(&next, false, 251 * SECOND), Some(true), "its client had left before");
    let under_way = KnownInstance { under_way: 1, client_gone: Some(200 * SECOND), seen: 300 * SECOND, ..left.clone() };
    assert_eq!(under_way.passes_later_to(&next, false, 301 * SECOND), Some(true), "a request outlasts it");
    let client = KnownInstance { client_gone: Some(100 * SECOND), ..KnownInstance::new(server((10, 50), (11, 50)), 60 * SECOND) };
    assert_eq!(client.passes_later_to(&next, false, NOW), None, "it was known to have ended when the other one began");
}

#[test]
fn an_instance_that_several_processes_serve_ends_with_the_last_of_them() {
    let named = |pid, began| Instance { key: "named".into(), ..server((pid, began), (pid + 1, began)) };
    let (first, second, third) = (named(10, 100), named(20, 200), named(30, 300));
    let both = KnownInstance::new(first.clone(), 100 * SECOND).resumed(second.clone(), 200 * SECOND);
    assert!(both.is_served_by(&first) && both.is_served_by(&second) && !both.is_served_by(&third));
    for (ends, stays) in [(&first, &second), (&second, &first)] {
        for (n, life) in ends.lives().into_iter().enumerate() {
            let mut known = both.clone();
            assert!(known.process_ended(life, 400 * SECOND), "{n}");
            assert_eq!((&known.about, known.others.len(), known.ended(&third, NOW)), (stays, 0, None));
            assert!(known.process_ended(stays.client, 500 * SECOND) && !known.process_ended(stays.client, 600 * SECOND));
            assert_eq!(known.ended(&third, NOW), Some(500 * SECOND));
            assert_eq!(known.resumed(third.clone(), NOW).others, [], "it has ended");
        }
    }
    let many = (0..20).fold(both, |known, n| known.resumed(named(40 + 2 * n, 400), NOW));
    assert_eq!(many.others.len(), KnownInstance::MAX_OTHERS);
    // The client of this server was only a launcher, and has ended.
    let launched = KnownInstance::new(Instance { client: process(11, 100), ..first.clone() }, NOW);
    assert!(launched.is_served_by(&first) && !launched.is_served_by(&second));
}
