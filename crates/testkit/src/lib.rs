//! Tests only: throwaway homes with the real product, keepers without an engine, test points.

pub mod built;
pub mod fake_gateway;
pub mod keeper;
pub mod leftovers;
pub mod machine;
pub mod os;
pub mod points;
pub mod product;
pub mod reboot;
pub mod sandbox;
pub mod trees;
mod waiting;
