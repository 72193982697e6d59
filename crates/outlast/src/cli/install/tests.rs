use super::us::quoted;
use super::*;
use crate::config::{User, World};

fn world(env: &[(&str, &str)]) -> World {
    World {
        env: env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
        cwd: "/work/shop".into(),
        umask: None,
        program: "/usr/bin/outlast".into(),
        user: User { name: "me".into(), home: Some("/home/me".into()), shell: "/bin/sh".into() },
    }
}

fn us(profile: Option<&str>) -> Us {
    let args = ["mcp"].into_iter().chain(profile.iter().flat_map(|name| ["--profile", name])).map(str::to_owned).collect();
    Us { program: "/usr/bin/outlast".into(), args, env: Vec::new(), wake: false, ask: false }
}

fn shown(world: &World, us: &Us, scope: Scope) -> String {
    let place = Place { world, config: Path::new("/home/me/.config/outlast/config.toml"), scope };
    let mut out = String::new();
    for client in Client::ALL {
        match client.targets(&place, us) {
            Ok(targets) => {
                targets.iter().for_each(|t| out += &format!("## {}: {}\n{}\n", client.name(), t.path.display(), t.wishes.alone()))
            }
            Err(e) => out += &format!("## {}: {}\n\n", client.name(), e.error()),
        }
    }
    out
}

#[test]
fn each_client_has_its_files() {
    insta::assert_snapshot!("user", shown(&world(&[]), &us(None), Scope::User));
    insta::assert_snapshot!("project", shown(&world(&[]), &us(Some("hermes")), Scope::Project));
    let env = [
        ("CODEX_HOME", "/c/codex"),
        ("CLAUDE_CONFIG_DIR", "/c/claude"),
        ("HERMES_HOME", "relative"),
        ("XDG_CONFIG_HOME", "/c/xdg"),
        ("KIMI_CODE_HOME", "/c/kimi"),
    ];
    let mut us = us(None);
    us.program = "/my programs/outlast".into();
    us.env = vec![("OUTLAST_HOME", "/it's here".into())];
    us.wake = true;
    insta::assert_snapshot!("variables", shown(&world(&env), &us, Scope::User));
}

#[test]
fn how_we_are_called_is_read_from_what_each_client_has() {
    let mut us = us(Some("codex"));
    us.env = vec![("OUTLAST_HOME", "/h".into())];
    let world = world(&[]);
    let place = Place { world: &world, config: Path::new("/c"), scope: Scope::User };
    for client in Client::ALL {
        let targets = client.targets(&place, &us).unwrap();
        let entry = targets[0].wishes.entry(&targets[0].wishes.alone()).unwrap().unwrap();
        let call = Call::of(&entry).unwrap();
        let want = ["/usr/bin/outlast", "mcp", "--profile", "codex"].map(str::to_owned).to_vec();
        assert_eq!(call, Call { argv: want, env: vec![("OUTLAST_HOME".into(), "/h".into())] }, "{client:?}");
    }
    assert_eq!(Call::of(&json!({"url": "http://x"})), None);
}

#[test]
fn words_are_quoted_as_a_shell_reads_them() {
    assert_eq!(["/a/b-1.0", "a b", "it's", ""].map(quoted), ["/a/b-1.0", "'a b'", r"'it'\''s'", "''"]);
}
