//! An engine inside the test, real keepers, real commands.

mod adopt;
mod clock;
mod embed;
mod instances;
mod log;
mod run;
mod scope;
mod stop;
mod told;
mod wait;
mod wire;
mod world;
mod write;
