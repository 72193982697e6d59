//! The real gateway, engine and agents, through the client that `outlast chat` uses.

mod agent;
mod cases;
mod crash;
mod doctor;
mod drain;
mod drill;
mod ends;
mod flood;
mod held;
mod list;
mod note;
mod notice;
mod order;
mod owner;
mod reset;
mod resume;
mod send;
mod service;
mod session;
mod start;
mod strange;
mod support;
mod told;
mod unwritable;
