//! One process, from its start to its last record.
