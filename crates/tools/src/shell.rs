//! Parses enough of the shell's grammar to tell commands from arguments and operators from text.
//!
//! Nothing is run or expanded. What cannot be parsed counts as text: a wrong guess leads to a refusal or a hint, never to more.

use std::collections::VecDeque;

/// What follows a simple command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// `;`, a newline, a bracket, or the end of the text.
    List,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
    /// `&`
    Background,
}

/// A command without operators: its unquoted words, without redirections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Simple {
    pub(crate) words: Vec<String>,
    pub(crate) end: End,
    /// Whether it is inside a `$(…)`, `<(…)` or `>(…)` of another command.
    pub(crate) nested: bool,
}

/// A parsed shell line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Line {
    /// Its commands, in the order in which they end.
    pub(crate) commands: Vec<Simple>,
    /// Whether a command, or a group of them, runs in the background.
    pub(crate) background: bool,
}

impl Line {
    /// Parses a line.
    pub(crate) fn read(text: &str) -> Self {
        let mut reader = Reader { rest: text.chars().collect(), ..Reader::default() };
        while reader.step() {}
        reader.line
    }
}

#[derive(Default)]
struct Reader {
    rest: VecDeque<char>,
    line: Line,
    here: Part,
    /// Open brackets, innermost last.
    open: Vec<Bracket>,
    /// How many of them are inside a word.
    inside: usize,
    /// The end words of here-documents that begin at the next line, and whether leading tabs are ignored.
    documents: Vec<(String, bool)>,
}

/// The part of a simple command that was read.
#[derive(Default)]
struct Part {
    words: Vec<String>,
    word: Option<Word>,
    /// Whether the next word is the target of a redirection.
    target: bool,
    /// Set if the next word is the end word of a here-document; true if leading tabs are ignored.
    document: Option<bool>,
}

#[derive(Default)]
struct Word {
    text: String,
    quoted: bool,
}

enum Bracket {
    /// `(`
    Group,
    /// `$(` inside a word of another command, which continues after it.
    Inside(Part),
}

impl Reader {
    /// Reads at least one character; false at the end.
    fn step(&mut self) -> bool {
        let Some(c) = self.rest.pop_front() else {
            self.finish(End::List);
            // The end of the line closes open brackets.
            while let Some(bracket) = self.open.pop() {
                self.close(bracket);
            }
            return false;
        };
        match c {
            '\\' => match self.rest.pop_front() {
                Some('\n') | None => {}
                Some(c) => self.quoted().push(c),
            },
            '\'' => self.single(),
            '"' => self.double(),
            '`' => self.backquoted(),
            '#' if self.here.word.is_none() => self.comment(),
            '\n' => {
                self.finish(End::List);
                self.skip_documents();
            }
            c if c.is_whitespace() => self.end_word(),
            ';' => {
                // `;;`, `;&` and `;;&` end a case.
                while matches!(self.rest.front(), Some(';' | '&')) {
                    self.rest.pop_front();
                }
                self.finish(End::List);
            }
            '&' if self.next_is('&') => self.finish(End::And),
            '&' if matches!(self.rest.front(), Some('>')) => {
                self.end_word();
                while self.next_is('>') {}
                self.here.target = true;
            }
            '&' => {
                self.line.background = true;
                self.finish(End::Background);
            }
            '|' if self.next_is('|') => self.finish(End::Or),
            '|' => {
                self.next_is('&');
                self.finish(End::Pipe);
            }
            '(' => self.group(),
            ')' => self.end_group(),
            '<' | '>' => self.redirection(c),
            '$' => self.dollar(),
            c => self.word().push(c),
        }
        true
    }

    fn next_is(&mut self, c: char) -> bool {
        let is = self.rest.front() == Some(&c);
        if is {
            self.rest.pop_front();
        }
        is
    }

    fn word(&mut self) -> &mut String {
        &mut self.here.word.get_or_insert_default().text
    }

    fn quoted(&mut self) -> &mut String {
        let word = self.here.word.get_or_insert_default();
        word.quoted = true;
        &mut word.text
    }

    fn end_word(&mut self) {
        let Some(Word { text, .. }) = self.here.word.take() else { return };
        if let Some(tabs) = self.here.document.take() {
            self.documents.push((text, tabs));
        } else if !std::mem::take(&mut self.here.target) {
            self.here.words.push(text);
        }
    }

    fn finish(&mut self, end: End) {
        self.end_word();
        let Part { words, .. } = std::mem::take(&mut self.here);
        if !words.is_empty() {
            self.line.commands.push(Simple { words, end, nested: self.inside > 0 });
        }
    }

