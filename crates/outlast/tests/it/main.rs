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
mod env;
mod input;
mod keeper;
mod kill;
mod list;
mod load;
mod log;
mod matched;
mod output;
mod points;
mod poll;
mod pty;
mod recover;
mod rerun;
mod retain;
mod rm;
mod run;
mod tool;
mod wait;
