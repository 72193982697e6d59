use super::*;
use std::process::{Child, Command as Program};

const NOW: Time = Time::from_micros(1_700_000_000_000_000);

struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        let child = Program::new("sleep").arg("1000").spawn().unwrap();
        // It is there before its arguments are.
        while std::fs::read(format!("/proc/{}/cmdline", child.id())).unwrap().is_empty() {
            std::thread::yield_now();
        }
        Self(child)
    }
    fn life(&self) -> Incarnation {
        incarnation_of(self.0.id()).unwrap()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

fn bin() -> &'static Path {
    Path::new("/nowhere")
}

fn one(text: &str) -> Result<CheckpointEntry, String> {
    parse(text).unwrap().remove(0)
}

#[test]
fn missing_fields_take_the_contracts_defaults() {
    let entry = one(r#"[{"pid": 42}]"#).unwrap();
    let nobody = Owner::default();
    let wanted = CheckpointEntry {
        id: None,
        pid: 42,
        start: None,
        command: "unknown".into(),
        cwd: None,
        started_at: None,
        owner: nobody,
        tell: Tell::default(),
        watched: false,
    };
    assert_eq!(entry, wanted);
    let entry =
        one(r#"[{"session_id": "proc_ab12000000ff", "command": "make", "pid": 42, "pid_scope": "host", "host_start_time": 99, "cwd": "/x",
             "started_at": 1700000000.5, "task_id": "t", "session_key": "s", "watch_patterns": ["E"], "unknown": 1}]"#)
        .unwrap();
    assert_eq!(entry.id.unwrap().to_string(), "proc_ab12000000ff");
    assert_eq!((entry.start, entry.started_at), (Some(99), Some(Time::from_micros(1_700_000_000_500_000))));
    assert!(entry.watched && entry.tell.is_nothing(), "{entry:?}");
    assert_eq!(entry.owner, Owner { session: Some("s".into()), task: Some("t".into()), generation: None });
}

#[test]
fn one_bad_entry_does_not_spoil_the_others() {
    let all = parse(r#"[7, {"command": "no pid"}, {"pid": -1}, {"pid": 1, "pid_scope": "sandbox"}, {"pid": 5}]"#).unwrap();
    assert_eq!(all.iter().map(Result::is_ok).collect::<Vec<_>>(), [false, false, false, false, true]);
    assert!(all[3].as_ref().unwrap_err().contains("entry 3"));
    assert!(parse("{}").is_err() && parse("[{").is_err());
    assert_eq!(parse("[]").unwrap().len(), 0);
}

#[test]
fn cases_192_to_194_identity_decides() {
    let sleeper = Sleeper::new();
    let life = sleeper.life();
    let entry = |start| CheckpointEntry { start, ..one(&format!(r#"[{{"pid": {}}}]"#, life.pid)).unwrap() };
    assert_eq!(from_entry(entry(None), bin(), NOW).unwrap().of, life);
    assert_eq!(from_entry(entry(Some(life.start_ticks)), bin(), NOW).unwrap().of, life);
    assert!(from_entry(entry(Some(life.start_ticks + 1)), bin(), NOW).unwrap_err().contains("another process by now"));
}

#[test]
fn case_191_what_is_dead_is_not_taken_in() {
    let mut child = Program::new("true").spawn().unwrap();
    // Not reaped yet: a zombie counts as dead.
    rustix::process::waitid(
        rustix::process::WaitId::Pid(rustix::process::Pid::from_child(&child)),
        rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT,
    )
    .unwrap();
    assert!(from_pid(child.id(), Owner::default(), bin(), NOW).unwrap_err().contains("not alive"));
    child.wait().unwrap();
    assert!(from_pid(child.id(), Owner::default(), bin(), NOW).unwrap_err().contains("not alive"));
}

#[test]
fn case_213_our_own_programs_are_not_taken_in() {
    let sleeper = Sleeper::new();
    let exe = std::fs::read_link(format!("/proc/{}/exe", sleeper.0.id())).unwrap();
    for (pid, bin) in [(std::process::id(), bin()), (1, bin()), (sleeper.0.id(), exe.parent().unwrap())] {
        assert!(from_pid(pid, Owner::default(), bin, NOW).unwrap_err().contains("Outlast's own"), "{pid}");
    }
}

#[test]
fn a_pid_tells_its_command_directory_and_age() {
    let sleeper = Sleeper::new();
    let found = from_pid(sleeper.0.id(), Owner::default(), bin(), outlast_store::os::now()).unwrap();
    assert_eq!(found.spec.command.shown(), "sleep 1000");
    assert_eq!(found.cwd.as_path(), std::env::current_dir().unwrap());
    let age = outlast_store::os::now().micros() - found.started_at.micros();
    assert!((-2_000_000..60_000_000).contains(&age), "{age}");
}
