//! Refuses system calls for a program and its descendants, as a container's profile does.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// A system call that is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// Its number.
    pub number: i64,
    /// Refused only if this argument has this value.
    pub argument: Option<(u8, u32)>,
    /// The error of the call.
    pub errno: i32,
}

/// Runs `command` and its descendants with these calls refused.
pub fn refuse(command: &mut Command, refusals: &[Refusal]) {
    let filter: Vec<libc::sock_filter> = refusals.iter().flat_map(rows).chain([give(libc::SECCOMP_RET_ALLOW)]).collect();
    // SAFETY: between fork and exec two system calls are made and nothing is allocated: the filter was built before.
    unsafe { command.pre_exec(move || install(&filter)) };
}

/// The instructions of a filter for one call: compare the number, then the argument, then return the error. A mismatch jumps over the rest.
fn rows(refusal: &Refusal) -> Vec<libc::sock_filter> {
    let unless = |value: u32, skip: u8| row(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, skip, value);
    let load = |at: u32| row(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at);
    let refuse = give(libc::SECCOMP_RET_ERRNO | refusal.errno as u32);
    // The number is the first field of the filter's input. The arguments, 8 bytes each, begin at 16, lower half first on the architectures
    // we support.
    match refusal.argument {
        None => vec![load(0), unless(refusal.number as u32, 1), refuse],
        Some((n, value)) => vec![load(0), unless(refusal.number as u32, 3), load(16 + 8 * u32::from(n)), unless(value, 1), refuse],
    }
}

fn row(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn give(answer: u32) -> libc::sock_filter {
    row(libc::BPF_RET | libc::BPF_K, 0, 0, answer)
}

fn install(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // SAFETY: both calls read plain data that lives across them.
    let done = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) == 0
    };
    if done { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_named_is_refused() {
        let answer = |refusals: &[Refusal]| {
            let mut command = Command::new("sh");
            refuse(command.args(["-c", "ulimit -n; mkdir /no/such/place 2>&1"]), refusals);
            String::from_utf8(command.output().unwrap().stdout).unwrap()
        };
        let mkdir = |argument| Refusal { number: libc::SYS_mkdir, argument, errno: libc::EXDEV };
        assert!(answer(&[]).contains("No such file"));
        assert!(answer(&[mkdir(None)]).contains("Invalid cross-device link"));
        // The second argument is the mode.
        assert!(answer(&[mkdir(Some((1, 0o777)))]).contains("Invalid cross-device link"));
        assert!(answer(&[mkdir(Some((1, 0o700)))]).contains("No such file"));
    }
}
