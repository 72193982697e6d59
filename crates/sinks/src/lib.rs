//! Telling people and programs: hook commands and webhooks.
//!
//! The engine keeps one row for each notice and sink. What is here takes what is due for a sink ([`Desk::take`]), runs a command or makes a request, and says
//! what became of it ([`Desk::settle`]). Nothing is remembered here that matters: whatever was under way when the engine died is lent again when its lease is over.
//!
//! What can be decided without acting is decided by pure functions: when to try again ([`backoff`]), and what is told together ([`plan`]).

mod backoff;
mod coalesce;
mod config;
mod desk;
mod event;
mod hook;
mod lookup;
mod os;
mod reason;
mod request;
mod run;
mod server;
mod start_gateway;
mod trial;
mod webhook;

pub use backoff::{Growth, Policy, backoff};
pub use coalesce::{Budget, Gather, MOST_TOGETHER, Plan, plan};
pub use config::{BadName, Hook, HookCommand, SinkConfig, Way};
pub use desk::{Desk, DeskError, Settle, Within};
pub use run::run;
pub use server::{Said, Server};
pub use start_gateway::{GatewayFacts, GatewayProgram, start_gateways};
pub use trial::{Trial, try_sink};
pub use webhook::{BadSecret, BadUrl, Secret, Target, Webhook};
