//! Variables from flags and files.

use super::{Failure, input};
use crate::config::World;
use clap::Args;
use outlast_client::EnvVar;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

/// Variables given by name.
#[derive(Debug, Args)]
pub(crate) struct EnvArgs {
    /// Set a variable; without a value it is copied from the current environment
    #[arg(long = "env", value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Read variables from a file of NAME=VALUE lines; `-` is standard input
    #[arg(long, value_name = "FILE")]
    env_file: Vec<OsString>,
}

impl EnvArgs {
    /// Whether a file is standard input.
    pub(crate) fn reads_stdin(&self) -> bool {
        self.env_file.iter().any(|f| f == "-")
    }

    /// All variables. A later one replaces an earlier one, a flag one of a file.
    pub(crate) fn read(self, world: &World) -> Result<Vec<EnvVar>, Failure> {
        let mut all: Vec<EnvVar> = Vec::new();
        for name in &self.env_file {
            let text = input::file(name, world)?;
            let found = parse(&text).map_err(|(line, what)| {
                Failure::refused(
                    format!("line {line} of {} {what}", name.to_string_lossy()),
                    "a line is NAME=value, NAME='value', NAME=\"value\" or a comment after #",
                )
            })?;
            found.into_iter().for_each(|v| put(&mut all, v));
        }
        for word in self.env {
            put(&mut all, flag(word, world)?);
        }
        Ok(all)
    }
}

fn put(all: &mut Vec<EnvVar>, var: EnvVar) {
    all.retain(|v| v.name != var.name);
    all.push(var);
}

fn flag(word: OsString, world: &World) -> Result<EnvVar, Failure> {
    let bytes = word.into_vec();
    let (name, value) = match bytes.iter().position(|b| *b == b'=') {
        Some(at) => (&bytes[..at], Some(OsString::from_vec(bytes[at + 1..].to_vec()))),
        None => (&bytes[..], None),
    };
    let name = OsStr::from_bytes(name);
    if name.is_empty() {
        return Err(Failure::refused(
            "a variable without a name was given with --env",
            "write --env NAME=value, or --env NAME for its value here",
        ));
    }
    if value.is_some() && name.as_bytes().iter().any(|b| b.is_ascii_whitespace() || b.is_ascii_control()) {
        // The rest of the word may be a secret.
        let hint = "write --env NAME=value, in quotes if the value has blanks in it";
        return Err(Failure::refused("a name with a blank in it was given with --env, which no variable has", hint));
    }
    let here = || world.env.iter().find(|(n, _)| n == name).map(|(_, v)| v.clone());
    match value.or_else(here) {
        Some(value) => Ok(EnvVar { name: name.into(), value: value.into() }),
        None => Err(Failure::refused(
            format!("{} is not set here, so --env {0} has no value to pass on", name.to_string_lossy()),
            "set it, or give the value: --env NAME=value",
        )),
    }
}

/// The variables in a file, or the line that is wrong and how. A message never shows a value, which may be a secret.
fn parse(text: &[u8]) -> Result<Vec<EnvVar>, (usize, &'static str)> {
    let mut vars = Vec::new();
    let mut at = Cursor { rest: text, line: 1 };
    while at.skip_to_word() {
        let line = at.line;
        at.keyword(b"export");
        let name = at.take_while(in_name);
        if !is_name(name) {
            return Err((line, "does not begin with a name"));
        }
        at.take_while(blank);
        if !at.eat(b'=') {
            return Err((line, "has no = after its name"));
        }
        at.take_while(blank);
        let value = at.value().ok_or((line, "has a quote that is not closed"))?;
        if !at.end_of_line() {
            return Err((line, "has more text after its value"));
        }
        vars.push(EnvVar { name: name.to_vec().into(), value: value.into() });
    }
    Ok(vars)
}

/// Whether a variable can have this name.
pub(crate) fn is_name(name: &[u8]) -> bool {
    name.iter().all(|b| in_name(*b)) && name.first().is_some_and(|b| !b.is_ascii_digit())
}

fn in_name(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-')
}

fn blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\r')
}

struct Cursor<'a> {
    rest: &'a [u8],
    line: usize,
}

