//! Which process belongs to an attempt of a command agent.

use crate::driver::Attempt;
use outlast_client::ProcessId;
use sha2::{Digest, Sha256};

/// The id of the process of an attempt. It is made from the attempt alone, so that a later gateway finds the process again.
pub(crate) fn attempt_process(key: &str, attempt: &Attempt) -> ProcessId {
    let mut sum = Sha256::new();
    for part in ["outlast command agent", key, &attempt.turn, &attempt.number.to_string()] {
        // The length before each part keeps two different attempts from being written alike.
        sum.update((part.len() as u64).to_be_bytes());
        sum.update(part);
    }
    let sum = sum.finalize();
    ProcessId::from_bytes(std::array::from_fn(|at| sum[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attempt_has_one_process_and_no_other_attempt_has_the_same() {
        let id = |key: &str, turn: &str, number| attempt_process(key, &Attempt::new(turn, number));
        assert_eq!(id("k", "t", 1), id("k", "t", 1));
        let all = [id("k", "t", 1), id("k", "t", 2), id("k", "t1", 1), id("kt", "", 1), id("k", "t", 11)];
        assert!(all.iter().enumerate().all(|(at, id)| !all[..at].contains(id)));
    }
}
