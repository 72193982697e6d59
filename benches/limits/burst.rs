//! The rate at which one loop can start and reap many programs.

use super::spawn::{Child, spawn};
use anyhow::{Context, Result};
use rustix::event::{Timespec, epoll};
use std::os::fd::OwnedFd;
use std::time::Instant;

/// How many of these commands finish in a second, if `count` of them are started as fast as possible.
pub(crate) fn burst(argv: &[&str], many: usize) -> Result<f64> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut running: Vec<Option<(Child, OwnedFd)>> = Vec::new();
    let mut left = many;
    let began = Instant::now();
    while left > 0 {
        if running.len() < many {
            let child = spawn(argv, None)?;
            let handle = child.handle()?;
            epoll::add(&poll, &handle, epoll::EventData::new_u64(running.len() as u64), epoll::EventFlags::IN)?;
            running.push(Some((child, handle)));
        }
        let mut events = Vec::with_capacity(64);
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), (running.len() < many).then_some(&at_once))?;
        for event in events {
            let (child, handle) = running[event.data.u64() as usize].take().context("one end is told once")?;
            // A child that is starting may still have a copy of the handle, which would keep it in the set.
            epoll::delete(&poll, &handle)?;
            child.reap()?;
            left -= 1;
        }
    }
    Ok(many as f64 / began.elapsed().as_secs_f64())
}
