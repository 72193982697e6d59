use super::*;

fn with(file: &str, env: &[(&str, &str)]) -> Settings {
    let env: Vec<_> = env.iter().map(|(n, v)| (n.to_string(), OsString::from(v))).collect();
    read("/h".into(), "/c/config.toml".into(), Ok(file.into()), Some(Path::new("/home/me")), move |name| {
        env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone())
    })
}

#[test]
fn without_a_word_the_contract_counts() {
    let s = with("", &[]);
    assert_eq!(s.grace, Duration::from_secs(2));
    assert_eq!(s.max_age, Duration::from_secs(86_400));
    assert_eq!(s.wait_limit, Duration::from_secs(180));
    assert_eq!(s.keep_for, Duration::from_secs(7 * 86_400));
    assert_eq!((s.keep_bytes, s.log_tail_bytes, s.max_running), (5 << 30, 64 << 20, 1024));
    assert_eq!((s.idle_exit, s.snapshot_limit), (Duration::from_secs(60), Duration::from_secs(10)));
    assert!(s.redact && s.warnings.is_empty());
    assert!(s.shown.iter().all(|v| v.from == Origin::Default));
    assert_eq!(s.shown.len(), keys::keys().count());
    assert!(s.shown.iter().all(|v| keys::keys().any(|key| key == v.key)));
}

#[test]
fn paths_are_relative_to_the_file_and_a_tilde_is_the_home_directory() {
    let file = "[gateway.agents]\na = {argv = ['a'], env_file = '~/env'}\nb = {argv = ['b'], env_file = 'env'}\nc = {argv = ['c'], env_file = '/env'}";
    let s = with(file, &[]);
    let found: Vec<_> = s.gateway.agents.values().map(|a| a.env_file.clone().unwrap()).collect();
    assert_eq!(found, ["/home/me/env", "/c/env", "/env"].map(PathBuf::from));
}

#[test]
fn the_environment_is_over_the_file() {
    let file = "terminal.daemon_term_grace_seconds = 5\nretention.bytes = '2GiB'\n[security]\nredact_secrets = false";
    let s = with(file, &[("OUTLAST_TERM_GRACE_SECONDS", "0.5")]);
    assert_eq!(s.grace, Duration::from_millis(500));
    assert_eq!(s.origin("terminal.daemon_term_grace_seconds"), Origin::Env("OUTLAST_TERM_GRACE_SECONDS"));
    assert_eq!(s.keep_bytes, 2 << 30);
    assert_eq!(s.origin("retention.bytes"), Origin::File);
    assert!(!s.redact);
}

#[test]
fn case_153_a_negative_grace_is_none_and_an_unreadable_one_the_default() {
    assert_eq!(with("", &[("OUTLAST_TERM_GRACE_SECONDS", "-3")]).grace, Duration::ZERO);
    for bad in ["soon", "nan", "inf", ""] {
        let s = with("", &[("OUTLAST_TERM_GRACE_SECONDS", bad)]);
        assert_eq!(s.grace, Duration::from_secs(2), "{bad}");
        assert_eq!(s.warnings.len(), 1);
    }
    let s = with("not toml at all", &[]);
    assert_eq!(s.grace, Duration::from_secs(2));
    assert!(s.warnings[0].contains("/c/config.toml"), "{:?}", s.warnings);
}

#[test]
fn a_bad_value_is_named_with_its_default() {
    let s = with("terminal.timeout = 'long'\n[limits]\nmax_runing = 3", &[]);
    assert_eq!(s.wait_limit, Duration::from_secs(180));
    assert_eq!(
        s.warnings,
        [
            "/c/config.toml has the unknown key limits.max_runing, which does nothing; did you mean limits.max_running?",
            "terminal.timeout = a text of 4 characters (config.toml) makes no sense; using the default 180",
        ]
    );
    let s = with("", &[("TERMINAL_TIMEOUT", "1.5")]);
    assert_eq!(s.wait_limit, Duration::from_secs(180));
    assert!(s.warnings[0].contains("environment (TERMINAL_TIMEOUT)"), "{:?}", s.warnings);
}

