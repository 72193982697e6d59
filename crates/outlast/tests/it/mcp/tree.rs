//! Who ends an agent may end all that it has started, and their children.

use super::*;
use crate::gate::Gate;
use std::collections::HashMap;

/// A process and all that come from it, by what each says of its parent.
fn tree(of: u32) -> Vec<u32> {
    let all = std::fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
    for pid in all {
        if let Some(parent) = outlast_store::os::parent_of(pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let (mut found, mut seen) = (vec![of], 0);
    while let Some(pid) = found.get(seen) {
        found.extend(children.remove(pid).unwrap_or_default());
        seen += 1;
    }
    found
}

#[test]
fn who_kills_a_server_with_all_its_children_harms_no_command() {
    let p = product();
    let gate = Gate::new(&p, "gate");
    // No engine was started before.
    let mut agent = Agent::old(&p, "a", &[]);
    let begun = agent.tool("run", json!({"command": format!("{}; echo through; exit 9", gate.wait()), "wait_seconds": 0}));
    assert_eq!(begun["status"], "running", "{begun}");
    let engine = p.engine();
    for pid in tree(agent.pid()) {
        assert_ne!(pid, engine, "the engine is in the tree of the server");
        // What has ended since is gone already.
        let _gone = kill_and_wait(pid);
    }
    gate.open();
    let mut agent = Agent::old(&p, "a", &[]);
    let told = agent.tool("notices", json!({"wait_seconds": 60}));
    assert_eq!((&told["notices"][0]["event"]["exit_code"], p.engine()), (&json!(9), engine), "{told}");
    agent.leave();
}
