//! A caller that starts one command after another and hears of each end.

use super::Ours;
use anyhow::{Context, Result, ensure};
use outlast_client::{Client, Followed, Spec};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;

/// How long an event may take before it counts as lost.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// A connection, what it hears, and the one thread that both run on, as in the program that people call.
pub(crate) struct Line {
    pub(crate) client: Client,
    pub(crate) events: Followed,
    pub(crate) runtime: Runtime,
}

impl Line {
    pub(crate) fn new(ours: &Ours, session: &str) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let (client, events) = runtime.block_on(async {
            let client = ours.client(session).await?;
            let mut events = client.follow_notices(None);
            events.ready().await?;
            anyhow::Ok((client, events))
        })?;
        Ok(Self { client, events, runtime })
    }

    /// Starts one command after another: how long until each was acknowledged, and until its end was reported.
    pub(crate) fn starts(&mut self, ours: &Ours, spec: &Spec, many: usize) -> Result<Vec<Vec<f64>>> {
        let (client, events) = (&self.client, &mut self.events);
        self.runtime.block_on(async {
            let (mut acknowledged, mut told) = (Vec::new(), Vec::new());
            for _ in 0..many {
                let run = ours.run(spec.clone());
                let began = Instant::now();
                let process = client.run(run).await?;
                acknowledged.push(began.elapsed().as_secs_f64());
                let event = tokio::time::timeout(PATIENCE, events.next()).await.context("an event is lost")??;
                told.push(began.elapsed().as_secs_f64());
                ensure!(event.event.session_id == process.id().to_string(), "another process was told");
            }
            Ok(vec![acknowledged, told])
        })
    }
}
