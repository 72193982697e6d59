//! The whole product: the real `outlast`, a home of its own for each test.

mod gate;
mod sleeper;
mod support;

mod active;
mod adopt;
mod crash;
mod kill;
mod list;
mod recover;
mod retain;
mod log;
mod output;
mod poll;
mod pty;
mod run;
mod wait;
