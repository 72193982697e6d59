use super::*;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

fn tree(child: &Child, id: ProcessId, marked: bool) -> Tree {
    let root = incarnation_of(child.id()).unwrap();
    Tree { id, root, left: Vec::new(), ended_in: None, marked, leaf: None, bin: "/nowhere".into(), heir: None }
}

/// A shell that says a line once everything is set up, then waits.
fn shell(script: &str, id: ProcessId) -> (Child, Vec<u32>) {
    let mut child =
        Command::new("bash").args(["-c", script]).env("OUTLAST_PROCESS_ID", id.to_string()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let pids = line.split_ascii_whitespace().map(|p| p.parse().unwrap()).collect();
    (child, pids)
}

fn id(n: u8) -> ProcessId {
    let mut bytes = std::process::id().to_le_bytes().to_vec();
    bytes.extend([n, 0xee]);
    ProcessId::from_bytes(bytes.try_into().unwrap())
}

fn is_gone(pid: u32) -> bool {
    incarnation_of(pid).is_err() || outlast_store::os::is_zombie(pid)
}

#[tokio::test]
async fn case_155_a_tree_that_ignores_term_is_gone_after_the_grace() {
    let (mut child, pids) = shell("trap '' TERM; sleep 1000 & a=$!; sleep 1000 & echo $a $!; wait; wait", id(1));
    let grace = Duration::from_millis(100);
    let ended = stop(tree(&child, id(1), false), StopWay::Escalate { grace }).await.unwrap();
    assert_eq!((ended.seen_dead.len(), ended.survivors.len(), &ended.unexamined), (3, 0, &Unexamined::default()));
    assert!(pids.iter().all(|p| is_gone(*p)));
    child.wait().unwrap();
}

#[tokio::test]
async fn what_left_the_tree_is_found_by_its_mark() {
    let (mut child, pids) = shell("setsid bash -c 'sleep 1000 & echo $!; exit' & wait; sleep 1000", id(2));
    let mut all = tree(&child, id(2), true);
    assert!(!is_gone(pids[0]));
    // Its root is dead already: what is left is found all the same, and no process has the root's pid.
    child.kill().unwrap();
    child.wait().unwrap();
    all.bin = "/nowhere".into();
    let ended = stop(all, StopWay::Escalate { grace: Duration::ZERO }).await.unwrap();
    assert!(ended.survivors.is_empty() && is_gone(pids[0]), "{ended:?}");
}

/// A process without a mark, as one that cleans its environment.
fn unmarked(command: &str) -> Child {
    Command::new(command).arg("1000").env_remove("OUTLAST_PROCESS_ID").spawn().unwrap()
}

#[tokio::test]
async fn what_was_recorded_as_left_running_is_stopped_without_a_mark_and_without_its_root() {
    let (mut child, _) = shell("echo; exit", id(8));
    let mut left = unmarked("sleep");
    let mut all = tree(&child, id(8), true);
    child.wait().unwrap();
    all.left = vec![incarnation_of(left.id()).unwrap()];
    let ended = stop(all, StopWay::Escalate { grace: Duration::from_secs(5) }).await.unwrap();
    let arguments: Vec<_> = ended.seen_dead.iter().map(|dead| (dead.life.pid, dead.arguments.join(" "))).collect();
    assert_eq!(arguments, [(left.id(), "sleep 1000".to_owned())]);
    left.wait().unwrap();
}

#[tokio::test]
async fn a_stranger_with_the_number_of_one_that_was_left_running_is_not_touched() {
    let (mut child, _) = shell("echo; exit", id(9));
    let mut stranger = unmarked("sleep");
    let mut all = tree(&child, id(9), true);
    child.wait().unwrap();
    let life = incarnation_of(stranger.id()).unwrap();
    all.left = vec![Incarnation { start_ticks: life.start_ticks - 1, ..life }, Incarnation { boot: life.boot ^ 1, ..life }];
    assert_eq!(all.members(), []);
    let ended = stop(all, StopWay::Escalate { grace: Duration::ZERO }).await.unwrap();
    assert_eq!(ended, StoppedTree { seen_dead: vec![], survivors: vec![], unexamined: Unexamined::default() });
    assert!(!is_gone(stranger.id()));
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// A shell that made a session and has ended. What it left there does not carry an id: the life of the shell, and of that process.
fn session_without_its_maker() -> (Incarnation, Incarnation) {
    let line = "trap 'exit' USR1; env -u OUTLAST_PROCESS_ID sleep 1000 >/dev/null & echo $$ $!; wait";
    let mut maker = Command::new("setsid").args(["bash", "-c", line]).stdout(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(maker.stdout.take().unwrap()).read_line(&mut said).unwrap();
    let [root, left] = said.split_whitespace().map(|p| incarnation_of(p.parse().unwrap()).unwrap()).collect::<Vec<_>>()[..] else {
        panic!("{said:?}")
    };
    signal(&root, Signal::USR1.as_raw()).unwrap();
    maker.wait().unwrap();
    assert_eq!((session_of(left.pid), is_alive(&root)), (Some(root.pid), false));
    (root, left)
}

#[tokio::test]
async fn a_session_with_the_number_of_a_command_that_is_over_is_not_taken_for_its_own() {
    let (root, left) = session_without_its_maker();
    let (mut child, _) = shell("echo; exit", id(11));
    let dir = tempfile::tempdir().unwrap();
    let ended = |root: Incarnation| {
        let ended_in = Some(ProcessDir { path: dir.path().to_owned() });
        Tree { root, ended_in, ..tree(&child, id(11), true) }
    };
    // Of another user, so that its environment cannot be read.
    let hidden = Environments { marked: HashMap::new(), unreadable: vec![left] };
    for root in [root, Incarnation { start_ticks: root.start_ticks - 1, ..root }, Incarnation { boot: root.boot ^ 1, ..root }] {
        assert_eq!(ended(root).members_among(&hidden), [], "nothing proves whose session it is");
    }
    let mut known = ended(root);
    known.left = vec![left];
    assert_eq!(known.members_among(&hidden), [left], "it was recorded");
    let alive = Tree { ended_in: None, ..known };
    assert_eq!(Tree { left: Vec::new(), ..alive }.members_among(&hidden), [left], "the number was the command's a moment ago");
    tell(&left, Signal::KILL).unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn without_escalation_all_are_asked_if_the_root_is_dead() {
    let (mut child, _) = shell("echo; exit", id(10));
    let mut left = unmarked("sleep");
    let mut all = tree(&child, id(10), false);
    child.wait().unwrap();
    all.left = vec![incarnation_of(left.id()).unwrap()];
    stop(all, StopWay::TermOnly).await.unwrap();
    use std::os::unix::process::ExitStatusExt as _;
    assert_eq!(left.wait().unwrap().signal(), Some(15));
}

#[tokio::test]
async fn case_159_a_stranger_with_the_same_number_is_not_touched() {
    let (mut child, pids) = shell("sleep 1000 & echo $!; wait", id(3));
    let mut stranger = tree(&child, id(3), false);
    stranger.root.start_ticks += 1;
    let ended = stop(stranger, StopWay::Escalate { grace: Duration::from_millis(10) }).await.unwrap();
    assert_eq!(ended, StoppedTree { seen_dead: vec![], survivors: vec![], unexamined: Unexamined::default() });
    assert!(!is_gone(child.id()) && !is_gone(pids[0]));
    let ended = stop(tree(&child, id(3), false), StopWay::Escalate { grace: Duration::ZERO }).await.unwrap();
    assert_eq!(ended.seen_dead.len(), 2);
    child.wait().unwrap();
}

#[tokio::test]
async fn the_children_of_a_stranger_with_the_roots_number_are_not_touched() {
    let (mut child, pids) = shell("sleep 1000 & echo $!; wait", id(5));
    // What the process started would be found by its mark; this one started nothing that is left.
    let mut stranger = tree(&child, id(6), true);
    stranger.root.start_ticks += 1;
    assert_eq!(stranger.members(), []);
    let ended = stop(stranger, StopWay::Escalate { grace: Duration::from_millis(10) }).await.unwrap();
    assert_eq!(ended, StoppedTree { seen_dead: vec![], survivors: vec![], unexamined: Unexamined::default() });
    assert!(!is_gone(child.id()) && !is_gone(pids[0]));
    stop(tree(&child, id(5), false), StopWay::Escalate { grace: Duration::ZERO }).await.unwrap();
    child.wait().unwrap();
}

#[tokio::test]
async fn case_156_the_root_gets_its_chance_before_its_children() {
    let script = "bash -c 'trap \"echo child-was-told >&2\" TERM; while :; do sleep 0.01; done' 2>\"$0.told\" & c=$!; trap 'kill -9 $c; exit 0' TERM; echo $c; wait";
    let tmp = tempfile::tempdir().unwrap();
    let mark = tmp.path().join("x");
    let mut child = Command::new("bash").args(["-c", script]).arg(&mark).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let ended = stop(tree(&child, id(4), false), StopWay::Escalate { grace: Duration::from_secs(5) }).await.unwrap();
    assert!(ended.survivors.is_empty());
    assert_eq!(std::fs::read_to_string(tmp.path().join("x.told")).unwrap_or_default(), "");
    child.wait().unwrap();
}
