use super::*;
use std::os::unix::fs::symlink;

fn home() -> (tempfile::TempDir, Home) {
    let place = tempfile::tempdir().unwrap();
    let home = Home::new(place.path().join("a/b"));
    (place, home)
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o777
}

const ID: ProcessId = ProcessId::from_bytes([1, 2, 3, 4, 5, 6]);

#[test]
fn a_home_is_made_for_its_owner_alone_and_made_again() {
    let (_place, home) = home();
    home.create().unwrap();
    for folder in [&home.root, &home.processes(), &home.bin(), &home.shell()] {
        assert_eq!(mode(folder), 0o700, "{folder:?}");
    }
    home.create().unwrap();
}

#[test]
fn a_home_that_is_open_is_closed() {
    let (_place, home) = home();
    std::fs::create_dir_all(&home.root).unwrap();
    std::fs::set_permissions(&home.root, std::fs::Permissions::from_mode(0o775)).unwrap();
    home.create().unwrap();
    assert_eq!(mode(&home.root), 0o700);
}

#[test]
fn what_cannot_be_a_home_says_why() {
    let (place, home) = home();
    std::fs::create_dir_all(place.path().join("a")).unwrap();
    std::fs::write(&home.root, "").unwrap();
    assert!(matches!(home.create(), Err(HomeError::NotADirectory { .. })));
    assert!(matches!(Home::new(home.root.join("below")).create(), Err(HomeError::NotADirectory { .. })));
    std::fs::remove_file(&home.root).unwrap();
    symlink("nowhere", &home.root).unwrap();
    assert!(home.create().is_err());
}

#[test]
fn a_link_to_a_folder_of_ours_is_a_home() {
    let (place, home) = home();
    std::fs::create_dir_all(place.path().join("a/real")).unwrap();
    symlink("real", &home.root).unwrap();
    home.create().unwrap();
    assert_eq!(mode(&place.path().join("a/real")), 0o700);
}

#[test]
fn the_folder_of_somebody_else_is_refused() {
    let (_place, home) = home();
    if rustix::process::geteuid().is_root() {
        home.create().unwrap();
        std::os::unix::fs::chown(&home.root, Some(12_345), None).unwrap();
        assert!(matches!(home.create(), Err(HomeError::NotYours { owner: 12_345, .. })));
        std::os::unix::fs::chown(&home.root, Some(0), None).unwrap();
        let link = home.root.with_file_name("link");
        symlink(&home.root, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(12_345), None).unwrap();
        assert!(matches!(Home::new(link).create(), Err(HomeError::NotYours { owner: 12_345, .. })));
    } else {
        assert!(matches!(Home::new("/").create(), Err(HomeError::NotYours { owner: 0, .. })));
    }
}

#[test]
fn a_home_that_cannot_be_written_is_refused() {
    if rustix::process::geteuid().is_root() {
        // No mode keeps root out, but no user can create a directory in /proc.
        assert!(Home::new("/proc/home").create().is_err());
        return;
    }
    let (_place, home) = home();
    home.create().unwrap();
    std::fs::set_permissions(&home.root, std::fs::Permissions::from_mode(0o500)).unwrap();
    assert!(matches!(home.create(), Err(HomeError::ReadOnly { .. })));
    std::fs::set_permissions(&home.root, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn only_folders_named_like_a_process_are_processes() {
    let (_place, home) = home();
    assert_eq!(home.ids().unwrap(), []);
    home.create().unwrap();
    home.process(ID).create().unwrap();
    std::fs::write(home.process(ID).spec(), "").unwrap();
    for stray in ["x", "proc_01", "proc_010203040506.removed"] {
        std::fs::create_dir(home.processes().join(stray)).unwrap();
    }
    std::fs::write(home.processes().join("proc_0000000000aa"), "").unwrap();
    assert_eq!(home.ids().unwrap(), [ID]);
}

#[test]
fn an_id_is_used_once() {
    let (_place, home) = home();
    home.create().unwrap();
    home.process(ID).create().unwrap();
    assert_eq!(mode(&home.process(ID).path), 0o700);
    assert_eq!(home.process(ID).create().unwrap_err().kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn segments_have_one_name_each() {
    let (_place, home) = home();
    home.create().unwrap();
    let dir = home.process(ID);
    assert_eq!(dir.segments().unwrap(), [0_u64; 0]);
    dir.create().unwrap();
    assert_eq!(dir.segment(1 << 20).file_name().unwrap(), "log.000000001048576");
    for first in [5_242_880, 0, 10_u64.pow(16)] {
        std::fs::write(dir.segment(first), "").unwrap();
    }
    for stray in ["log.0", "log.", "log.+00000000000001", "log.00000000000001x", "log.0000000000000001", "log.99999999999999999999999"] {
        std::fs::write(dir.path.join(stray), "").unwrap();
    }
    assert_eq!(dir.segments().unwrap(), [0, 5_242_880, 10_u64.pow(16)]);
}

#[test]
fn a_removal_follows_no_link_and_may_be_cut_short() {
    let (place, home) = home();
    home.create().unwrap();
    let outside = place.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("mine"), "").unwrap();
    let dir = home.process(ID);
    for _ in 0..2 {
        dir.create().unwrap();
        symlink(&outside, dir.path.join("link")).unwrap();
        std::fs::write(dir.journal(), "x").unwrap();
        dir.remove().unwrap();
        assert!(!dir.path.exists());
        dir.remove().unwrap();
    }
    let half = home.processes().join(format!("{ID}.removed"));
    std::fs::create_dir(&half).unwrap();
    symlink(&outside, half.join("link")).unwrap();
    std::fs::create_dir(home.processes().join("other.removed")).unwrap();
    home.sweep().unwrap();
    assert!(!half.exists() && home.processes().join("other.removed").exists());
    assert!(outside.join("mine").exists());
}

#[test]
fn disk_use_counts_what_is_allocated() {
    let (_place, home) = home();
    home.create().unwrap();
    let dir = home.process(ID);
    assert_eq!(dir.disk_bytes().unwrap(), 0);
    dir.create().unwrap();
    std::fs::File::create(dir.meta()).unwrap().set_len(1 << 30).unwrap();
    assert!(dir.disk_bytes().unwrap() < 1 << 20);
}
