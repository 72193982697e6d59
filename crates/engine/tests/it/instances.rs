//! Conversations that share a session.

use crate::world::World;
use outlast_client::{At, Client, Incarnation, Instance, InstanceKind, Kill, Run, Scope, Spec, Take, Tell, Told, Verdict, code};
use std::process::{Child, Command};

/// A process that stands for a client or a server.
struct Life(Child);

impl Life {
    fn begin() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn is(&self) -> Incarnation {
        outlast_store::os::incarnation_of(self.0.id()).unwrap()
    }

    fn end(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        let _over = self.0.kill();
        let _over = self.0.wait();
    }
}

fn instance(key: &str, kind: InstanceKind, client: &Life) -> Option<Instance> {
    Some(Instance { key: key.into(), kind, client: client.is() })
}

/// A conversation with a client and a server of its own, in the session `s`.
struct Conversation {
    asks: Client,
    client: Life,
    _server: Life,
}

impl Conversation {
    fn begin(world: &World, key: &str) -> Self {
        let (client, server) = (Life::begin(), Life::begin());
        let asks = world.session("s").with_instance(instance(key, InstanceKind::Server { server: server.is() }, &client));
        Self { asks, client, _server: server }
    }

    /// The same conversation with an engine that follows.
    fn again(self, world: &World, key: &str) -> Self {
        let kind = InstanceKind::Server { server: self._server.is() };
        Self { asks: world.session("s").with_instance(instance(key, kind, &self.client)), ..self }
    }
}

async fn start(client: &Client, world: &World, line: &str) -> String {
    let spec = Spec::shell(line).telling(Tell::end()).owned_by(client.owner().clone());
    client.run(Run::new(spec, world.caller())).await.unwrap().id().to_string()
}

/// A process that has ended.
async fn ended(client: &Client, world: &World) -> String {
    let id = start(client, world, "exit 5").await;
    world.client.process(id.parse().unwrap()).wait(None).await.unwrap();
    id
}

/// The notices that a client is given, settled: of which process each is, and whether it is marked.
async fn told(client: &Client, take: Take) -> Vec<(String, bool)> {
    let given = client.take(&take.limit(10)).await.unwrap().notices;
    for one in &given {
        client.settle(&[&one.event.event_id], one.lease.as_deref(), Verdict::Delivered).await.unwrap();
    }
    let of = |one: &Told| {
        assert_eq!(one.text.contains("(from an earlier conversation: exit 5, started "), one.earlier, "{}", one.text);
        (one.event.session_id.clone(), one.earlier)
    };
    given.iter().map(of).collect()
}

