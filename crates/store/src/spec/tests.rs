use super::*;
use std::os::unix::fs::MetadataExt;

const SECRET: &str = "hunter2";

fn folder() -> (tempfile::TempDir, ProcessDir) {
    let place = tempfile::tempdir().unwrap();
    let dir = ProcessDir { path: place.path().to_owned() };
    (place, dir)
}

pub(crate) fn request() -> (Kept, Launch) {
    let keep = Keep { head: 1, segment: 2, tail: 3 };
    let mut spec = Spec::with_everything();
    spec.timeout = Some(Duration::from_micros(1));
    let kept = Kept {
        id: ProcessId::from_bytes([1, 2, 3, 4, 5, 6]),
        spec,
        hash: "ab".repeat(32),
        accepted_at: Time::from_micros(-1),
        cwd: "/tmp".into(),
        shell: Some("/bin/bash".into()),
        command_scrubbed: true,
        masks: None,
        env_scrubbed: vec!["TOKEN".into()],
        warnings: vec!["no cgroup".into()],
        keep,
    };
    let launch = Launch {
        program: "/bin/echo".into(),
        argv: vec!["echo".into(), vec![0xfe].into(), SECRET.into()],
        env: vec![EnvVar { name: "TOKEN".into(), value: SECRET.into() }, EnvVar { name: vec![0xff].into(), value: "".into() }],
        cwd: "/tmp".into(),
        pty: Some((30, 120)),
        stdin: true,
        timeout: Some(Duration::from_secs(5)),
        keep,
        home: "/home/me/.local/state/outlast".into(),
        run_dir: "/run/user/1000/outlast".into(),
        engine: Some("/usr/bin/outlast".into()),
        cgroup: Some("/sys/fs/cgroup/x".into()),
        oom_score_adj: 500,
        grace: Duration::from_secs(2),
        umask: Some(0o027),
        nofile: Some(1024),
        program_shown: Some("/bin/***".into()),
        cwd_shown: Some("/***".into()),
        limits: Some(serde_json::from_str(r#"{"resources":{"cpu":{},"nofile":{"soft":1,"hard":2}},"nice":-5,"scheduler":{"policy":3,"priority":0},"io_priority":16388,"cpus":"0-1"}"#).unwrap()),
    };
    (kept, launch)
}

fn kept_end(dir: &ProcessDir) -> usize {
    Open::of(dir, OFlags::RDONLY).unwrap().kept_end().unwrap() as usize
}

#[test]
fn a_request_survives_and_its_raw_half_is_gone_once_scrubbed() {
    let (_place, dir) = folder();
    let (kept, launch) = request();
    assert!(matches!(SpecFile::read_kept(&dir), Err(SpecError::Missing { .. })));
    SpecFile::create(&dir, &kept, &launch).unwrap();
    assert_eq!(std::fs::metadata(dir.spec()).unwrap().mode() & 0o777, 0o600);
    assert_eq!(SpecFile::read_kept(&dir).unwrap(), kept);
    assert_eq!(SpecFile::read_launch(&dir).unwrap(), Some(launch.clone()));
    for _ in 0..2 {
        SpecFile::scrub(&dir).unwrap();
        assert_eq!(SpecFile::read_kept(&dir).unwrap(), kept);
        assert_eq!(SpecFile::read_launch(&dir).unwrap(), None);
    }
    assert!(matches!(SpecFile::create(&dir, &kept, &launch), Err(SpecError::Io { .. })));
    assert_eq!(SpecFile::read_kept(&dir).unwrap(), kept);
}

#[test]
fn a_request_with_nothing_special_survives() {
    let (_place, dir) = folder();
    let (kept, launch) = request();
    let kept = Kept { spec: Spec::shell("true"), shell: None, env_scrubbed: vec![], warnings: vec![], ..kept };
    let launch = Launch {
        pty: None,
        timeout: None,
        engine: None,
        cgroup: None,
        env: vec![],
        umask: None,
        nofile: None,
        program_shown: None,
        cwd_shown: None,
        limits: None,
        ..launch
    };
    SpecFile::create(&dir, &kept, &launch).unwrap();
    assert_eq!(SpecFile::read_kept(&dir).unwrap(), kept);
    assert_eq!(SpecFile::read_launch(&dir).unwrap(), Some(launch));
}

#[test]
fn no_secret_is_in_a_debug_text() {
    assert!(!format!("{:?}", request().1).contains(SECRET));
}

#[test]
fn a_request_cut_at_any_byte_is_whole_scrubbed_or_damaged() {
    let (_place, dir) = folder();
    let (kept, launch) = request();
    SpecFile::create(&dir, &kept, &launch).unwrap();
    let bytes = std::fs::read(dir.spec()).unwrap();
    let kept_end = kept_end(&dir);
    for cut in 0..=bytes.len() {
        std::fs::write(dir.spec(), &bytes[..cut]).unwrap();
        match SpecFile::read_kept(&dir) {
            Ok(read) => assert!(cut >= kept_end && read == kept, "cut at {cut}"),
            Err(SpecError::Damaged { .. }) => assert!(cut < kept_end, "cut at {cut}"),
            Err(e) => panic!("cut at {cut}: {e}"),
        }
        match SpecFile::read_launch(&dir) {
            Ok(Some(read)) => assert!(cut == bytes.len() && read == launch, "cut at {cut}"),
            Ok(None) => assert_eq!(cut, kept_end),
            Err(SpecError::Damaged { .. }) => assert!(cut != kept_end && cut < bytes.len(), "cut at {cut}"),
            Err(e) => panic!("cut at {cut}: {e}"),
        }
        scrub_leaves_no_secret(&dir);
    }
}

#[test]
fn a_changed_byte_is_noticed_and_scrubbing_still_works() {
    let (_place, dir) = folder();
    let (kept, launch) = request();
    SpecFile::create(&dir, &kept, &launch).unwrap();
    let bytes = std::fs::read(dir.spec()).unwrap();
    let kept_end = kept_end(&dir);
    for at in 0..bytes.len() {
        for flip in [0x01, 0x08, 0x80, 0xff] {
            let mut bad = bytes.clone();
            bad[at] ^= flip;
            std::fs::write(dir.spec(), &bad).unwrap();
            assert!(SpecFile::read_launch(&dir).is_err(), "{flip:#x} at {at}");
            match SpecFile::read_kept(&dir) {
                Ok(read) => assert!(at >= kept_end && read == kept, "{flip:#x} at {at}"),
                Err(_) => assert!(at < kept_end, "{flip:#x} at {at}"),
            }
            if at >= HEADER.len() {
                scrub_leaves_no_secret(&dir);
            }
        }
    }
}

fn scrub_leaves_no_secret(dir: &ProcessDir) {
    // Damage is reported, and the secrets are still removed.
    let _ = SpecFile::scrub(dir);
    let left = std::fs::read(dir.spec()).unwrap();
    assert!(memchr::memmem::find(&left, SECRET.as_bytes()).is_none());
}

#[test]
fn a_newer_request_is_not_guessed_at() {
    let (_place, dir) = folder();
    std::fs::write(dir.spec(), b"OLSPEC2\nwhatever").unwrap();
    assert!(matches!(SpecFile::read_kept(&dir), Err(SpecError::Newer { .. })));
    let mut bytes = HEADER.to_vec();
    frame::push(&mut bytes, 2, &1, SECTION_LIMIT).unwrap();
    std::fs::write(dir.spec(), &bytes).unwrap();
    assert!(matches!(SpecFile::read_kept(&dir), Err(SpecError::Newer { .. })));
}
