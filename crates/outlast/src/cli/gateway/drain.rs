//! `outlast gateway drain`

use super::super::some_seconds;
use super::{Context, Failure, none, running};
use clap::Args;
use std::time::Duration;

/// Start no new turns; those that run go on, and messages wait
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// For so many seconds [default and most: an hour]
    #[arg(long = "for", value_name = "S", value_parser = some_seconds, allow_negative_numbers = true)]
    hold: Option<Duration>,
    /// Let turns start again
    #[arg(long, conflicts_with = "hold")]
    off: bool,
}

impl Drain {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let Some(chat) = running(ctx).await? else { return none(ctx) };
        let done = if self.off { chat.undrain().await? } else { chat.drain(self.hold).await? };
        if ctx.out.json {
            ctx.out.object(&done)?;
        } else {
            ctx.out.tip(if self.off { "turns start again" } else { "no new turns are started; `outlast gateway drain --off` ends that" });
        }
        Ok(0)
    }
}
