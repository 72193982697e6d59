//! Removes queries from old output: the terminal would answer them again, to a program that no longer asks.

/// The bytes without sequences that a terminal answers.
pub(crate) fn without_questions(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|b| *b == 0x1b) {
        out.extend_from_slice(&rest[..at]);
        rest = &rest[at..];
        let length = length(rest).unwrap_or(rest.len());
        let (sequence, behind) = rest.split_at(length);
        if !is_question(sequence) {
            out.extend_from_slice(sequence);
        }
        rest = behind;
    }
    out.extend_from_slice(rest);
    out
}

/// The length of the sequence that starts here. None if its end has not arrived.
fn length(bytes: &[u8]) -> Option<usize> {
    let end = |of: &dyn Fn(&[u8]) -> Option<usize>| of(bytes);
    match bytes.get(1)? {
        b'[' => end(&|b| b[2..].iter().position(|b| !(0x20..=0x3f).contains(b)).map(|at| at + 3)),
        // Strings end with a bell, or with an escape and a backslash.
        b']' | b'P' | b'_' | b'^' | b'X' => end(&|b| {
            (2..b.len()).find_map(|at| match b[at] {
                0x07 => Some(at + 1),
                0x1b if b.get(at + 1) == Some(&b'\\') => Some(at + 2),
                _ => None,
            })
        }),
        _ => Some(2),
    }
}

fn is_question(sequence: &[u8]) -> bool {
    match sequence {
        // Queries of cursor position, device, modes and key encoding.
        [0x1b, b'[', .., b'n' | b'c'] => true,
        [0x1b, b'[', parameters @ .., b'p'] => parameters.ends_with(b"$"),
        [0x1b, b'[', parameters @ .., b'u'] => parameters.starts_with(b"?"),
        [0x1b, b'[', parameters @ .., b'q'] => parameters.starts_with(b">"),
        // Queries of the size: their numbers start at 11.
        [0x1b, b'[', parameters @ .., b't'] => {
            let first = parameters.split(|b| *b == b';').next().and_then(|n| std::str::from_utf8(n).ok()?.parse::<u32>().ok());
            first.is_some_and(|n| (11..=21).contains(&n))
        }
        // Queries of colours and the clipboard.
        [0x1b, b']', text @ ..] => text.windows(2).any(|w| w == b";?"),
        [0x1b, b'P', text @ ..] => text.starts_with(b"+q") || text.starts_with(b"$q"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_taken_out_and_nothing_else() {
        let asked = b"a\x1b[6nb\x1b[c\x1b[>0c\x1b[?2026$p\x1b[?u\x1b[18t\x1b]11;?\x07c\x1bP+q544e\x1b\\\x1b[>q";
        assert_eq!(without_questions(asked), b"abc");
        let said = b"\x1b[31mred\x1b[0m\x1b[22;0t\x1b]0;title\x07\x1b[2J\x1b[4 q\x1b(B\x1b[?1049h\x1b[1;5r\x1b[!p\x1b=";
        assert_eq!(without_questions(said), said);
        assert_eq!(without_questions(b"cut \x1b[3"), b"cut \x1b[3");
        assert_eq!(without_questions(b"\x1b"), b"\x1b");
    }
}
