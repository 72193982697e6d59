//! Waits this many milliseconds, or with `read` until its standard input ends, prints the monotonic clock in nanoseconds, and is gone. Built by the benchmarks with `rustc` alone, static, so that
//! its own end takes no time worth mentioning.

use std::ffi::{c_int, c_long, c_void};

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

const CLOCK_MONOTONIC: c_int = 1;

unsafe extern "C" {
    fn clock_gettime(clock: c_int, now: *mut Timespec) -> c_int;
    fn write(fd: c_int, bytes: *const c_void, len: usize) -> isize;
    fn _exit(code: c_int) -> !;
}

fn main() {
    let word = std::env::args().nth(1).unwrap_or_default();
    if word == "read" {
        // What cannot be read is at its end, too.
        let _all = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    }
    std::thread::sleep(std::time::Duration::from_millis(word.parse().unwrap_or(0)));
    // Twenty digits and a line's end, made without an allocation between the clock and the write.
    let mut text = *b"00000000000000000000\n";
    let mut now = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the struct is as the C library has it, and is ours.
    unsafe { clock_gettime(CLOCK_MONOTONIC, &mut now) };
    let mut rest = now.seconds as u64 * 1_000_000_000 + now.nanoseconds as u64;
    for digit in text[..20].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    // SAFETY: the text lives until the program ends, which is the next thing it does.
    unsafe {
        write(1, text.as_ptr().cast(), text.len());
        _exit(0)
    }
}
