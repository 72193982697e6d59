//! What exit codes of well-known programs mean.

use crate::guard::is_assignment;
use crate::shell::{End, Line, Simple};

/// What a code other than 0 of this command means, if that is known.
///
/// A code is that of the last command. After a `&&` it may be that of the command before, so the text is then a condition.
pub(crate) fn meaning(command: &str, code: i32) -> Option<String> {
    if code == 0 {
        return None;
    }
    let line = Line::read(command);
    let mut own = line.commands.iter().filter(|c| !c.nested).rev();
    let last = own.next()?;
    if last.end == End::Background {
        return None;
    }
    let name = name(last)?;
    let what = of(name, last, code)?;
    // A pipe has the code of its last command, so the command before the pipe decides.
    let before = own.find(|c| c.end != End::Pipe);
    let sure = before.is_none_or(|c| c.end != End::And);
    Some(if sure { format!("{name}: {what}") } else { format!("if it is that of {name}: {what}") })
}

fn name(command: &Simple) -> Option<&str> {
    let keyword = |w: &str| matches!(w, "!" | "{" | "}" | "then" | "else" | "do" | "sudo" | "command" | "time");
    let word = command.words.iter().find(|w| !is_assignment(w) && !keyword(w))?;
    word.rsplit('/').next()
}

fn of(name: &str, command: &Simple, code: i32) -> Option<&'static str> {
    let git = || command.words.iter().find(|w| matches!(w.as_str(), "diff" | "grep" | "merge-base")).map(String::as_str);
    Some(match (name, code) {
        ("grep" | "egrep" | "fgrep" | "zgrep" | "rg" | "ag" | "ack", 1) => "no line matched (not an error)",
        ("diff" | "colordiff" | "cmp", 1) => "the files differ (not an error)",
        ("find", 1) => "some places could not be searched; what was found may still be all you need",
        ("test" | "[" | "[[", 1) => "the condition is false (not an error)",
        ("curl", 6) => "the host's name could not be resolved",
        ("curl", 7) => "no connection to the host",
        ("curl", 22) => "the server answered with an HTTP error such as 404 or 500",
        ("curl", 28) => "the time was over before it was done",
        ("git", 1) => match git() {
            Some("diff") => "there are differences (not an error)",
            Some("grep") => "no line matched (not an error)",
            _ => "often no error: some of its commands answer 1 for \"no\" or \"differs\"",
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_command_decides() {
        for (line, code, want) in [
            ("grep x y", 1, Some("grep: no line matched (not an error)")),
            ("grep x y", 2, None),
            ("grep x y", 0, None),
            ("cat y | grep x", 1, Some("grep: no line matched (not an error)")),
            ("cat y | grep x | wc -l", 1, None),
            ("make; /usr/bin/diff a b", 1, Some("diff: the files differ (not an error)")),
            ("cd x && rg y", 1, Some("if it is that of rg: no line matched (not an error)")),
            ("make && cat y | grep x", 1, Some("if it is that of grep: no line matched (not an error)")),
            ("make || grep x y", 1, Some("grep: no line matched (not an error)")),
            ("make && true; grep x y", 1, Some("grep: no line matched (not an error)")),
            ("LC_ALL=C grep x y", 1, Some("grep: no line matched (not an error)")),
            ("echo $(grep x y)", 1, None),
            ("[ -f x ]", 1, Some("[: the condition is false (not an error)")),
            ("test -f x", 1, Some("test: the condition is false (not an error)")),
            ("find / -name x", 1, Some("find: some places could not be searched; what was found may still be all you need")),
            ("curl -f http://x", 22, Some("curl: the server answered with an HTTP error such as 404 or 500")),
            ("curl http://x", 6, Some("curl: the host's name could not be resolved")),
            ("git diff --exit-code", 1, Some("git: there are differences (not an error)")),
            ("git merge x", 1, Some("git: often no error: some of its commands answer 1 for \"no\" or \"differs\"")),
            ("make", 1, None),
            ("grep x y &", 1, None),
            ("", 1, None),
        ] {
            assert_eq!(meaning(line, code).as_deref(), want, "{line}");
        }
    }
}
