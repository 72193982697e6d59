//! Another user of the machine gets nothing: neither from files nor over a socket, also if permissions were opened by hand.

use crate::support::*;
use outlast_testkit::machine::{as_stranger, skipped};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The answer at a socket to an invalid message. Only a client that is let in gets one.
fn answer(socket: &str) -> std::io::Result<Vec<u8>> {
    let mut to = UnixStream::connect(socket)?;
    to.set_read_timeout(Some(PATIENCE))?;
    // Who is turned away at once may be so before this is written.
    let _refused = to.write_all(&outlast_wire::frame::json(&json!({"id": 1})));
    let mut said = vec![0; 4096];
    match to.read(&mut said) {
        Ok(n) => said.truncate(n),
        Err(e) if e.kind() == ErrorKind::ConnectionReset => said.clear(),
        Err(e) => return Err(e),
    }
    Ok(said)
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

#[test]
fn another_user_is_refused_at_every_door() {
    let p = product();
    let id = p.run("echo secret; exec sleep 1000");
    eventually("its output", || (p.meta(&id).commit.base > 0).then_some(()));
    let (home, sockets) = (p.home().root, p.socket_dir().unwrap());
    let names: Vec<String> = std::fs::read_dir(&sockets).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    assert!(names.len() >= 2 && names.iter().any(|n| n == "engine"), "an engine and a keeper listen: {names:?}");
    let connects = |name: &str| as_stranger(&sockets, || answer(name));
    match connects("engine") {
        Err(why) => return skipped("another_user_is_refused_at_every_door", format!("{why:#}")),
        Ok(said) => assert_eq!(said.unwrap_err().kind(), ErrorKind::PermissionDenied),
    }
    let reads = |dir: &Path, name: &str| as_stranger(dir, || std::fs::read(name)).unwrap().unwrap_err().kind();
    assert_eq!(reads(&home, p.home().index().file_name().unwrap().to_str().unwrap()), ErrorKind::PermissionDenied);
    // With every directory opened by hand, each file and each listener still looks after itself.
    open_to_all(&sockets);
    open_to_all(&home);
    let process = p.folder(&id);
    for dir in [process.path.parent().unwrap(), &process.path] {
        open_to_all(dir);
    }
    let kept = std::fs::read_dir(&process.path).unwrap().chain(std::fs::read_dir(&home).unwrap()).map(Result::unwrap);
    for file in kept.filter(|e| e.file_type().unwrap().is_file()) {
        let (path, name) = (file.path(), file.file_name().into_string().unwrap());
        assert_eq!(reads(path.parent().unwrap(), &name), ErrorKind::PermissionDenied, "{}", path.display());
    }
    for name in &names {
        open_to_all(&sockets.join(name));
        let (theirs, ours) = (connects(name).unwrap().unwrap(), answer(&sockets.join(name).to_string_lossy()).unwrap());
        assert!(
            theirs.is_empty() && !ours.is_empty(),
            "{name}: {:?} and {:?}",
            String::from_utf8_lossy(&theirs),
            String::from_utf8_lossy(&ours)
        );
    }
    assert_eq!(p.json(["poll", &id])["phase"], "running");
}
