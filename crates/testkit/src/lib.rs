//! Tests only: puppet process, throwaway homes, keepers without an engine, test points.

pub mod keeper;
pub mod points;
