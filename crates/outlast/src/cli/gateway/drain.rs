//! `outlast gateway drain`

use super::super::{some_seconds, times};
use super::{Context, Failure, none, running};
use clap::Args;
use outlast_client::code;
use std::time::Duration;

/// Start no new turns; running turns continue, and messages wait
///
/// The drain ends after an hour or the time of --for, with --off, and when the gateway stops.
#[derive(Debug, Args)]
pub(crate) struct GatewayDrainArgs {
    /// For this long, such as 90s or 5m; at most and by default 1h
    #[arg(long = "for", value_name = "DURATION", value_parser = some_seconds, allow_negative_numbers = true)]
    hold: Option<Duration>,
    /// Let turns start again
    #[arg(long, conflicts_with = "hold")]
    off: bool,
}

/// The longest time for which a gateway starts no turns.
const MAX_HOLD: Duration = Duration::from_secs(3600);

impl GatewayDrainArgs {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let Some(chat) = running(ctx).await? else {
            if self.off {
                return none(ctx);
            }
            let what = "no gateway runs, so nothing was drained";
            return Err(Failure::new(code::GATEWAY_NOT_RUNNING, what, "`outlast chat` or `outlast gateway run` starts one"));
        };
        let done = if self.off { chat.undrain().await? } else { chat.drain(self.hold).await? };
        if ctx.out.json {
            ctx.out.object(&done)?;
        } else {
            ctx.out.tip(&match self.off {
                true => "turns start again".to_owned(),
                false => {
                    // In the same words as the line about a message that waits.
                    let span = match self.hold.unwrap_or(MAX_HOLD).min(MAX_HOLD).as_secs() {
                        60 => "1 minute".to_owned(),
                        seconds if seconds > 0 && seconds % 60 == 0 => format!("{} minutes", seconds / 60),
                        seconds => times::age(seconds),
                    };
                    format!("no new turns are started for {span}; `outlast gateway drain --off` ends that")
                }
            });
        }
        Ok(0)
    }
}
