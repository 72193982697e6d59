//! The whole product: the real `outlast`, a home of its own for each test.

mod support;

mod crash;
mod kill;
