//! `completions`: the candidates that a shell offers, and the manual pages.

use crate::person::Person;
use crate::support::*;
use outlast_testkit::machine::skipped;
use std::process::Command;

/// A shell with the script loaded, in the surroundings of a call. `outlast` is the program under test.
fn shell(p: &Product, script: &str, args: &[&str]) -> Command {
    let bin = p.work().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    // It may be there from before.
    let _there = std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_outlast"), bin.join("outlast"));
    std::fs::write(p.work().join("script"), p.call(["completions", script]).good().out).unwrap();
    let call = p.command([""; 0]);
    let mut shell = Command::new(script);
    shell.args(args).env_clear().envs(call.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(p.work());
    shell.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
    shell
}

/// What a real bash would offer behind this line.
fn offered(p: &Product, line: &str) -> Vec<String> {
    let ask = r#"source ./script; line=$1; read -ra COMP_WORDS <<<"$line"; [[ $line == *' ' ]] && COMP_WORDS+=(""); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
        COMP_LINE=$line COMP_POINT=${#line}; _outlast outlast "${COMP_WORDS[-1]##*[:=]}" ""; printf '%s\n' "${COMPREPLY[@]}""#;
    let done = shell(p, "bash", &["--norc", "-c", ask, "bash", line]).output().unwrap();
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap().lines().filter(|l| !l.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_verbs_flags_ids_names_sessions_and_signals() {
    let p = product();
    let running = p.run_with(&["--name", "web", "--session", "chat:42", "--label", "app=shop"], "exec sleep 1000");
    let over = p.run_with(&["--name", "tests", "--task", "t1"], "exit 3");
    p.wait(&over);
    assert_eq!(offered(&p, "outlast at"), ["attach"]);
    let verbs = offered(&p, "outlast ");
    assert!(verbs.iter().any(|v| v == "run") && verbs.iter().any(|v| v == "completions"), "{verbs:?}");
    assert!(!verbs.iter().any(|v| v.starts_with("__")), "{verbs:?}");
    assert_eq!(offered(&p, "outlast log --fol"), ["--follow"]);
    assert_eq!(offered(&p, &format!("outlast poll {}", &running[..12])), [running.as_str()]);
    assert_eq!(offered(&p, &format!("outlast poll {}", &running[5..12])), [&running[5..]], "as it was begun");
    let mut both = vec![running.clone(), over.clone()];
    let mut all = offered(&p, "outlast log proc_");
    both.sort();
    all.sort();
    assert_eq!(all, both);
    assert_eq!(offered(&p, &format!("outlast log {running} tes")), ["tests"], "a name is completed as it is");
    let words: Vec<String> = offered(&p, "outlast kill ").into_iter().filter(|word| !word.starts_with('-')).collect();
    assert_eq!(words, ["web"], "a process that has a name is offered by it");
    assert_eq!(offered(&p, "outlast kill proc_"), [running.as_str()], "what is over cannot be stopped");
    assert_eq!(offered(&p, "outlast rm proc_"), [over.as_str()], "what runs cannot be removed");
    assert_eq!(offered(&p, "outlast list --session cha"), ["chat:42"]);
    assert_eq!(offered(&p, "outlast list --session chat:4"), ["42"], "bash has the rest of the word");
    assert_eq!(offered(&p, "outlast list --task "), ["t1"]);
    assert_eq!(offered(&p, "outlast kill --label ap"), ["app=shop"]);
    assert_eq!(offered(&p, "outlast log --label app=s"), ["shop"]);
    assert_eq!(offered(&p, "outlast list --name we"), ["web"]);
    assert_eq!(offered(&p, "outlast list --state susp"), ["suspended"]);
    assert_eq!(offered(&p, &format!("outlast signal {running} ter")), ["TERM"]);
    assert_eq!(offered(&p, "outlast engine in"), ["install"]);
    assert!(offered(&p, "outlast poll nothing-like-it").is_empty());
}

#[test]
fn a_key_completes_in_a_bash_at_a_terminal() {
    let p = product();
    let id = p.run_with(&["--name", "frontend"], "exec sleep 1000");
    let mut bash = shell(&p, "bash", &["--norc", "--noprofile", "-i"]);
    bash.env("PS1", "ready> ").env("HISTFILE", "/dev/null");
    let mut person = Person::runs(&p, bash, 24, 120);
    person.sees("ready> ");
    person.types("source ./script; echo loaded\r");
    person.sees("loaded\r\n");
    person.types("outlast po\tfron\t");
    person.sees("frontend ");
    person.types("--js\t\r");
    person.sees(&format!("\"id\":\"{id}\""));
    person.types("exit\r");
    assert_eq!(person.ended(), Some(0));
}

#[test]
fn a_completion_starts_no_engine() {
    let p = product();
    assert!(offered(&p, "outlast log ").iter().all(|word| word.starts_with('-')));
    assert!(!p.home().root.exists());
}

#[test]
fn other_shells_find_nothing_wrong_with_their_scripts() {
    let p = product();
    for name in ["zsh", "fish"] {
        match shell(&p, name, &["-n", "script"]).output() {
            Err(e) => skipped(&format!("other_shells_find_nothing_wrong_with_their_scripts ({name})"), e),
            Ok(done) => assert!(done.status.success() && done.stderr.is_empty(), "{name}: {done:?}"),
        }
    }
    for name in ["elvish", "powershell"] {
        assert!(p.call(["completions", name]).good().text().contains("--follow"), "{name}");
    }
    assert_eq!(p.call(["completions", "csh"]).code, Some(2));
}

#[test]
fn there_is_a_manual_page_for_every_verb() {
    let p = product();
    let dir = p.work().join("man");
    p.call(["__man", dir.to_str().unwrap()]).good();
    let help = p.call(["--help"]).good().text();
    let verbs: Vec<&str> = help
        .lines()
        .skip_while(|l| *l != "Everyday:")
        .take_while(|l| *l != "Options of every verb:")
        .filter(|l| l.starts_with("  "))
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert!(verbs.len() > 20, "{verbs:?}");
    for verb in verbs {
        let page = std::fs::read_to_string(dir.join(format!("outlast-{verb}.1"))).unwrap_or_else(|e| panic!("{verb}: {e}"));
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{verb}");
    }
    for page in ["outlast", "outlast-engine-install", "outlast-events-drain", "outlast-view-close"] {
        assert!(dir.join(format!("{page}.1")).exists(), "{page}");
    }
    let hidden = std::fs::read_dir(&dir).unwrap().flatten().map(|e| e.file_name().into_string().unwrap()).find(|n| n.contains("__"));
    assert_eq!(hidden, None);
}
