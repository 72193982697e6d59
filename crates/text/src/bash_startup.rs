//! Removes the messages that bash prints when it starts without a terminal.

/// Drops bash's warnings about a missing terminal.
///
/// Bash prints warnings at the head when it starts, and one at the end when it gives the terminal back. Only whole lines in bash's own form
/// at these places are dropped, so a command may print the same words. An incomplete line stays.
pub fn drop_shell_noise(text: &str) -> &str {
    drop_end_noise(drop_head_noise(text))
}

/// Drops the warnings at the head of a log.
pub(crate) fn drop_head_noise(mut text: &str) -> &str {
    while let Some((line, rest)) = text.split_once('\n')
        && is_noise(line)
    {
        text = rest;
    }
    // A shell that ended at once may leave its last warning without a line end.
    if is_noise(text) { "" } else { text }
}

/// Drops the warning at the end of a log.
pub(crate) fn drop_end_noise(text: &str) -> &str {
    let mut kept = text;
    loop {
        let body = kept.strip_suffix('\n').unwrap_or(kept);
        let start = body.rfind('\n').map_or(0, |at| at + 1);
        if !is_tcsetattr(&body[start..]) {
            return kept;
        }
        kept = &kept[..start];
    }
}

fn is_noise(line: &str) -> bool {
    let Some(warning) = warning(line) else {
        return false;
    };
    warning == "no job control in this shell"
        || warning.strip_prefix("cannot set terminal process group (").is_some_and(|rest| rest.contains("): "))
        || is_tcsetattr(line)
}

fn is_tcsetattr(line: &str) -> bool {
    // Bash puts the pid and its level before it: `bash: [4711: 1 (255)] tcsetattr: …`.
    warning(line).is_some_and(|warning| {
        let said = match warning.strip_prefix('[') {
            Some(rest) => rest.split_once("] ").map_or("", |(_, said)| said),
            None => warning,
        };
        said == "tcsetattr: Inappropriate ioctl for device"
    })
}

fn warning(line: &str) -> Option<&str> {
    line.strip_suffix('\r').unwrap_or(line).strip_prefix("bash: ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: &str = "bash: cannot set terminal process group (-1): Inappropriate ioctl for device\n";
    const JOBS: &str = "bash: no job control in this shell\n";
    const TCSETATTR: &str = "bash: [4711: 1 (255)] tcsetattr: Inappropriate ioctl for device\n";

    #[test]
    fn case_051_startup_warnings_are_gone() {
        let text = format!("{GROUP}{JOBS}hello\nworld\n{TCSETATTR}");
        assert_eq!(drop_shell_noise(&text), "hello\nworld\n");
        let on_a_terminal = text.replace('\n', "\r\n");
        assert_eq!(drop_shell_noise(&on_a_terminal), "hello\r\nworld\r\n");
        assert_eq!(drop_shell_noise(&format!("{GROUP}{JOBS}")), "");
        assert_eq!(drop_shell_noise(JOBS.trim_end()), "");
        assert_eq!(drop_shell_noise(&format!("{TCSETATTR}{TCSETATTR}")), "");
    }

    #[test]
    fn what_a_command_prints_stays() {
        let table = [
            format!("hello\n{JOBS}world\n"),
            "no job control in this shell\n".to_owned(),
            "my-bash: no job control in this shell\n".to_owned(),
            "bash: no job control in this shell, I said\n".to_owned(),
            "bash: foo: command not found\n".to_owned(),
            format!("{TCSETATTR}hello").replace("bash", "sh"),
            String::new(),
            "\n".to_owned(),
        ];
        for text in table {
            assert_eq!(drop_shell_noise(&text), text);
        }
    }
}
