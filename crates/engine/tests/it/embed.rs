use crate::world::{clear, config};
use outlast_client::{Client, Connect, Owner, Process, Run, Scope, Spec, Status, Take, Tell, Verdict, caller};
use outlast_engine::{Engine, ServeError};
use outlast_testkit::{built, product::Product};
use std::path::Path;
use std::time::Duration;
use tokio::runtime::Runtime;

const LONG: Duration = Duration::from_secs(60);

/// A home without an engine.
struct Home {
    tmp: tempfile::TempDir,
}

impl Home {
    fn new() -> Self {
        Self { tmp: tempfile::Builder::new().prefix("oe-").tempdir().unwrap() }
    }

    /// An engine of its own, and a client of a session.
    async fn open(&self) -> (Engine, Client) {
        let began = std::time::Instant::now();
        let engine = loop {
            match Engine::start(config(&self.tmp)).await {
                // A program that another test starts right now has the lock of the last engine until its exec, and no descriptor reports
                // when.
                Err(ServeError::Taken { .. }) if began.elapsed() < LONG => tokio::task::yield_now().await,
                started => break started.unwrap(),
            }
        };
        let client = Client::over(engine.connect()).await.unwrap();
        (engine, client.with_owner(Owner::session("chat")))
    }

    /// Starts a command that ends after `let_go`.
    async fn start(&self, client: &Client) -> Process {
        let line = format!("echo begun; read line < {}; echo $line; exit 3", self.door().display());
        let env = [("PATH".into(), "/usr/bin:/bin".into())];
        client.run(Run::new(Spec::shell(line).telling(Tell::end()), caller(env, self.tmp.path()))).await.unwrap()
    }

    fn door(&self) -> std::path::PathBuf {
        let door = self.tmp.path().join("door");
        if !door.exists() {
            let path = std::ffi::CString::new(door.as_os_str().as_encoded_bytes()).unwrap();
            rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        }
        door
    }

    /// Lets the command end. Opening the pipe waits until the command reads it.
    fn let_go(&self) {
        std::fs::write(self.door(), "and ended\n").unwrap();
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        clear(self.tmp.path());
    }
}

/// The ends that are delivered now, each acknowledged.
async fn told(client: &Client, wait: Duration) -> Vec<String> {
    let given = client.take(&Take::default().limit(10).wait_at_most(wait)).await.unwrap();
    for told in &given.notices {
        client.settle(&[&told.event.event_id], told.lease.as_deref(), Verdict::Delivered).await.unwrap();
    }
    given.notices.into_iter().map(|told| format!("{} {}", told.event.kind(), told.event.session_id)).collect()
}

#[test]
fn what_an_embedded_engine_started_outlasts_it_and_is_told_once() {
    let home = Home::new();
    let id = {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let (_engine, client) = home.open().await;
            home.start(&client).await.id()
        })
        // The engine is not stopped: it goes with its runtime, in the middle of everything.
    };
    home.let_go();
    let runtime = Runtime::new().unwrap();
    runtime.block_on(async {
        let (engine, client) = home.open().await;
        assert_eq!(told(&client, LONG).await, [format!("completion {id}")]);
        let info = client.process(id).poll().await.unwrap();
        assert_eq!((info.status, info.fate.exit_code), (Status::Exited, Some(Some(3))));
        assert_eq!(info.output_preview.as_deref(), Some("begun\nand ended\n"));
        assert!(told(&client, Duration::ZERO).await.is_empty());
        engine.stop().await;
        let (engine, client) = home.open().await;
        assert!(told(&client, Duration::ZERO).await.is_empty());
        engine.stop().await;
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_has_one_engine_and_a_second_one_is_told_so() {
    let home = Home::new();
    let (engine, client) = home.open().await;
    let process = home.start(&client).await;
    let taken = Engine::start(config(&home.tmp)).await.unwrap_err();
    assert!(matches!(&taken, ServeError::Taken { home: whose } if *whose == engine.home()), "{taken:?}");
    // Other programs can connect to the engine once it listens.
    let to = Connect::to(engine.home());
    assert!(Client::connect(&to).await.map(|_| ()).unwrap_err().is_not_running());
    engine.listen().await.unwrap();
    engine.listen().await.unwrap();
    let other = Client::connect(&to).await.unwrap();
    assert_eq!(other.list(&Scope::default(), false).await.unwrap()[0].session_id, process.id());
    tokio::task::block_in_place(|| home.let_go());
    assert_eq!(other.process(process.id()).wait(Some(LONG)).await.unwrap().status, "exited");
    engine.stop().await;
    assert!(Client::connect(&to).await.map(|_| ()).unwrap_err().is_not_running());
}

/// The id of what the example started.
fn embedded(product: &Product, command: &str) -> String {
    let mut example = std::process::Command::new(built::program("examples/embed"));
    example.arg(product.home().root).arg(command).current_dir(product.work()).env_clear();
    example.env("HOME", product.user()).env("SHELL", "/bin/sh").env("PATH", "/usr/bin:/bin");
    let said = example.output().unwrap();
    let said = (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
    let line = said.0.lines().find_map(|line| line.strip_suffix(" started"));
    line.unwrap_or_else(|| panic!("{said:?}")).to_owned()
}

#[test]
fn the_example_leaves_its_process_to_the_command_line() {
    let product = Product::new(built::program("outlast"));
    let held = product.work().join("held");
    std::fs::write(&held, "").unwrap();
    let id = embedded(&product, &format!("echo begun; while test -e {}; do sleep 0.01; done; exit 3", Path::display(&held)));
    assert_eq!(product.json(["poll", &id])["status"], "running");
    std::fs::remove_file(held).unwrap();
    let end = product.json(["events", "next", "--wait", "60"]);
    assert_eq!(
        (&end["notices"][0]["event"]["session_id"], &end["notices"][0]["event"]["exit_code"]),
        (&id.clone().into(), &3.into()),
        "{end}"
    );
    assert_eq!(product.json(["log", &id])["output"], "begun");
}
