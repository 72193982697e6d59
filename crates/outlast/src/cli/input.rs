//! Text given on the command line or, as `-`, on standard input, so that secrets need not be on argv.

use super::Failure;
use crate::config::World;
use std::ffi::{OsStr, OsString};
use std::io::Read as _;
use std::os::unix::ffi::OsStringExt as _;

/// The bytes that `word` stands for.
pub(crate) fn text(word: OsString) -> Result<Vec<u8>, Failure> {
    if word == "-" { stdin() } else { Ok(word.into_vec()) }
}

/// All of standard input.
pub(crate) fn stdin() -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(|e| Failure::fault(format!("cannot read standard input: {e}"), ""))?;
    Ok(bytes)
}

/// The file of that name, or standard input.
pub(crate) fn file(name: &OsStr, world: &World) -> Result<Vec<u8>, Failure> {
    if name == "-" {
        return stdin();
    }
    std::fs::read(world.path(name)).map_err(|e| {
        Failure::refused(format!("cannot read {}: {e}", name.to_string_lossy()), "name a file that can be read, or `-` for standard input")
    })
}

/// Without the newline that ends the last line.
pub(crate) fn line(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    bytes
}