impl<'a> Cursor<'a> {
    fn next(&mut self) -> Option<u8> {
        let (&b, rest) = self.rest.split_first()?;
        self.rest = rest;
        self.line += usize::from(b == b'\n');
        Some(b)
    }

    fn eat(&mut self, want: u8) -> bool {
        let here = self.rest.first() == Some(&want);
        if here {
            self.next();
        }
        here
    }

    fn take_while(&mut self, good: impl Fn(u8) -> bool) -> &'a [u8] {
        let len = self.rest.iter().position(|b| !good(*b)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        self.line += taken.iter().filter(|b| **b == b'\n').count();
        taken
    }

    /// Past blank lines and comments; whether something follows.
    fn skip_to_word(&mut self) -> bool {
        loop {
            self.take_while(|b| blank(b) || b == b'\n');
            if self.rest.first() != Some(&b'#') {
                return !self.rest.is_empty();
            }
            self.take_while(|b| b != b'\n');
        }
    }

    fn keyword(&mut self, word: &[u8]) {
        if let Some(rest) = self.rest.strip_prefix(word)
            && rest.first().copied().is_some_and(blank)
        {
            self.rest = rest;
            self.take_while(blank);
        }
    }

    fn value(&mut self) -> Option<Vec<u8>> {
        if self.eat(b'\'') {
            let value = self.take_while(|b| b != b'\'').to_vec();
            return self.eat(b'\'').then_some(value);
        }
        if self.eat(b'"') {
            return self.double_quoted();
        }
        let raw = self.take_while(|b| b != b'\n');
        // A # begins a comment only after a blank, because passwords may contain it.
        let end = (0..raw.len()).find(|i| raw[*i] == b'#' && (*i == 0 || blank(raw[*i - 1]))).unwrap_or(raw.len());
        Some(raw[..end].trim_ascii_end().to_vec())
    }

    fn double_quoted(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        loop {
            match self.next()? {
                b'"' => return Some(value),
                b'\\' => match self.next()? {
                    b'n' => value.push(b'\n'),
                    b't' => value.push(b'\t'),
                    b'r' => value.push(b'\r'),
                    c @ (b'"' | b'\\' | b'$' | b'`') => value.push(c),
                    c => value.extend([b'\\', c]),
                },
                b => value.push(b),
            }
        }
    }

    fn end_of_line(&mut self) -> bool {
        self.take_while(blank);
        if self.rest.first() == Some(&b'#') {
            self.take_while(|b| b != b'\n');
        }
        self.rest.is_empty() || self.eat(b'\n')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Result<Vec<(String, String)>, (usize, &'static str)> {
        let lossy = |v: EnvVar| (v.name.to_lossy().into_owned(), v.value.to_lossy().into_owned());
        parse(text).map(|vars| vars.into_iter().map(lossy).collect())
    }

    #[test]
    fn every_way_to_write_a_value() {
        let text = b"# head\n\nA=1\nexport B = two words \nC='it # is $X \\n'\nD=\"a\\n\\\"b\\\" \\$X \\q\" # tail\nE=\nF=p#ss # not this\nG=\"two\nlines\"\r\nH=#none\nI=x";
        let want = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "it # is $X \\n"),
            ("D", "a\n\"b\" $X \\q"),
            ("E", ""),
            ("F", "p#ss"),
            ("G", "two\nlines"),
            ("H", ""),
            ("I", "x"),
        ];
        assert_eq!(read(text).unwrap(), want.map(|(n, v)| (n.to_owned(), v.to_owned())));
    }

    #[test]
    fn bytes_that_are_no_text_survive() {
        assert_eq!(parse(b"A=\xff\xfe").unwrap()[0].value.as_bytes(), b"\xff\xfe");
    }

    #[test]
    fn what_is_wrong_is_named_by_its_line() {
        for (text, line) in
            [(&b"A=1\nnonsense"[..], 2), (b"=x", 1), (b"1A=x", 1), (b"\n\nA='open\nB=2", 3), (b"A='x' y", 1), (b"A \"x\"", 1)]
        {
            assert_eq!(read(text).unwrap_err().0, line, "{}", String::from_utf8_lossy(text));
        }
    }
}
