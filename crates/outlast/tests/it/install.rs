//! `install`: the configuration of clients, changed and given back; with the clients themselves where they are installed.

use crate::support::*;
use outlast_testkit::machine::skipped;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

const CLIENTS: [&str; 15] = [
    "claude", "codex", "opencode", "hermes", "kimi", "cursor", "vscode", "gemini", "qwen", "cline", "zed", "windsurf", "goose", "amp",
    "vibe",
];
/// Those of them that have no configuration of a project.
const WITHOUT_PROJECTS: [&str; 5] = ["hermes", "cline", "windsurf", "goose", "vibe"];

/// Everything below the user's home: path, mode and bytes.
fn tree(dir: &Path) -> Vec<(PathBuf, u32, Vec<u8>)> {
    let mut all = Vec::new();
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap().map(|e| e.unwrap()) {
            let meta = fs::symlink_metadata(entry.path()).unwrap();
            if meta.is_dir() {
                dirs.push(entry.path());
            } else {
                all.push((entry.path(), meta.mode(), fs::read(entry.path()).unwrap()));
            }
        }
    }
    all.sort();
    all
}

/// Files as people have them, with comments and secrets of theirs.
fn lived_in(p: &Product) {
    let home = p.user();
    for (path, text) in [
        (
            ".claude.json",
            "{\n  \"numStartups\": 3,\n  \"projects\": {\n    \"/x\": {\"mcpServers\": {}}\n  },\n  \"oauthAccount\": {\"token\": \"s3cret\"}\n}",
        ),
        (".claude/settings.json", "{\"hooks\": {\"Stop\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"say done\"}]}]}}\n"),
        (".codex/config.toml", "model = \"o\" # the good one\r\n\r\n[projects.\"/x\"]\r\ntrust_level = \"trusted\"\r\n"),
        (
            ".config/opencode/opencode.jsonc",
            "// mine\n{\n  \"theme\": \"dark\", // late\n  \"mcp\": {\n    \"other\": {\"type\": \"local\", \"command\": [\"x\"],},\n  },\n}\n",
        ),
        (".hermes/config.yaml", "# mine\nmodel:\n  default: x\nmcp_servers:\n  other: # why\n    command: y\n"),
        (".kimi-code/mcp.json", "{\n\t\"mcpServers\": {}\n}\n"),
        (".cursor/mcp.json", "{\"mcpServers\": {\"other\": {\"url\": \"http://127.0.0.1:9\"}}}"),
        (".config/Code/User/mcp.json", "{\r\n\t// mine\r\n\t\"servers\": {},\r\n\t\"inputs\": [],\r\n}\r\n"),
        (".gemini/settings.json", "{\n  \"security\": { \"auth\": { \"selectedType\": \"gemini-api-key\" } } // a key\n}"),
        (
            ".qwen/settings.json",
            "{\n    \"mcpServers\": {\n        \"other\": { \"command\": \"x\" } /* why */\n    },\n    \"$version\": 3\n}\n",
        ),
        (
            ".cline/data/settings/cline_mcp_settings.json",
            "{\n  \"mcpServers\": {\n    \"other\": {\"transport\": {\"type\": \"stdio\", \"command\": \"x\"}}\n  }\n}",
        ),
        (
            ".config/zed/settings.json",
            "// Zed settings\n//\n// See https://zed.dev/docs\n{\n  \"theme\": \"One Dark\",\n  \"context_servers\": {\n    // none yet\n  },\n}\n",
        ),
        (".codeium/windsurf/mcp_config.json", "{}"),
        (
            ".config/goose/config.yaml",
            "GOOSE_MODEL: x\nextensions:\n  developer:\n    enabled: true\n    type: platform\n    name: developer # all of it\n# end\n",
        ),
        (".config/amp/settings.jsonc", "{\n  // costs\n  \"amp.showCosts\": true,\n}\n"),
        (".vibe/config.toml", "active_model = \"m\" # mine\nmcp_servers = []\n\n[[models]]\nname = \"m\"\n"),
        (".config/outlast/config.toml", "[retention]\ndays = 3 # not more"),
    ] {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn undoing_gives_every_byte_back_and_installing_twice_changes_none() {
    for there in [false, true] {
        let p = product();
        if there {
            lived_in(&p);
        }
        let before = tree(&p.user());
        for client in CLIENTS {
            let done = p.json(["install", client]);
            assert_eq!(done["status"], "installed", "{done}");
            for file in done["files"].as_array().unwrap() {
                let path = Path::new(file["path"].as_str().unwrap());
                assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o600, "{path:?}");
                assert_eq!(file["backup"].is_string(), there, "{done}");
            }
            let once = tree(&p.user());
            assert_eq!(p.json(["install", client])["status"], "unchanged");
            assert!(p.call(["install", client]).text().contains("already installed"));
            assert_eq!(tree(&p.user()), once, "{client}: twice is once");
        }
        let all = tree(&p.user());
        for client in CLIENTS {
            p.call(["install", client, "--print"]).text();
        }
        assert_eq!(tree(&p.user()), all, "to print is not to write");
        for client in CLIENTS {
            let done = p.json(["install", client, "--undo"]);
            assert_eq!(done["status"], "removed", "{done}");
            assert_eq!(p.json(["install", client, "--undo"])["status"], "absent");
        }
        assert_eq!(tree(&p.user()), before, "nothing is left of it");
    }
}

#[test]
fn the_files_of_a_project_are_given_back_too() {
    let p = product();
    let before = tree(&p.work());
    for client in CLIENTS {
        let call = |more: &[&str]| p.json([&["install", client, "--project"], more].concat());
        if WITHOUT_PROJECTS.contains(&client) {
            let refused = call(&[]);
            assert!(refused["hint"].as_str().unwrap().contains("leave --project out"), "{refused}");
            continue;
        }
        assert_eq!(call(&["--print"])["files"][0]["status"], "would be a new file");
        let done = call(&[]);
        let file = Path::new(done["files"][0]["path"].as_str().unwrap());
        assert!(done["status"] == "installed" && file.starts_with(p.work()), "{done}");
        assert_eq!(call(&[])["status"], "unchanged");
        assert_eq!(call(&["--undo"])["status"], "removed", "{client}");
        assert_eq!(tree(&p.work()), before, "{client}");
    }
}

#[test]
fn a_client_that_is_not_known_gets_an_entry_to_paste_and_no_wrong_tip() {
    let p = product();
    let us = p.program().canonicalize().unwrap();
    let before = tree(&p.user());
    for args in [&["install", "--print", "generic"][..], &["install", "generic"], &["install", "aider", "--print"]] {
        let said = p.call(args).good();
        let entry: Value = serde_json::from_slice(&said.out).unwrap();
        assert_eq!(entry["mcpServers"]["outlast"]["command"], json!(us), "{said:?}");
        assert!(said.err.contains("660 s"), "{said:?}");
    }
    let asked = p.json(["install", "generic", "--profile", "codex"]);
    assert!(asked["files"][0]["text"].as_str().unwrap().contains("\"--profile\", \"codex\""), "{asked}");
    let refused = p.json(["install", "aider"]);
    let hint = refused["hint"].as_str().unwrap();
    assert!(refused["error"].as_str().unwrap().contains("nothing was written") && hint.contains(us.to_str().unwrap()), "{refused}");
    assert_eq!(p.call(["install", "aider"]).code, Some(2));
    for flag in ["--undo", "--project", "--wake", "--ask"] {
        let refused = p.json(["install", "generic", flag]);
        assert!(refused["error"].as_str().unwrap().contains(flag), "{refused}");
    }
    let near = p.call(["install", "claud"]);
    assert!(near.code == Some(2) && near.err.contains("'claude'"), "{near:?}");
    assert_eq!(tree(&p.user()), before);
}

#[test]
fn a_server_of_the_user_with_our_name_is_refused_in_every_form_of_a_client() {
    let p = product();
    for (client, file, theirs) in [
        ("windsurf", ".codeium/windsurf/mcp_config.json", r#"{"mcpServers": {"outlast": {"serverUrl": "http://127.0.0.1:9"}}}"#),
        ("gemini", ".gemini/settings.json", r#"{"mcpServers": {"outlast": {"httpUrl": "http://127.0.0.1:9"}}}"#),
        (
            "cline",
            ".cline/data/settings/cline_mcp_settings.json",
            r#"{"mcpServers": {"outlast": {"transport": {"type": "stdio", "command": "outlast"}}}}"#,
        ),
        ("goose", ".config/goose/config.yaml", "extensions:\n  outlast:\n    type: stdio\n    cmd: other\n    args: []\n"),
        ("vibe", ".vibe/config.toml", "[[mcp_servers]]\nname = \"outlast\"\ntransport = \"http\"\nurl = \"http://127.0.0.1:9\"\n"),
    ] {
        let path = p.user().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, theirs).unwrap();
        let refused = p.json(["install", client]);
        assert!(refused["error"].as_str().unwrap().contains("another server of the name outlast"), "{client}: {refused}");
        p.json(["install", client, "--undo"]);
        assert_eq!(fs::read_to_string(&path).unwrap(), theirs);
    }
}

#[test]
fn what_was_done_since_stays_and_the_copy_is_kept() {
    let p = product();
    lived_in(&p);
    p.json(["install", "codex"]);
    let file = p.user().join(".codex/config.toml");
    let more = fs::read_to_string(&file).unwrap() + "\r\n[tools]\r\nweb = true\r\n";
    fs::write(&file, &more).unwrap();
    let done = p.call(["install", "codex", "--undo"]);
    assert!(done.err.contains("config.toml.outlast-backup-1"), "{done:?}");
    let left = fs::read_to_string(&file).unwrap();
    assert_eq!(left, "model = \"o\" # the good one\r\n\r\n[projects.\"/x\"]\r\ntrust_level = \"trusted\"\r\n\r\n[tools]\r\nweb = true\r\n");
}

#[test]
fn another_profile_and_another_path_are_put_in_place() {
    let p = product();
    lived_in(&p);
    let entry = || {
        let text = fs::read_to_string(p.user().join(".claude.json")).unwrap();
        serde_json::from_str::<Value>(&text).unwrap()["mcpServers"]["outlast"].clone()
    };
    p.json(["install", "claude"]);
    let us = p.program().canonicalize().unwrap();
    let home = p.home().root;
    assert_eq!(entry(), json!({"type": "stdio", "command": us, "args": ["mcp"], "env": {"OUTLAST_HOME": home}}));
    p.json(["install", "claude", "--profile", "hermes"]);
    assert_eq!(entry()["args"], json!(["mcp", "--profile", "hermes"]));
    let copies =
        |dir: &Path| fs::read_dir(dir).unwrap().filter(|e| e.as_ref().unwrap().path().to_string_lossy().contains("backup")).count();
    assert_eq!(copies(&p.user()), 1, "one copy, of what was there before");
    let settings: Value = serde_json::from_str(&fs::read_to_string(p.user().join(".claude/settings.json")).unwrap()).unwrap();
    let stop = settings["hooks"]["Stop"].as_array().unwrap();
    assert_eq!((stop.len(), &stop[0]["hooks"][0]["command"], &stop[1]["hooks"][1]["asyncRewake"]), (2, &json!("say done"), &json!(true)));
}

#[test]
fn before_a_value_is_replaced_a_copy_is_kept_and_undoing_leaves_none() {
    for there in [false, true] {
        let p = product();
        if there {
            lived_in(&p);
        }
        let before = tree(&p.user());
        let kept = |done: Value| -> Vec<String> {
            let files = done["files"].as_array().unwrap().clone();
            files.iter().filter_map(|file| file["backup"].as_str()).map(|path| fs::read_to_string(path).unwrap()).collect()
        };
        for (client, file) in [("codex", ".codex/config.toml"), ("hermes", ".hermes/config.yaml")] {
            p.json(["install", client, "--profile", "codex"]);
            let file = p.user().join(file);
            let text = fs::read_to_string(&file).unwrap();
            let had = tree(&p.user()).len();
            // Another profile replaces the first one, and perhaps something of the user's.
            assert_eq!(kept(p.json(["install", client, "--profile", "native"])), [text.as_str()], "{client}");
            assert_eq!(p.json(["install", client, "--profile", "native"])["status"], "unchanged");
            assert_eq!(tree(&p.user()).len(), had + 1);
            // Another path does not.
            let us = p.program().canonicalize().unwrap();
            let text = fs::read_to_string(&file).unwrap();
            fs::write(&file, text.replace(us.to_str().unwrap(), "/old/outlast")).unwrap();
            assert_eq!(kept(p.json(["install", client, "--profile", "native"])), [""; 0]);
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
            let undone = p.json(["install", client, "--undo"]);
            assert!(undone["status"] == "removed" && !undone["notes"].to_string().contains("backup"), "{undone}");
        }
        assert_eq!(tree(&p.user()), before, "nothing is left of it");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_line_and_nothing_is_changed() {
    let p = product();
    lived_in(&p);
    for (client, path, text, line) in [
        ("claude", ".claude/settings.json", "{\n  \"hooks\": {\n", ", line 3: "),
        ("codex", ".codex/config.toml", "a = 1\nb =\n", ", line 2: "),
        ("codex", ".config/outlast/config.toml", "x\n", ", line 1: "),
        ("opencode", ".config/opencode/opencode.jsonc", "{\n  theme: 1\n}\n", ", line 2: "),
        ("hermes", ".hermes/config.yaml", "a: 1\n b: 2\n", ", line 2: "),
        ("kimi", ".kimi-code/mcp.json", "{\"mcpServers\": {]\n", ", line 1: "),
    ] {
        let path = p.user().join(path);
        let was = fs::read(&path).unwrap();
        fs::write(&path, text).unwrap();
        let before = tree(&p.user());
        for undo in [&[][..], &["--undo"]] {
            let refused = p.json(["install", client].iter().chain(undo));
            let error = refused["error"].as_str().unwrap();
            assert!(error.contains(line) && error.contains(path.to_str().unwrap()), "{refused}");
            assert_eq!((&refused["code"], tree(&p.user()) == before), (&json!("usage"), true), "{refused}");
        }
        fs::write(&path, was).unwrap();
    }
    let path = p.user().join(".hermes/config.yaml");
    fs::write(&path, "mcp_servers: [a]\n").unwrap();
    let refused = p.call(["install", "hermes"]);
    assert_eq!(refused.code, Some(1));
    assert!(
        refused.err.contains("mcp_servers is not a mapping") && refused.err.contains("    command: /"),
        "it shows what to paste: {refused:?}"
    );
}

#[test]
fn links_stay_links() {
    let p = product();
    let real = p.work().join("dotfiles.toml");
    fs::write(&real, "a = 1\n").unwrap();
    fs::create_dir_all(p.user().join(".codex")).unwrap();
    let link = p.user().join(".codex/config.toml");
    std::os::unix::fs::symlink(&real, &link).unwrap();
    p.json(["install", "codex"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::read_to_string(&real).unwrap().contains("[mcp_servers.outlast]"));
    p.json(["install", "codex", "--undo"]);
    assert_eq!(fs::read_to_string(&real).unwrap(), "a = 1\n");
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
}

#[test]
fn a_project_has_files_of_its_own_and_hermes_has_none() {
    let p = product();
    for client in ["claude", "codex", "opencode", "kimi"] {
        let done = p.json(["install", client, "--project"]);
        assert!(done["files"][0]["path"].as_str().unwrap().starts_with(p.work().to_str().unwrap()), "{done}");
    }
    assert!(p.work().join(".mcp.json").is_file() && p.work().join(".kimi-code/mcp.json").is_file());
    assert!(p.json(["install", "hermes", "--project"])["error"].as_str().unwrap().contains("no configuration of a project"));
    assert_eq!(p.call(["install", "emacs"]).code, Some(2));
    for client in ["claude", "codex", "opencode", "kimi"] {
        p.json(["install", client, "--project", "--undo"]);
    }
    assert!(!p.work().join(".mcp.json").exists());
}

#[test]
fn another_server_with_our_name_is_left_alone() {
    let p = product();
    let other = "{\"url\": \"http://127.0.0.1:9/mcp\"}";
    for (client, path, text) in [
        ("claude", ".claude.json", format!("{{\"mcpServers\": {{\"outlast\": {other}}}}}")),
        ("codex", ".codex/config.toml", "[mcp_servers.outlast]\nurl = \"http://127.0.0.1:9/mcp\"\n".into()),
        ("codex", ".codex/config.toml", "[mcp_servers.outlast]\ncommand = \"/opt/mine\"\n".into()),
        ("opencode", ".config/opencode/opencode.json", format!("{{\"mcp\": {{\"outlast\": {other}}}}}")),
        ("hermes", ".hermes/config.yaml", "mcp_servers:\n  outlast:\n    url: http://127.0.0.1:9/mcp\n".into()),
        ("kimi", ".kimi-code/mcp.json", "{\"mcpServers\": {\"outlast\": {\"command\": \"npx\", \"args\": [\"x\"]}}}".into()),
    ] {
        let path = p.user().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        let before = tree(&p.user());
        let refused = p.json(["install", client]);
        assert!(refused["error"].as_str().unwrap().contains("another server of the name outlast"), "{refused}");
        assert!(p.call(["install", client, "--print"]).text().contains("another server"));
        let undone = p.json(["install", client, "--undo"]);
        assert_eq!((&undone["status"], tree(&p.user()) == before), (&json!("absent"), true), "{undone}");
        fs::remove_file(&path).unwrap();
    }
}

#[test]
fn a_file_that_is_read_only_stays_as_it_is() {
    let p = product();
    lived_in(&p);
    let settings = p.user().join(".claude/settings.json");
    let mode = |mode: u32| fs::set_permissions(&settings, fs::Permissions::from_mode(mode)).unwrap();
    mode(0o400);
    let before = tree(&p.user());
    let refused = p.json(["install", "claude"]);
    assert!(refused["error"].as_str().unwrap().contains("settings.json is read-only"), "{refused}");
    assert!(tree(&p.user()) == before, "not the other file either");
    mode(0o600);
    p.json(["install", "claude"]);
    mode(0o400);
    assert!(p.json(["install", "claude", "--undo"])["error"].as_str().unwrap().contains("read-only"));
    assert_eq!(p.json(["install", "claude"])["status"], "unchanged", "nothing is to be written");
}

#[test]
fn what_wakes_stays_while_another_configuration_of_the_client_names_us() {
    let p = product();
    let sinks = || fs::read_to_string(p.user().join(".config/outlast/config.toml")).unwrap_or_default().matches("[[hook]]").count();
    p.json(["install", "codex"]);
    p.json(["install", "codex", "--project"]);
    let undone = p.call(["install", "codex", "--project", "--undo"]).good();
    assert!(undone.err.contains("the hook that wakes Codex stays") && !p.work().join(".codex/config.toml").exists(), "{undone:?}");
    assert_eq!(sinks(), 1);
    p.json(["install", "codex", "--project"]);
    p.json(["install", "codex", "--undo"]);
    assert_eq!(sinks(), 1);
    p.json(["install", "codex", "--project", "--undo"]);
    assert_eq!(sinks(), 0);
}

#[test]
fn codex_may_use_our_tools_without_a_user_unless_it_is_told_to_ask() {
    let p = product();
    let mode = || {
        let text = fs::read_to_string(p.user().join(".codex/config.toml")).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix("default_tools_approval_mode = ")).map(str::to_owned);
        line.unwrap_or_default()
    };
    let said = p.call(["install", "codex"]).good();
    assert!(mode() == "\"approve\"" && said.err.contains("--ask"), "{said:?}");
    p.json(["install", "codex", "--ask"]);
    assert_eq!(mode(), "\"auto\"");
    // What the user has chosen stays.
    let again = p.json(["install", "codex"]);
    assert!(again["status"] == "unchanged" && !again["notes"].to_string().contains("without asking"), "{again}");
    assert_eq!(mode(), "\"auto\"");
    p.json(["install", "codex", "--undo"]);
    let said = p.call(["install", "codex", "--ask"]).good();
    assert!(mode() == "\"auto\"" && !said.err.contains("without asking"), "{said:?}");
    for (client, flag) in [("claude", "--ask"), ("kimi", "--wake")] {
        let refused = p.json(["install", client, flag]);
        assert!(refused["hint"].as_str().unwrap().contains(flag), "{refused}");
    }
}

#[test]
fn hermes_has_the_tools_its_models_know_and_a_conversation_that_its_gateway_is_woken_for() {
    let p = product();
    let entry = || fs::read_to_string(p.user().join(".hermes/config.yaml")).unwrap();
    p.json(["install", "hermes"]);
    assert!(
        entry().contains("      - mcp\n      - \"--profile\"\n      - hermes\n") && !entry().contains("OUTLAST_SESSION"),
        "{}",
        entry()
    );
    p.json(["install", "hermes", "--wake"]);
    assert!(entry().contains("OUTLAST_SESSION: \"hermes:mcp\""), "{}", entry());
    let sinks = fs::read_to_string(p.user().join(".config/outlast/config.toml")).unwrap();
    assert!(sinks.contains("sessions = [\"hermes:*\"]"), "{sinks}");
    // What was chosen stays.
    assert_eq!(p.json(["install", "hermes"])["status"], "unchanged");
    p.json(["install", "hermes", "--profile", "native"]);
    assert!(entry().contains("      - native\n"), "{}", entry());
    p.json(["install", "hermes", "--undo"]);
    assert!(!p.user().join(".hermes/config.yaml").exists() && !p.user().join(".config/outlast/config.toml").exists());
}

#[test]
fn what_was_put_into_an_entry_of_hermes_by_hand_outlasts_another_install() {
    let p = product();
    lived_in(&p);
    let file = p.user().join(".hermes/config.yaml");
    let before = fs::read_to_string(&file).unwrap();
    p.json(["install", "hermes"]);
    let text = fs::read_to_string(&file).unwrap();
    // The entry has an `env` here, since the home is not the usual.
    let mine = text.replace("timeout: 660", "timeout: 900   # my slow builds").replace("env:\n", "env:\n      GITHUB_TOKEN: keepme\n");
    assert!(mine.contains("my slow builds") && mine.contains("keepme"), "{mine}");
    fs::write(&file, &mine).unwrap();
    assert_eq!(p.json(["install", "hermes", "--wake"])["status"], "installed");
    let session = "      OUTLAST_SESSION: \"hermes:mcp\"\n";
    let made = fs::read_to_string(&file).unwrap();
    assert!(made.contains(session) && made.replace(session, "") == mine, "{made}");
    p.json(["install", "hermes", "--undo"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), before);
}

#[test]
fn the_sink_that_wakes_is_one_that_an_engine_takes() {
    let p = product();
    p.json(["install", "codex"]);
    p.json(["install", "opencode", "--wake"]);
    p.json(["install", "hermes", "--wake"]);
    let shown = p.json(["config", "show"]);
    assert_eq!(shown["warnings"], json!([]), "{shown}");
    let text = fs::read_to_string(p.user().join(".config/outlast/config.toml")).unwrap();
    assert_eq!(text.matches("[[hook]]").count(), 3, "{text}");
}

#[test]
fn in_any_order_of_removal_nothing_is_left() {
    for there in [false, true] {
        for order in [["codex", "hermes", "opencode"], ["opencode", "codex", "hermes"], ["hermes", "opencode", "codex"]] {
            let p = product();
            if there {
                lived_in(&p);
            }
            let before = tree(&p.user());
            p.json(["install", "codex"]);
            p.json(["install", "hermes", "--wake"]);
            p.json(["install", "opencode", "--wake"]);
            for client in order {
                p.json(["install", client, "--undo"]);
            }
            assert_eq!(tree(&p.user()), before, "{order:?}");
        }
    }
}

#[test]
fn flags_that_were_added_to_what_wakes_stay() {
    let p = product();
    let config = p.user().join(".config/outlast/config.toml");
    for (client, more) in
        [("hermes", "\"--key-file\", \"/k\""), ("opencode", "\"--url\", \"http://127.0.0.1:9\""), ("codex", "\"--program\", \"/c\"")]
    {
        let args: &[&str] = if client == "codex" { &["install", client] } else { &["install", client, "--wake"] };
        let install = |codex_home: Option<&str>| {
            let mut call = p.command(args);
            call.envs(codex_home.map(|dir| ("CODEX_HOME", dir)));
            Answer::from(call.output().unwrap()).good();
            fs::read_to_string(&config).unwrap()
        };
        let text = install(None).replace(&format!("\"hook\", \"{client}\""), &format!("\"hook\", \"{client}\", {more}"));
        fs::write(&config, &text).unwrap();
        assert_eq!(install(None), text, "{client}");
        if client == "codex" {
            let moved = text.replace(more, &format!("\"--codex-home\", \"{}\", {more}", p.work().display()));
            let dir = p.work().to_str().unwrap().to_owned();
            assert_eq!((install(Some(&dir)), install(Some(&dir))), (moved.clone(), moved));
        }
        p.json(["install", client, "--undo"]);
    }
}

#[test]
fn a_home_of_codex_that_is_named_in_another_form_is_not_named_twice() {
    let p = product();
    let config = p.user().join(".config/outlast/config.toml");
    p.json(["install", "codex"]);
    let text = fs::read_to_string(&config).unwrap();
    let dir = p.work().to_str().unwrap().to_owned();
    for (there, made) in [
        (format!("\"--codex-home={dir}\""), format!("\"--codex-home={dir}\"")),
        ("\"--codex-home=/old\"".to_owned(), format!("\"--codex-home\", \"{dir}\"")),
        (
            format!("\"--program\", \"{dir}\", \"--timeout\", \"9\""),
            format!("\"--codex-home\", \"{dir}\", \"--program\", \"{dir}\", \"--timeout\", \"9\""),
        ),
    ] {
        let with = |words: &str| text.replace("\"hook\", \"codex\"", &format!("\"hook\", \"codex\", {words}"));
        fs::write(&config, with(&there)).unwrap();
        Answer::from(p.command(["install", "codex"]).env("CODEX_HOME", &dir).output().unwrap()).good();
        assert_eq!(fs::read_to_string(&config).unwrap(), with(&made));
    }
}

#[test]
fn changes_by_the_user_to_a_waking_hook_stay_and_are_reported() {
    let p = product();
    let config = p.user().join(".config/outlast/config.toml");
    p.json(["install", "codex"]);
    let text = fs::read_to_string(&config).unwrap();
    let command = text.lines().find(|line| line.starts_with("command")).unwrap();
    let mine = text
        .replace(
            command,
            "command = [\"env\", \"HTTPS_PROXY=http://p:1\", \"outlast\", \"hook\", \"codex\", \"--program\", \"/opt/codex\"]",
        )
        .replace("codex:*", "codex:work-*")
        .replace("wake = true", "wake = false");
    fs::write(&config, &mine).unwrap();
    let again = p.json(["install", "codex"]);
    assert_eq!((&again["status"], fs::read_to_string(&config).unwrap()), (&json!("unchanged"), mine));
    let notes = again["notes"].to_string();
    assert!(notes.contains("a command of your own") && notes.contains("starts no turn") && notes.contains("codex:*"), "{notes}");
    p.json(["install", "codex", "--undo"]);
    assert!(!config.exists());
}

/// The part of `doctor` about clients.
fn agents(p: &Product) -> Vec<Value> {
    let answer = p.json(["doctor", "--quick"]);
    answer["checks"].as_array().unwrap().iter().filter(|c| c["name"] == "agents").cloned().collect()
}

#[test]
fn doctor_finds_out_by_a_call_whether_it_works() {
    let p = product();
    let none = agents(&p);
    assert!(
        none.len() == 1 && none[0]["state"] == "ok" && none[0]["what"].as_str().unwrap().contains("no client is configured"),
        "{none:?}"
    );
    for client in CLIENTS {
        p.json(["install", client]);
    }
    let all = agents(&p);
    assert_eq!(all.len(), CLIENTS.len(), "{all:?}");
    // As long as this program has no such verb, that is what there is to be found.
    let can = p.call(["mcp", "--help"]).code == Some(0);
    for check in &all {
        let what = check["what"].as_str().unwrap();
        match can {
            true => assert!(check["state"] == "ok" && what.contains("works, "), "{check}"),
            false => assert!(check["state"] == "broken" && what.contains("has no `mcp` command") && check["hint"].is_string(), "{check}"),
        }
    }
}

#[test]
fn doctor_says_what_is_wrong_with_an_entry_and_runs_nothing_that_a_project_names() {
    let p = product();
    p.json(["install", "kimi"]);
    let file = p.user().join(".kimi-code/mcp.json");
    let text = fs::read_to_string(&file).unwrap();
    let us = p.program().canonicalize().unwrap();
    fs::write(&file, text.replace(us.to_str().unwrap(), "/no/such/outlast")).unwrap();
    let gone = agents(&p);
    assert!(gone[0]["what"].as_str().unwrap().contains("/no/such/outlast, which does not exist"), "{gone:?}");
    assert!(gone[0]["hint"].as_str().unwrap().contains("outlast install kimi"), "{gone:?}");
    fs::write(&file, "{").unwrap();
    assert!(agents(&p)[0]["what"].as_str().unwrap().contains("line 1"));
    fs::remove_file(&file).unwrap();
    let trap = json!({"mcpServers": {"outlast": {"command": "touch", "args": [p.work().join("ran")]}}});
    fs::write(p.work().join(".mcp.json"), trap.to_string()).unwrap();
    let project = agents(&p);
    assert!(project[0]["what"].as_str().unwrap().contains("which is not run here"), "{project:?}");
    assert!(!p.work().join("ran").exists());
}

/// A client's program: in `OUTLAST_TEST_AGENTS`, a list of directories, else in the path.
fn client(name: &str) -> Option<PathBuf> {
    let dirs = std::env::var_os("OUTLAST_TEST_AGENTS").into_iter().chain(std::env::var_os("PATH"));
    let dirs: Vec<PathBuf> = dirs.flat_map(|list| std::env::split_paths(&list).collect::<Vec<_>>()).collect();
    dirs.iter().map(|dir| dir.join(name)).find(|path| path.is_file())
}

/// What a client of the user's says, if it is installed here.
fn asks(p: &Product, test: &str, name: &str, args: &[&str]) -> Option<String> {
    let Some(program) = client(name) else {
        assert!(std::env::var_os("OUTLAST_TEST_AGENTS").is_none(), "OUTLAST_TEST_AGENTS has no {name}");
        skipped(test, format!("{name} is not installed"));
        return None;
    };
    let path =
        std::env::join_paths([program.parent().unwrap(), Path::new("/usr/local/bin"), Path::new("/usr/bin"), Path::new("/bin")]).unwrap();
    let mut call = Command::new(program);
    call.args(args)
        .env_clear()
        .env("HOME", p.user())
        .env("PATH", path)
        .env("LANG", "C.UTF-8")
        // Gemini CLI starts servers in folders that it trusts.
        .env("GEMINI_CLI_TRUST_WORKSPACE", "true")
        .current_dir(p.work())
        .stdin(std::process::Stdio::null());
    let said = call.output().expect("it runs");
    let text = format!("{}{}", String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{name}: {text}");
    Some(outlast_text::strip(&text).into_owned())
}

#[test]
fn codex_takes_the_entry() {
    let p = product();
    lived_in(&p);
    p.json(["install", "codex", "--profile", "codex"]);
    let Some(said) = asks(&p, "codex_takes_the_entry", "codex", &["mcp", "get", "outlast", "--json"]) else { return };
    let entry: Value = serde_json::from_str(&said[said.find('{').unwrap()..=said.rfind('}').unwrap()]).unwrap();
    assert_eq!((&entry["enabled"], &entry["tool_timeout_sec"]), (&json!(true), &json!(660.0)), "{entry}");
    assert_eq!(entry["transport"]["args"], json!(["mcp", "--profile", "codex"]), "{entry}");
    assert_eq!(entry["transport"]["command"], json!(p.program().canonicalize().unwrap()), "{entry}");
    assert_eq!(entry["transport"]["env"]["OUTLAST_HOME"], json!(p.home().root), "{entry}");
}

#[test]
fn opencode_takes_the_entry() {
    let p = product();
    lived_in(&p);
    p.json(["install", "opencode"]);
    let Some(said) = asks(&p, "opencode_takes_the_entry", "opencode", &["mcp", "list"]) else { return };
    assert!(said.contains("outlast") && said.contains(p.program().canonicalize().unwrap().to_str().unwrap()), "{said}");
    p.json(["install", "opencode", "--undo"]);
    let said = asks(&p, "opencode_takes_the_entry", "opencode", &["mcp", "list"]).unwrap();
    assert!(!said.contains("outlast") && said.contains("other"), "{said}");
}

#[test]
fn hermes_takes_the_entry() {
    let p = product();
    lived_in(&p);
    p.json(["install", "hermes"]);
    let Some(said) = asks(&p, "hermes_takes_the_entry", "hermes", &["mcp", "list"]) else { return };
    assert!(said.contains("outlast") && said.contains("other"), "{said}");
}

/// The servers that a client lists, once ours is installed.
fn lists(test: &str, client: &str, program: &str, args: &[&str]) -> Option<String> {
    let p = product();
    p.json(["install", client]);
    let said = asks(&p, test, program, args)?;
    assert!(said.contains("outlast") && said.contains(p.program().canonicalize().unwrap().to_str().unwrap()), "{said}");
    Some(said)
}

#[test]
fn gemini_starts_our_server() {
    let Some(said) = lists("gemini_starts_our_server", "gemini", "gemini", &["mcp", "list"]) else { return };
    assert!(said.contains("Connected"), "{said}");
}

#[test]
fn qwen_starts_our_server() {
    let Some(said) = lists("qwen_starts_our_server", "qwen", "qwen", &["mcp", "list"]) else { return };
    assert!(said.contains("Connected"), "{said}");
}

#[test]
fn amp_takes_the_entry() {
    lists("amp_takes_the_entry", "amp", "amp", &["mcp", "list"]);
}

#[test]
fn goose_takes_the_entry() {
    let Some(said) = lists("goose_takes_the_entry", "goose", "goose", &["info", "-v"]) else { return };
    assert!(said.contains("type: stdio"), "{said}");
}
