//! `outlast write`

use super::{Context, Failure, input};
use clap::Args;
use outlast_client::{At, Written};
use std::ffi::OsString;

/// Write text to the input of a process, without a newline
#[derive(Debug, Args)]
pub(crate) struct Write {
    /// The process: its id, or at least four of its digits
    id: String,
    /// The text; `-` is standard input
    #[arg(allow_hyphen_values = true)]
    text: OsString,
    /// Offset of the text in its input; bytes that are there already are not written again
    #[arg(long, value_name = "B")]
    offset: Option<u64>,
}

impl Write {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let text = input::text(self.text)?;
        let written = ctx.client().await?.write(&self.id, &text, at(self.offset)).await?;
        tell(ctx, &written)
    }
}

pub(crate) fn at(offset: Option<u64>) -> At {
    offset.map_or(At::End, At::Byte)
}

pub(crate) fn tell(ctx: &Context, written: &Written) -> Result<i32, Failure> {
    if ctx.out.json {
        ctx.out.object(written)?;
    } else if let Some(message) = &written.message {
        ctx.out.tip(message);
    } else if let Some(bytes) = written.bytes_written {
        ctx.out.tip(&format!("{bytes} bytes written"));
    }
    Ok(0)
}
