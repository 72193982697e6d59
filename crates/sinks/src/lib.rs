//! Delivers notices to people and programs: hook commands and webhooks.
//!
//! The engine keeps one row for each notice and sink. A sink's loop leases the deliveries that are due ([`DeliveryQueue::take`]), runs a
//! command or makes a request, and reports the result ([`DeliveryQueue::settle`]). This crate keeps no state that must survive: if the
//! engine dies during a call, the delivery is leased again when its lease runs out.
//!
//! Two pure functions decide when a failed call is made again ([`backoff`]) and which notices are delivered together ([`plan`]).

mod backoff;
mod call_result;
mod coalesce;
mod config;
mod event;
mod hook;
mod lookup;
mod os;
mod queue;
mod reason;
mod request;
mod run;
mod server;
mod start_gateway;
mod target;
mod trial;
mod webhook;

pub use backoff::{Growth, Policy, backoff};
pub use coalesce::{Budget, Gather, MOST_TOGETHER, Plan, plan};
pub use config::{BadName, DescribeNotice, Hook, HookCommand, SinkConfig, Way};
pub use queue::{DeliveryQueue, QueueError, Settle, Within};
pub use run::run;
pub use server::{Said, Server};
pub use start_gateway::{GatewayFacts, GatewayProgram, start_gateways};
pub use target::{BadUrl, Target};
pub use trial::{Trial, try_sink};
pub use webhook::{BadSecret, Secret, Webhook};