const NOTHING: [(String, bool); 0] = [];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_conversation_that_started_a_process_is_told_of_it_while_it_is_open() {
    let world = World::new().await;
    let (a, b) = (Conversation::begin(&world, "a"), Conversation::begin(&world, "b"));
    let id = ended(&a.asks, &world).await;
    assert_eq!(told(&b.asks, Take::default()).await, NOTHING);
    assert_eq!(told(&b.asks, Take::default().asked()).await, NOTHING);
    assert_eq!(b.asks.activity(outlast_client::Activity::Any).await.unwrap().waiting, Some(0));
    assert_eq!(a.asks.activity(outlast_client::Activity::Any).await.unwrap().waiting, Some(1));
    // It may read by id, which consumes nothing.
    assert_eq!(b.asks.poll(&id).await.unwrap().fate.exit_code, Some(Some(5)));
    assert_eq!(b.asks.wait(&id, None).await.unwrap().status, "exited");
    assert!(b.asks.log(&id, Default::default()).await.unwrap().at_end);
    assert_eq!(told(&a.asks, Take::default().at_a_terminal()).await, [(id, false)]);
    // What the session has without a conversation is for all of them.
    let own = ended(&world.session("s"), &world).await;
    assert_eq!(told(&b.asks, Take::default()).await, [(own, false)]);
    // The owner's own wait consumes.
    let seen = start(&a.asks, &world, "exit 5").await;
    a.asks.wait(&seen, None).await.unwrap();
    assert_eq!(told(&a.asks, Take::default()).await, NOTHING);
    // A person is given everything.
    let id = ended(&a.asks, &world).await;
    assert_eq!(told(&world.session("s"), Take::default()).await, [(id, false)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_of_another_open_conversation_is_changed_only_with_force() {
    let world = World::new().await;
    let (a, b) = (Conversation::begin(&world, "a"), Conversation::begin(&world, "b"));
    let mut spec = Spec::shell("cat").named("web").telling(Tell::end()).with_input();
    spec.owner = a.asks.owner().clone();
    let theirs = a.asks.run(Run::new(spec.clone(), world.caller())).await.unwrap().id().to_string();
    for refused in [
        b.asks.kill(&theirs, Kill::default()).await.unwrap_err(),
        b.asks.write(&theirs, b"x", At::End).await.unwrap_err(),
        b.asks.close(&theirs).await.unwrap_err(),
        b.asks.signal(&theirs, 15).await.unwrap_err(),
        b.asks.resize(&theirs, 10, 10).await.unwrap_err(),
        b.asks.restart("web", world.caller(), Vec::new(), None).await.unwrap_err(),
        b.asks.remove(&theirs).await.unwrap_err(),
    ] {
        assert_eq!(refused.code(), code::OTHER_CONVERSATION, "{refused}");
    }
    assert_eq!(b.asks.kill_all(&Scope::default(), Kill::default()).await.unwrap().killed, 0);
    assert!(b.asks.list(&Scope::default(), false).await.unwrap().is_empty());
    let listed = b.asks.list(&Scope::default(), true).await.unwrap();
    assert!(listed.len() == 1 && listed[0].other_conversation);
    assert!(!a.asks.list(&Scope::default(), false).await.unwrap()[0].other_conversation);
    // A name means the own process, although the other one is newer.
    let own = b.asks.run(Run::new(spec.clone(), world.caller())).await.unwrap().id();
    a.asks.run(Run::new(spec, world.caller())).await.unwrap();
    assert_eq!(b.asks.find("web").await.unwrap().session_id, own);
    assert_eq!(b.asks.kill("web", Kill::default()).await.unwrap().session_id, own);
    assert_eq!(b.asks.forcing().write(&theirs, b"x\n", At::End).await.unwrap().bytes_written, Some(2));
    assert_eq!(b.asks.forcing().kill(&theirs, Kill::default()).await.unwrap().status, "killed");
    // Its owner is told all the same.
    assert_eq!(a.asks.take(&Take::default()).await.unwrap().notices[0].event.session_id, theirs);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_conversation_leaves_passes_to_the_first_that_begins_after_its_end() {
    let mut world = World::new().await;
    let (a, b) = (Conversation::begin(&world, "a"), Conversation::begin(&world, "b"));
    assert_eq!(told(&b.asks, Take::default()).await, NOTHING);
    let id = ended(&a.asks, &world).await;
    let running = start(&a.asks, &world, "sleep 1000").await;
    a.client.end();
    world.restart(|_| {}).await;
    let b = b.again(&world, "b");
    assert_eq!(told(&b.asks, Take::default()).await, NOTHING);
    let c = Conversation::begin(&world, "c");
    assert_eq!(told(&c.asks, Take::default()).await, [(id, true)]);
    let d = Conversation::begin(&world, "d");
    assert_eq!(told(&d.asks, Take::default().asked()).await, NOTHING);
    // Its processes, too, and over the next start of an engine.
    world.restart(|_| {}).await;
    let (c, d) = (c.again(&world, "c"), d.again(&world, "d"));
    assert_eq!(d.asks.kill(&running, Kill::default()).await.unwrap_err().code(), code::OTHER_CONVERSATION);
    assert_eq!(c.asks.kill(&running, Kill::default()).await.unwrap().status, "killed");
    assert_eq!(told(&c.asks, Take::default()).await, NOTHING);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_that_lived_beside_is_told_if_it_asks_and_may_change_what_is_left() {
    let world = World::new().await;
    let (a, b) = (Conversation::begin(&world, "a"), Conversation::begin(&world, "b"));
    assert_eq!(told(&b.asks, Take::default()).await, NOTHING);
    let (id, running) = (ended(&a.asks, &world).await, start(&a.asks, &world, "sleep 1000").await);
    a.client.end();
    // The engine learns of the end by a handle on the process; a conversation that begins makes it look at once.
    let other = world.session("t").with_instance(instance("t", InstanceKind::Client, &b.client));
    assert_eq!(told(&other, Take::default()).await, NOTHING);
    let begun = world.session("s").with_instance(instance("x", InstanceKind::Session { begun: 0 }, &b.client));
    assert_eq!(told(&begun, Take::default()).await, NOTHING);
    assert_eq!(told(&b.asks, Take::default()).await, NOTHING);
    assert_eq!(told(&b.asks, Take::default().asked()).await, [(id, true)]);
    assert_eq!(b.asks.kill(&running, Kill::default()).await.unwrap().status, "killed");
    assert_eq!(told(&b.asks, Take::default().asked()).await, NOTHING, "its kill is its own act");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_servers_of_one_client_are_told_apart_until_one_of_them_has_ended() {
    let world = World::new().await;
    let client = Life::begin();
    let server =
        |key: &str, life: &Life| world.session("s").with_instance(instance(key, InstanceKind::Server { server: life.is() }, &client));
    let (one, two) = (Life::begin(), Life::begin());
    let (a, b) = (server("a", &one), server("b", &two));
    assert_eq!(told(&b, Take::default()).await, NOTHING);
    let first = ended(&a, &world).await;
    assert_eq!(told(&b, Take::default().asked()).await, NOTHING);
    // A hook of the client is given what any of its servers started, and the servers are given what it has.
    let hook = world.session("s").with_instance(instance("hook", InstanceKind::Client, &client));
    assert_eq!(told(&hook, Take::default()).await, [(first, false)]);
    let second = ended(&a, &world).await;
    one.end();
    let three = Life::begin();
    assert_eq!(told(&b, Take::default()).await, NOTHING);
    // Perhaps the same conversation goes on with another server, so it is not marked.
    assert_eq!(told(&server("c", &three), Take::default()).await, [(second, false)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_is_not_known_is_told_of_nothing_that_belongs_to_an_open_one() {
    let world = World::new().await;
    let (a, server) = (Conversation::begin(&world, "a"), Life::begin());
    let unknown = world.session("s").with_instance(instance("", InstanceKind::Unknown, &server));
    let (own, theirs) = (ended(&unknown, &world).await, ended(&a.asks, &world).await);
    assert_eq!(told(&unknown, Take::default()).await, [(own, false)]);
    let own = ended(&unknown, &world).await;
    assert_eq!(told(&unknown.with_instance(None), Take::default().limit(1)).await.len(), 2, "{own} {theirs}");
    let theirs = ended(&a.asks, &world).await;
    a.client.end();
    // Makes the engine look.
    let b = Conversation::begin(&world, "b");
    assert_eq!(told(&b.asks, Take::default()).await, [(theirs, true)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resumed_conversation_is_the_same_and_a_launcher_is_no_client() {
    let world = World::new().await;
    let (a, b) = (Conversation::begin(&world, "named"), Conversation::begin(&world, "b"));
    assert_eq!(told(&b.asks, Take::default()).await, NOTHING);
    let id = ended(&a.asks, &world).await;
    a.client.end();
    let again = Conversation::begin(&world, "named");
    assert_eq!(told(&again.asks, Take::default()).await, [(id, false)]);
    // The process that started this server is gone. The server itself is not.
    let (launcher, server) = (Life::begin(), Life::begin());
    let about = instance("launched", InstanceKind::Server { server: server.is() }, &launcher);
    launcher.end();
    let launched = world.session("s").with_instance(about);
    let id = ended(&launched, &world).await;
    let c = Conversation::begin(&world, "c");
    assert_eq!(told(&c.asks, Take::default().asked()).await, NOTHING);
    assert_eq!(told(&launched, Take::default()).await, [(id, false)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_person_runs_again_stays_with_the_conversation_that_started_it() {
    let world = World::new().await;
    let (a, b) = (Conversation::begin(&world, "a"), Conversation::begin(&world, "b"));
    assert_eq!(told(&b.asks, Take::default()).await, NOTHING);
    let old = start(&a.asks, &world, "sleep 1000").await;
    let new = world.client.restart(&old, world.caller(), Vec::new(), None).await.unwrap().new.session_id.to_string();
    assert_eq!(b.asks.kill(&new, Kill::default()).await.unwrap_err().code(), code::OTHER_CONVERSATION);
    world.client.kill(&new, Kill::default()).await.unwrap();
    let first = ended(&a.asks, &world).await;
    let again = world.client.rerun(&first, world.caller(), Vec::new()).await.unwrap().session_id;
    world.client.process(again).wait(None).await.unwrap();
    assert_eq!(told(&b.asks, Take::default().asked()).await, NOTHING);
    assert_eq!(told(&a.asks, Take::default()).await, [(new, false), (again.to_string(), false)]);
    // What it left is no less its own.
    let last = ended(&a.asks, &world).await;
    a.client.end();
    let again = world.client.rerun(&last, world.caller(), Vec::new()).await.unwrap().session_id;
    world.client.process(again).wait(None).await.unwrap();
    assert_eq!(told(&b.asks, Take::default()).await, NOTHING);
    assert_eq!(told(&Conversation::begin(&world, "c").asks, Take::default()).await, [(again.to_string(), true)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_is_resumed_while_it_is_open_ends_with_the_last_process_that_serves_it() {
    let mut world = World::new().await;
    let begin = |world: &World| Conversation::begin(world, "named");
    let (first, second) = (begin(&world), begin(&world));
    let id = ended(&first.asks, &world).await;
    assert_eq!(told(&second.asks, Take::default()).await, [(id, false)]);
    let id = ended(&first.asks, &world).await;
    first.client.end();
    let other = Conversation::begin(&world, "other");
    for take in [Take::default(), Take::default().asked()] {
        assert_eq!(told(&other.asks, take).await, NOTHING);
    }
    assert_eq!(told(&second.asks, Take::default()).await, [(id, false)]);
    // The one that began to serve it last ends, once while an engine runs and once between two.
    for is_between in [false, true] {
        let (id, last) = (ended(&second.asks, &world).await, begin(&world));
        assert!(last.asks.poll(&id).await.is_ok());
        if is_between {
            world.engine.stop().await;
        }
        last.client.end();
        if is_between {
            world.restart(|_| {}).await;
        }
        let other = Conversation::begin(&world, "another");
        assert_eq!(told(&other.asks, Take::default().asked()).await, NOTHING);
        let second =
            world.session("s").with_instance(instance("named", InstanceKind::Server { server: second._server.is() }, &second.client));
        assert_eq!(told(&second, Take::default()).await, [(id, false)]);
    }
    second.client.end();
}
