//! `outlast write`

use super::answer::merge;
use super::named::{Named, with_ids};
use super::{Context, Failure, input, named};
use clap::Args;
use outlast_client::{At, Written};
use serde_json::json;
use std::ffi::OsString;

/// Write text to the input of a process
///
/// No newline is added; `submit` adds one. The process needs an input: start it with `run --stdin` or `run --pty`.
#[derive(Debug, Args)]
pub(crate) struct Write {
    /// The process: its name, its id, or at least four digits of its id
    id: String,
    /// The text; `-` is standard input
    #[arg(allow_hyphen_values = true)]
    text: OsString,
    /// Where in the input the text begins; bytes that were written before are not written again
    #[arg(long, value_name = "BYTE")]
    offset: Option<u64>,
}

impl Write {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let text = input::text(self.text)?;
        let client = ctx.client().await?;
        let process = named::find(ctx, &client, &self.id, named::Purpose::Act).await?;
        let written = client.write(&process.id, &text, at(self.offset)).await.map_err(|e| process.failed(ctx, e))?;
        tell(ctx, &process, &written)
    }
}

pub(crate) fn at(offset: Option<u64>) -> At {
    offset.map_or(At::End, At::Byte)
}

pub(crate) fn tell(ctx: &Context, to: &Named, written: &Written) -> Result<i32, Failure> {
    if ctx.out.json {
        let mut answer = json!({"session_id": to.id});
        merge(&mut answer, serde_json::to_value(written).unwrap_or_default());
        ctx.out.object(&with_ids(&answer))?;
    } else if let Some(message) = &written.message {
        ctx.out.tip(message);
    } else if let Some(bytes) = written.bytes_written {
        ctx.out.tip(&format!("{bytes} bytes written"));
    }
    Ok(0)
}
