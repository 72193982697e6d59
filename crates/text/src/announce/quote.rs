//! What others wrote, made harmless inside a bracket.
//!
//! Brackets that have no partner in the same text, and those of anything that looks like one of our openings, get a backslash. Full-width ones count too, each with
//! a partner of their own kind. Whoever counts brackets without a backslash before them finds every quoted text balanced, whether full-width ones are brackets to them
//! or not.

use crate::strip;

/// How our own texts begin, after the bracket. Blanks and what cannot be seen do not count.
const OPENINGS: [&str; 4] = ["IMPORTANT:", "SYSTEM:", "ASYNCDELEGATION", "ENDOFASYNCDELEGATION"];

/// Text of any number of lines.
pub(super) fn block(text: &str) -> String {
    let clean: String = strip(text).chars().filter(|c| matches!(c, '\n' | '\t') || !c.is_control()).collect();
    let (mut open, mut open_wide) = (Vec::new(), Vec::new());
    let mut escaped: Vec<usize> = Vec::new();
    let mut backslashes = 0_usize;
    for (at, c) in clean.char_indices() {
        let open = if c.is_ascii() { &mut open } else { &mut open_wide };
        let alone = match plain(c) {
            // Some count backslashes and some only look for one. An odd number is an escape to both.
            '[' | ']' if backslashes > 0 => backslashes.is_multiple_of(2),
            '[' if is_opening(&clean[at + c.len_utf8()..]) => true,
            '[' => {
                open.push(at);
                false
            }
            ']' => open.pop().is_none(),
            _ => false,
        };
        if alone {
            escaped.push(at);
        }
        backslashes = if c == '\\' { backslashes + 1 } else { 0 };
    }
    escaped.extend(open.into_iter().chain(open_wide));
    escaped.sort_unstable();
    let mut out = String::with_capacity(clean.len() + escaped.len());
    let mut from = 0;
    for at in escaped {
        out.push_str(&clean[from..at]);
        out.push('\\');
        from = at;
    }
    out.push_str(&clean[from..]);
    out
}

/// The same on one line.
pub(super) fn line(text: &str) -> String {
    block(text).replace(['\n', '\t', '\u{2028}', '\u{2029}'], " ")
}

/// A label and its text. Further lines are indented, so that none of them passes for a label.
pub(super) fn label(name: &str, text: &str) -> String {
    format!("{name} {}", block(text).replace(['\n', '\u{2028}', '\u{2029}'], "\n  "))
}

/// Text in which no line passes for a rule with a title.
pub(super) fn unruled(text: &str) -> String {
    let lines: Vec<String> = block(text)
        .split('\n')
        .map(|line| match line.trim_start_matches(is_unseen).starts_with("--- ") {
            true => format!("\\{line}"),
            false => line.to_owned(),
        })
        .collect();
    lines.join("\n")
}

/// Whether what follows a bracket looks like one of our openings.
fn is_opening(rest: &str) -> bool {
    OPENINGS.iter().any(|word| {
        let mut seen = rest.chars().filter(|c| !is_unseen(*c)).map(plain);
        word.chars().all(|want| seen.next().is_some_and(|c| c.to_uppercase().eq([want])))
    })
}

/// Full-width forms as what they stand for.
fn plain(c: char) -> char {
    match c {
        '\u{ff01}'..='\u{ff5e}' => char::from_u32(c as u32 - 0xfee0).unwrap_or(c),
        _ => c,
    }
}

/// Blanks, marks, and what has no width.
fn is_unseen(c: char) -> bool {
    c.is_whitespace()
        || matches!(c,
            '\u{ad}' | '\u{300}'..='\u{36f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{1ab0}'..='\u{1aff}' | '\u{1dc0}'..='\u{1dff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{20d0}'..='\u{20ff}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{fe20}'..='\u{fe2f}' | '\u{feff}' | '\u{ffa0}'
            | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}