#[test]
fn redaction_heeds_both_names() {
    assert!(!with("", &[("HERMES_REDACT_SECRETS", "false")]).redact);
    assert!(with("", &[("HERMES_REDACT_SECRETS", "false"), ("OUTLAST_REDACT_SECRETS", "on")]).redact);
    let s = with("", &[("OUTLAST_REDACT_SECRETS", "maybe")]);
    assert!(s.redact && s.warnings.len() == 1);
}

#[test]
fn how_much_is_told_of_matches_can_be_set() {
    assert_eq!(with("", &[]).watch, Rules::default());
    assert_eq!(with("", &[]).keep_notices, Duration::from_secs(7 * 86_400));
    let file = "[watch]\nspacing_seconds = 0.5\nstrikes = 2\nlifetime = 0\nburst = 4\nwindow_seconds = 3\nrest_seconds = 6\n[retention]\nnotice_days = 0.5";
    let s = with(file, &[("OUTLAST_WATCH_BURST", "9")]);
    let want = Rules {
        spacing: Duration::from_millis(500),
        strikes: 2,
        lifetime: None,
        burst: 9,
        window: Duration::from_secs(3),
        rest: Duration::from_secs(6),
    };
    assert_eq!((s.watch, s.keep_notices), (want, Duration::from_secs(43_200)));
    assert!(s.warnings.is_empty(), "{:?}", s.warnings);
    // A limit of none would tell nothing at all, which no default means.
    let s = with("watch.burst = 0\nwatch.strikes = -1\nwatch.lifetime = -1\nwatch.spacing_seconds = 'often'", &[]);
    assert_eq!((s.watch, s.warnings.len()), (Rules::default(), 4), "{:?}", s.warnings);
}

#[test]
fn when_conversations_are_reset_can_be_set() {
    let reset = |file: &str| {
        let s = with(file, &[]);
        (s.gateway.reset, s.max_age, s.warnings.len())
    };
    let (minutes, hours) = (|n: u64| Duration::from_secs(n * 60), |n: u64| Duration::from_secs(n * 3600));
    let usual = ResetTable { mode: "none".into(), idle: minutes(1440), at_hour: 4, should_notify: true };
    assert_eq!(reset(""), (usual.clone(), hours(24), 0));
    let file = "[session_reset]\nmode = 'both'\nidle_minutes = 90\nat_hour = 0\nnotify = false\nbg_process_max_age_hours = 0";
    let set = ResetTable { mode: "both".into(), idle: minutes(90), at_hour: 0, should_notify: false };
    assert_eq!(reset(file), (set, Duration::ZERO, 0));
    let junk = "[session_reset]\nmode = 'weekly'\nidle_minutes = 0\nat_hour = 24\nnotify = 'perhaps'\nbg_process_max_age_hours = 'old'";
    assert_eq!(reset(junk), (usual, hours(24), 5));
}

#[test]
fn how_much_is_shown_of_notices_can_be_set() {
    let notices = |file: &str| {
        let s = with(file, &[]);
        (s.gateway.notices, s.warnings.len())
    };
    assert_eq!(notices(""), ("concise".into(), 0));
    for word in ["all", "result", "error", "concise", "off"] {
        assert_eq!(notices(&format!("gateway.notices = '{word}'")), (word.into(), 0));
    }
    assert_eq!(notices("gateway.notices = false"), ("off".into(), 0));
    for junk in ["'loud'", "true", "3"] {
        assert_eq!(notices(&format!("gateway.notices = {junk}")), ("concise".into(), 1), "{junk}");
    }
}

#[test]
fn how_long_agents_may_take_can_be_set_and_is_never_nothing() {
    let limits = |file: &str| with(file, &[]).gateway.limits;
    let seconds = Duration::from_secs;
    let usual = LimitTable { silence: seconds(1800), start: seconds(180), permission: seconds(60) };
    assert_eq!(limits(""), usual);
    let file = "[gateway]\nsilence_seconds = 0.5\nagent_start_seconds = 7\npermission_seconds = 1e300";
    let set = LimitTable { silence: Duration::from_millis(500), start: seconds(7), permission: seconds(365 * 86_400) };
    assert_eq!(limits(file), set);
    assert_eq!(limits("[gateway]\nsilence_seconds = 0\nagent_start_seconds = -1\npermission_seconds = 'soon'"), usual);
}
