//! `outlast submit`

use super::write::{at, tell, without_input};
use super::{Context, Failure, input, named};
use clap::Args;
use std::ffi::OsString;

/// Write a line to the input of a process
///
/// Writes the text and a newline. The process needs an input: start it with `run --stdin` or `run --pty`.
#[derive(Debug, Args)]
pub(crate) struct Submit {
    /// The process: its name, its id, or at least four digits of its id
    id: String,
    /// The text; `-` is standard input, whose last newline is not doubled
    #[arg(allow_hyphen_values = true)]
    text: OsString,
    /// Where in the input the text begins; bytes that were written before are not written again
    #[arg(long, value_name = "BYTE")]
    offset: Option<u64>,
}

impl Submit {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let text = if self.text == "-" { input::line(input::stdin()?) } else { input::text(self.text)? };
        let client = ctx.client().await?;
        let process = named::find(ctx, &client, &self.id, named::Purpose::Act).await?;
        match client.submit(&process.id, &text, at(self.offset)).await {
            Ok(written) => tell(ctx, &process, &written),
            Err(e) => Err(process.failed(ctx, without_input(&client, &process.id, e).await)),
        }
    }
}
