//! What every test begins with.

#[allow(unused_imports)] // What one file does not need another does.
pub(crate) use outlast_testkit::product::{Answer, PATIENCE, Product, eventually, kill_and_wait, wait_for_end};
#[allow(unused_imports)] // What one file does not need another does.
pub(crate) use serde_json::{Value, json};

/// A fresh home served by the program under test.
pub(crate) fn product() -> Product {
    Product::new(env!("CARGO_BIN_EXE_outlast"))
}
