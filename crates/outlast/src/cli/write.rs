//! `outlast write`

use super::answer::merge;
use super::named::{Named, with_ids};
use super::out::counted;
use super::{Context, Failure, input, named};
use clap::Args;
use outlast_client::{At, Client, ClientError, Owner, Written, code};
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
        match client.write(&process.id, &text, at(self.offset)).await {
            Ok(written) => tell(ctx, &process, &written),
            Err(e) => Err(process.failed(ctx, without_input(&client, &process.id, e).await)),
        }
    }
}

/// The refusal of input, in words for a user: the process was started without one, or its input has been closed since.
pub(crate) async fn without_input(client: &Client, id: &str, error: ClientError) -> Failure {
    if error.code() != code::NO_INPUT {
        return error.into();
    }
    let is_named = !error.to_string().starts_with("Process stdin not available");
    let failure = Failure::from(error);
    if is_named {
        // The keeper has said how much was taken.
        return failure.hinting(String::new());
    }
    // Only what was started with an input has a count of its bytes.
    let had_input = client.with_owner(Owner::default()).poll(id).await.is_ok_and(|info| info.input_bytes.is_some());
    match had_input {
        true => failure.saying("its input was closed, and takes nothing more".into()).hinting(String::new()),
        false => failure.saying("its input is closed".into()).hinting("start it with --stdin or --pty to write to it".into()),
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
        let already = written.already.map(|n| format!("; {} had been written before", counted(n, "byte"))).unwrap_or_default();
        ctx.out.tip(&format!("{} written{already}", counted(bytes, "byte")));
    }
    Ok(0)
}
