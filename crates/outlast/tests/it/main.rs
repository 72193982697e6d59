//! The whole product: the real `outlast`, a home of its own for each test.

mod gate;
mod sleeper;
mod support;

mod active;
mod adopt;
mod answers;
mod attach;
mod bad_input;
mod bad_times;
mod crash;
mod points;
mod env;
mod input;
mod kill;
mod list;
mod load;
mod recover;
mod rerun;
mod retain;
mod rm;
mod log;
mod output;
mod poll;
mod pty;
mod run;
mod wait;
