//! The script that a login shell runs to print its state, and the parser of that.
//!
//! The shell writes NUL-terminated items to a descriptor that login files do not know. A marker made for this one run separates sections.
//! The parser searches nothing in lines of text, because a value may contain any line.

use super::super::SYSTEM_PATH;
use super::super::Variable;
use super::super::blocked::{login_may_set, unset_in_bash};

/// The descriptor on which the shell writes its answer.
pub(super) const ANSWER_FD: u32 = 187;

/// The state of a login shell, as it printed it.
pub(super) struct LoginAnswer {
    /// The variables that login files set or changed, except PATH.
    pub(super) exports: Vec<Variable>,
    pub(super) path: Option<Vec<u8>>,
    /// Name and definition.
    pub(super) functions: Vec<(Vec<u8>, Vec<u8>)>,
    /// Name and text.
    pub(super) aliases: Vec<(Vec<u8>, Vec<u8>)>,
    /// Whether functions may hold extended patterns.
    pub(super) extglob: bool,
}

/// The script that the login shell runs after its files.
///
/// Login files may have redefined anything. So every command is called as a builtin, options are reset first, and aliases are printed and
/// removed before the first keyword is read: a shell reads and runs this text line by line.
pub(super) fn script(marker: &str) -> String {
    let unset = unset_in_bash();
    format!(
        r#"\builtin set +eufkvxan +o posix
\builtin printf '%s\0' {marker} aliases "${{#BASH_ALIASES[@]}}" "${{!BASH_ALIASES[@]}}" "${{BASH_ALIASES[@]}}" >&{ANSWER_FD}
\builtin unalias -a
builtin printf '%s\0' {marker} extglob >&{ANSWER_FD}
if builtin shopt -q extglob; then builtin printf '1\0'; else builtin printf '0\0'; fi >&{ANSWER_FD}
(
builtin printf '%s\0' {marker} functions
while IFS= builtin read -r __outlast_n; do
  __outlast_n=${{__outlast_n##* }}
  case $__outlast_n in (''|_|_[!_]*) builtin continue ;; esac
  builtin printf '%s\0' "$__outlast_n"
  builtin declare -f -- "$__outlast_n"
  builtin printf '\0'
done <<< "$(builtin declare -F)"
builtin printf '%s\0' {marker} exports
{unset}/usr/bin/env -0 || builtin command -p env -0
) >&{ANSWER_FD}
builtin printf '%s\0' {marker} end >&{ANSWER_FD}
"#
    )
}

/// Whether the answer is whole.
pub(super) fn is_complete(answer: &[u8], marker: &str) -> bool {
    answer.ends_with(format!("{marker}\0end\0").as_bytes())
}

/// Reads a whole answer. `base` is the environment the shell was started in.
pub(super) fn parse(answer: &[u8], marker: &str, base: &[Variable]) -> Result<LoginAnswer, String> {
    let mut items = answer.split(|byte| *byte == 0);
    // Items are terminated, so the empty rest after the last one is not an item.
    items.next_back();
    let mut reader = Reader { items: items.peekable(), marker: marker.as_bytes() };

    reader.section("aliases")?;
    let count: usize =
        std::str::from_utf8(reader.item()?).ok().and_then(|count| count.parse().ok()).ok_or("the number of aliases is not a number")?;
    let words = reader.rest();
    if words.len() != count * 2 {
        return Err(format!("{count} aliases came as {} words", words.len()));
    }
    let (names, texts) = words.split_at(count);
    let aliases = names.iter().cloned().zip(texts.iter().cloned()).collect();

    reader.section("extglob")?;
    let extglob = reader.item()? == b"1";

    reader.section("functions")?;
    let words = reader.rest();
    let (pairs, odd) = words.as_chunks::<2>();
    if !odd.is_empty() {
        return Err("a function has no definition".into());
    }
    let functions = pairs.iter().cloned().map(|[name, text]| (name, text)).collect();

    reader.section("exports")?;
    let mut exports = Vec::new();
    let mut path = None;
    for word in reader.rest() {
        let Some(at) = word.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) else {
            return Err("a variable has no name".into());
        };
        let (name, value) = (word[..at].to_vec(), word[at + 1..].to_vec());
        if name == b"PATH" {
            path = Some(value);
        } else if is_of_login(&name, &value, base) {
            exports.push((name, value));
        }
    }
    reader.section("end")?;
    exports.sort();
    Ok(LoginAnswer { exports, path, functions, aliases, extglob })
}

/// The environment of the login shell: enough to find its files, and the same each time.
pub(super) fn base_environment(home: &[u8], user: &str, shell: &[u8]) -> Vec<Variable> {
    let variable = |name: &str, value: &[u8]| (name.as_bytes().to_vec(), value.to_vec());
    vec![
        variable("HOME", home),
        variable("USER", user.as_bytes()),
        variable("LOGNAME", user.as_bytes()),
        variable("SHELL", shell),
        variable("TERM", b"dumb"),
        variable("PATH", SYSTEM_PATH.as_bytes()),
        variable("LANG", b"C.UTF-8"),
        variable("OUTLAST_LOGIN_SNAPSHOT", b"1"),
    ]
}

/// Whether login files set this variable, and for commands.
fn is_of_login(name: &[u8], value: &[u8], base: &[Variable]) -> bool {
    const OF_THE_SHELL: [&str; 13] = [
        "_",
        "BASHOPTS",
        "BASH_ENV",
        "BASH_XTRACEFD",
        "COLUMNS",
        "ENV",
        "LINES",
        "OLDPWD",
        "PWD",
        "SHELLOPTS",
        "SHLVL",
        "TERM",
        "POSIXLY_CORRECT",
    ];
    let changed = !base.iter().any(|(own, given)| own == name && given == value);
    changed && login_may_set(name) && !OF_THE_SHELL.iter().any(|own| own.as_bytes() == name)
}

struct Reader<'a, I: Iterator<Item = &'a [u8]>> {
    items: std::iter::Peekable<I>,
    marker: &'a [u8],
}

impl<'a, I: Iterator<Item = &'a [u8]>> Reader<'a, I> {
    fn item(&mut self) -> Result<&'a [u8], String> {
        self.items.next().ok_or_else(|| "it ends too soon".into())
    }

    fn section(&mut self, name: &str) -> Result<(), String> {
        if self.item()? == self.marker && self.item()? == name.as_bytes() {
            Ok(())
        } else {
            Err(format!("the part {name} is not where it should be"))
        }
    }

    fn rest(&mut self) -> Vec<Vec<u8>> {
        let marker = self.marker;
        std::iter::from_fn(|| self.items.next_if(|item| *item != marker)).map(<[u8]>::to_vec).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn answer(parts: &[&[u8]]) -> Vec<u8> {
        parts.iter().flat_map(|part| [part, b"\0".as_slice()].concat()).collect()
    }

    const HEAD: [&[u8]; 9] = [b"M", b"aliases", b"0", b"M", b"extglob", b"0", b"M", b"functions", b"M"];

    #[test]
    fn only_what_login_changed_is_kept() {
        let base = base_environment(b"/h", "u", b"/bin/bash");
        let mut parts = HEAD.to_vec();
        let exports: [&[u8]; 12] = [
            b"exports",
            b"HOME=/h",
            b"LANG=de_DE",
            b"A=x\ny=z",
            b"PATH=/a:/b",
            b"TERM=xterm",
            b"SHLVL=3",
            b"OPENAI_API_KEY=k",
            b"OUTLAST_HOME=/o",
            b"N=\xff",
            b"EMPTY=",
            b"M",
        ];
        parts.extend(exports);
        parts.push(b"end");
        let whole = answer(&parts);
        assert!(is_complete(&whole, "M"));
        let read = parse(&whole, "M", &base).unwrap();
        let names: Vec<&[u8]> = read.exports.iter().map(|(name, _)| name.as_slice()).collect();
        assert_eq!(names, [b"A".as_slice(), b"EMPTY", b"LANG", b"N"]);
        assert_eq!(read.exports[0].1, b"x\ny=z");
        assert_eq!(read.path.as_deref(), Some(b"/a:/b".as_slice()));
    }

    #[test]
    fn an_answer_with_a_hole_in_it_is_refused() {
        let mut parts = HEAD.to_vec();
        parts.extend([b"exports".as_slice(), b"=x", b"M", b"end"]);
        assert!(parse(&answer(&parts), "M", &[]).is_err());
        for cut in 0..HEAD.len() {
            assert!(parse(&answer(&HEAD[..cut]), "M", &[]).is_err());
        }
        let odd: [&[u8]; 9] = [b"M", b"aliases", b"0", b"M", b"extglob", b"1", b"M", b"functions", b"f"];
        assert!(parse(&answer(&odd), "M", &[]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, "M", &[]);
        }
    }
}
