//! Random bytes, the ids made of them, and hexadecimal text.

use outlast_core::ProcessId;

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The bytes of a hexadecimal text; none if it is not one of `N` bytes.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N {
        return None;
    }
    for (n, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// An id for a new process. It may be taken already.
pub(crate) fn random_id() -> ProcessId {
    let mut bytes = [0; 6];
    random(&mut bytes);
    ProcessId::from_bytes(bytes)
}

/// A token that no client can guess.
pub(crate) fn lease_token() -> String {
    random_hex::<12>()
}

/// `N` random bytes as hexadecimal digits.
pub(crate) fn random_hex<const N: usize>() -> String {
    let mut bytes = [0; N];
    random(&mut bytes);
    hex(&bytes)
}

/// Fills `bytes` with random data.
pub(crate) fn random(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            // Never seen since Linux 3.17. An id that is taken is replaced by another one, so the clock is good enough.
            Err(_) => {
                let now = outlast_store::os::boottime_ns().to_le_bytes();
                bytes.iter_mut().zip(now.iter().cycle()).for_each(|(byte, now)| *byte = *now);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_repeat() {
        let drawn: std::collections::HashSet<_> = (0..1000).map(|_| random_id()).collect();
        assert_eq!(drawn.len(), 1000);
    }
}