    fn single(&mut self) {
        self.quoted();
        while let Some(c) = self.rest.pop_front().filter(|c| *c != '\'') {
            self.quoted().push(c);
        }
    }

    fn double(&mut self) {
        let text = self.balanced(Inner::Quote);
        self.quoted().push_str(&text);
    }

    fn backquoted(&mut self) {
        self.quoted();
        while let Some(c) = self.rest.pop_front().filter(|c| *c != '`') {
            if c == '\\' {
                self.rest.pop_front();
            }
        }
    }

    fn comment(&mut self) {
        while self.rest.front().is_some_and(|c| *c != '\n') {
            self.rest.pop_front();
        }
    }

    fn dollar(&mut self) {
        match self.rest.front() {
            Some('(') if self.rest.get(1) == Some(&'(') => {
                self.rest.pop_front();
                self.balanced(Inner::Round);
                self.quoted();
            }
            Some('(') => {
                self.rest.pop_front();
                self.inside();
            }
            Some('{') => {
                self.rest.pop_front();
                self.balanced(Inner::Curly);
                self.quoted();
            }
            Some('\'') => {
                self.rest.pop_front();
                self.balanced(Inner::Ansi);
                self.quoted();
            }
            _ => self.word().push('$'),
        }
    }

    /// Begins commands inside a word.
    fn inside(&mut self) {
        self.quoted();
        let outer = std::mem::take(&mut self.here);
        self.open.push(Bracket::Inside(outer));
        self.inside += 1;
    }

    fn group(&mut self) {
        // `((` at the beginning of a command is arithmetic.
        if self.here.word.is_none() && self.here.words.is_empty() && self.next_is('(') {
            self.balanced(Inner::Round);
            self.next_is(')');
            return;
        }
        self.finish(End::List);
        self.open.push(Bracket::Group);
    }

    fn end_group(&mut self) {
        self.finish(End::List);
        // A `)` without a beginning ends the pattern of a case.
        if let Some(bracket) = self.open.pop() {
            self.close(bracket);
        }
    }

    fn close(&mut self, bracket: Bracket) {
        if let Bracket::Inside(outer) = bracket {
            self.finish(End::List);
            self.here = outer;
            self.inside -= 1;
        }
    }

    fn redirection(&mut self, c: char) {
        // `2>` names a descriptor.
        let descriptor = |w: &Word| !w.quoted && w.text.chars().all(|c| c.is_ascii_digit());
        if self.here.word.as_ref().is_some_and(descriptor) {
            self.here.word = None;
        }
        self.end_word();
        if self.next_is('(') {
            self.inside();
            return;
        }
        if c == '<' && self.next_is('<') {
            if self.next_is('<') {
                self.here.target = true;
            } else {
                let tabs = self.next_is('-');
                self.here.document = Some(tabs);
            }
            return;
        }
        while matches!(self.rest.front(), Some('>' | '&' | '|')) {
            self.rest.pop_front();
        }
        self.here.target = true;
    }

    fn skip_documents(&mut self) {
        for (end, tabs) in std::mem::take(&mut self.documents) {
            loop {
                let mut line = String::new();
                let mut more = false;
                while let Some(c) = self.rest.pop_front() {
                    if c == '\n' {
                        more = true;
                        break;
                    }
                    line.push(c);
                }
                let found = if tabs { line.trim_start_matches('\t') == end } else { line == end };
                if found || !more {
                    break;
                }
            }
        }
    }

    /// The text up to the end of the piece that has just begun, with all nested pieces. Without an end, the rest.
    fn balanced(&mut self, begun: Inner) -> String {
        let mut text = String::new();
        let mut open = vec![begun];
        while let Some(c) = self.rest.pop_front() {
            let Some(inner) = open.last() else { break };
            match (inner, c) {
                (Inner::Single, '\'') | (Inner::Ansi, '\'') | (Inner::Quote, '"') | (Inner::Round, ')') | (Inner::Curly, '}') => {
                    open.pop();
                    if open.is_empty() {
                        break;
                    }
                }
                (Inner::Single, _) => {}
                (_, '\\') => {
                    if let Some(c) = self.rest.pop_front() {
                        text.push(c);
                    }
                    continue;
                }
                (Inner::Ansi, _) => {}
                (_, '$') if self.rest.front() == Some(&'(') => {
                    self.rest.pop_front();
                    open.push(Inner::Round);
                    text.push_str("$(");
                    continue;
                }
                (Inner::Quote, _) => {}
                (_, '\'') => open.push(Inner::Single),
                (_, '"') => open.push(Inner::Quote),
                (Inner::Round, '(') => open.push(Inner::Round),
                (Inner::Curly, '{') => open.push(Inner::Curly),
                _ => {}
            }
            text.push(c);
        }
        text
    }
}

