//! `~` in paths that a shell did not expand.

use std::path::{Path, PathBuf};

/// The path with `~` and `~/…` replaced by the user's home directory. Any other path stays as it is, also `~name` and `./~`.
///
/// ```
/// # use outlast_core::expand_home;
/// # use std::path::Path;
/// let home = Some(Path::new("/home/me"));
/// assert_eq!(expand_home(Path::new("~/x"), home), Path::new("/home/me/x"));
/// assert_eq!(expand_home(Path::new("./~"), home), Path::new("./~"));
/// ```
pub fn expand_home(path: &Path, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~"), home) {
        (Ok(rest), Some(home)) if rest.as_os_str().is_empty() => home.to_owned(),
        (Ok(rest), Some(home)) => home.join(rest),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_tilde_alone_at_the_beginning_is_the_home_directory() {
        let cases = [
            ("~", "/h"),
            ("~/", "/h"),
            ("~/a/b", "/h/a/b"),
            ("~//a", "/h/a"),
            ("~me/a", "~me/a"),
            ("a/~", "a/~"),
            ("./~", "./~"),
            ("", ""),
        ];
        for (given, meant) in cases {
            assert_eq!(expand_home(Path::new(given), Some(Path::new("/h"))), Path::new(meant), "{given}");
        }
        assert_eq!(expand_home(Path::new("~/a"), None), Path::new("~/a"));
    }
}
