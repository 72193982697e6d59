//! `outlast adopt`

use super::{Context, Failure, input, list, named, times};
use crate::config::World;
use clap::Args;
use outlast_client::AdoptFrom;
use std::ffi::{OsStr, OsString};

/// Add a running process that another program started
///
/// A number is a pid. Anything else is a checkpoint file of another process manager, or `-` for one on standard input. Adopted processes can be listed and
/// stopped; their output and exit code are not available. A checkpoint entry can ask for a notice of the end, but not for watched lines.
#[derive(Debug, Args)]
pub(crate) struct Adopt {
    /// A pid, a file or `-`
    #[arg(value_name = "PID|FILE")]
    what: OsString,
}

impl Adopt {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let adopted = ctx.client().await?.adopt(source(&self.what, &ctx.world)?).await?;
        // If nothing was adopted, a caller that named one pid must not see success.
        let code = i32::from(adopted.adopted.is_empty() && !adopted.skipped.is_empty());
        if ctx.out.json {
            ctx.out.object(&named::with_ids(&adopted))?;
            return Ok(code);
        }
        for line in list::lines(&adopted.adopted, times::now(), &ctx.out) {
            ctx.out.line(&line)?;
        }
        for process in &adopted.adopted {
            for warning in &process.warnings {
                ctx.out.remark(&format!("{}: {warning}", process.session_id));
            }
        }
        for skipped in &adopted.skipped {
            ctx.out.remark(&format!("not adopted: {skipped}"));
        }
        Ok(code)
    }
}

fn source(what: &OsStr, world: &World) -> Result<AdoptFrom, Failure> {
    let text = what.to_string_lossy();
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        let pid = text.parse().map_err(|_| Failure::refused(format!("{text} is too large to be a pid"), ""))?;
        return Ok(AdoptFrom::Pid { pid });
    }
    let bytes = input::file(what, world)?;
    let text = String::from_utf8(bytes).map_err(|_| Failure::refused(format!("{text} is not text"), "a checkpoint is a JSON file"))?;
    Ok(AdoptFrom::Checkpoint { text })
}