/// The kind of a nested piece, which says what ends it.
enum Inner {
    /// `"`
    Quote,
    /// `'`
    Single,
    /// `'` of `$'…'`, in which a backslash escapes.
    Ansi,
    /// `)`
    Round,
    /// `}`
    Curly,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn taken_apart(text: &str) -> Vec<String> {
        let end = |e: End| match e {
            End::List => ";",
            End::And => "&&",
            End::Or => "||",
            End::Pipe => "|",
            End::Background => "&",
        };
        let one = |c: &Simple| format!("{}{} {}", if c.nested { "$ " } else { "" }, c.words.join(","), end(c.end));
        Line::read(text).commands.iter().map(one).collect()
    }

    #[test]
    fn words_and_operators_are_told_from_text() {
        for (line, want) in [
            ("make test", &["make,test ;"][..]),
            ("a && b || c | d; e & f", &["a &&", "b ||", "c |", "d ;", "e &", "f ;"]),
            ("a&&b|&c", &["a &&", "b |", "c ;"]),
            ("echo 'a & b' \"c && d\" e\\ f", &["echo,a & b,c && d,e f ;"]),
            ("make >log 2>&1 </dev/null", &["make ;"]),
            ("make &>log", &["make ;"]),
            ("make &>>log x", &["make,x ;"]),
            ("echo 2 >x 3", &["echo,2,3 ;"]),
            ("echo a2>x", &["echo,a2 ;"]),
            ("a # b & c\nd", &["a ;", "d ;"]),
            ("echo a#b", &["echo,a#b ;"]),
            ("(cd x && make) && y", &["cd,x &&", "make ;", "y ;"]),
            ("echo $(nohup a &) b", &["$ nohup,a &", "echo,,b ;"]),
            ("echo \"$(nohup \"a\" &)\" b", &["echo,$(nohup \"a\" &),b ;"]),
            ("echo `nohup a &` b", &["echo,,b ;"]),
            ("echo $((1 & 2)) ${x:-a & b}", &["echo,, ;"]),
            ("((x = 1 & 2)); y", &["y ;"]),
            ("diff <(a | b) >(c)", &["$ a |", "$ b ;", "$ c ;", "diff,, ;"]),
            ("cat <<EOF >x\nnohup a &\nEOF\nb", &["cat ;", "b ;"]),
            ("cat <<-'E F' && c\n\tnohup a &\n\tE F\nb", &["cat &&", "c ;", "b ;"]),
            ("cat <<<'a & b' c", &["cat,c ;"]),
            ("cat <<EOF", &["cat ;"]),
            ("case x in a) b;; *) c;& esac", &["case,x,in,a ;", "b ;", "* ;", "c ;", "esac ;"]),
            ("echo $'it\\'s & fine' x", &["echo,,x ;"]),
            ("a \\\n b", &["a,b ;"]),
            ("echo 'open & b", &["echo,open & b ;"]),
            ("", &[]),
            (" ;; & ", &[]),
        ] {
            assert_eq!(taken_apart(line), want, "{line}");
        }
    }

    #[test]
    fn what_is_put_into_the_background_is_seen() {
        for (line, want) in [
            ("a &", true),
            ("a&", true),
            ("a & b", true),
            ("(a; b) & wait", true),
            ("{ a; } &", true),
            ("a && b", false),
            ("a 2>&1", false),
            ("a >&2", false),
            ("a &> b", false),
            ("a |& b", false),
            ("curl 'http://x/?a=1&b=2'", false),
            ("echo a \\& b", false),
            ("case x in a) b;& esac", false),
            ("[[ a && b ]]", false),
            ("echo $((a & b))", false),
        ] {
            assert_eq!(Line::read(line).background, want, "{line}");
        }
    }

    #[test]
    fn no_depth_is_too_deep() {
        for piece in ["$(", "(", "\"$(", "<(", "${", "((", "$((", "`", "<<a\n"] {
            Line::read(&piece.repeat(50_000));
        }
    }

    proptest! {
        #[test]
        fn any_line_is_taken(line in "[ a-c&|;()<>$'\"`\\\\#{}\\n\\t0-9é-]{0,60}") {
            Line::read(&line);
        }
    }
}
