//! Tests only: throwaway homes with the real product, keepers without an engine, test points.

pub mod keeper;
pub mod leftovers;
pub mod points;
pub mod product;
