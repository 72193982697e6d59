//! `outlast log`

mod lines;
mod several;

use super::follow::{Follow, Screen, Stopped, gap};
use super::{Context, Failure};
use clap::Args;
use outlast_client::{Client, Event, From, LogPage, Page};

/// Show the output of a process
///
/// Without an offset the last lines are shown, with --offset 0 the first. Lines are numbered from 0. Escape sequences are removed and secrets masked;
/// --raw prints the bytes as they were written.
///
/// Several processes are shown line by line, each line after the name of its process. With --follow new lines are shown as they come, also across a restart of
/// the engine, until all have ended; with --json each line is an object of its own: {"event": "line", "session_id", "name", "text", "next_byte"}, and
/// there are events "gap", "end", "error" and, after Ctrl-C, "left".
#[derive(Debug, Args)]
pub(crate) struct Log {
    /// The process: its id, or at least four of its digits; may be several
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// The first line to show
    #[arg(long, value_name = "L", conflicts_with = "from_byte")]
    offset: Option<u64>,
    /// How many lines to show
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Show new output as it comes, until the output is closed; Ctrl-C leaves
    #[arg(long, short)]
    follow: bool,
    /// Print the bytes as they were written
    #[arg(long)]
    raw: bool,
    /// The first byte to show, instead of a line
    #[arg(long, value_name = "B")]
    from_byte: Option<u64>,
    /// Put the name of the process before each line, also for a single process
    #[arg(long)]
    prefix: bool,
}

impl Log {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let client = ctx.client().await?;
        if self.prefix || self.ids.len() > 1 {
            return several::perform(self, ctx, &client).await;
        }
        match (self.follow, self.raw && !ctx.out.json) {
            (true, _) => self.follow(ctx, &client).await,
            (false, true) => self.bytes(ctx, &client).await,
            (false, false) => self.page(ctx, &client).await,
        }
    }

    /// The one that is asked for.
    fn id(&self) -> &str {
        self.ids.first().map_or("", String::as_str)
    }

    fn wanted(&self) -> Page {
        let mut page = Page::default();
        (page.offset, page.limit, page.from_byte) = (self.offset, self.limit, self.from_byte);
        page
    }

    async fn page(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let page = client.log(self.id(), self.wanted()).await?;
        if ctx.out.json {
            ctx.out.object(&page)?;
            return Ok(0);
        }
        ctx.out.text(&page.output)?;
        remarks(ctx, &page);
        Ok(0)
    }

    /// The kept bytes: of the lines or from the byte asked for, else all.
    async fn bytes(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let (from, end) = match (self.offset, self.limit, self.from_byte) {
            (None, None, from) => (from.unwrap_or(0), None),
            (_, limit, _) => {
                let page = client.log(self.id(), self.wanted()).await?;
                (page.from_byte, limit.map(|_| page.next_byte))
            }
        };
        let mut screen = Screen::new(ctx, true, "");
        let mut chunks = client.read(self.id(), From::Byte(from));
        while let Some(chunk) = chunks.next().await? {
            match chunk {
                outlast_client::Chunk::Gap { from, to, why } => ctx.out.remark(&gap(from, to, &why)),
                outlast_client::Chunk::Bytes { at, bytes } => {
                    let room = end.map_or(bytes.len(), |end| end.saturating_sub(at).min(bytes.len() as u64) as usize);
                    screen.bytes(&bytes[..room]).await?;
                }
            }
            if end.is_some_and(|end| chunks.next_byte().is_some_and(|at| at >= end)) {
                break;
            }
        }
        Ok(0)
    }

    async fn follow(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        // The page says where its first line begins, and which command it is, which decides what is masked.
        let page = client.log(self.id(), self.wanted()).await?;
        let from = match (self.raw, self.offset, self.limit, self.from_byte) {
            (_, _, _, Some(byte)) => byte,
            (true, None, None, None) => 0,
            _ => page.from_byte,
        };
        let id = page.session_id.to_string();
        let follow = Follow { client, id: &id, command: &page.command, from: From::Byte(from), raw: self.raw, to_exit: false };
        let stopped = follow.show(ctx).await?;
        let now = client.poll(&id).await?;
        if ctx.out.json {
            let mut answer = serde_json::to_value(&now).unwrap_or_default();
            super::run::merge(&mut answer, stopped.fields());
            ctx.out.object(&answer)?;
        } else if let Stopped::Ended { .. } = stopped
            && now.fate.completion_reason.is_some()
        {
            ctx.out.tip(&format!("{id} {}", super::ending::sentence(&now.fate)));
        }
        Ok(0)
    }
}

/// What the text alone does not say.
fn remarks(ctx: &Context, page: &LogPage) {
    for missing in &page.gaps {
        if let Event::Gap { from, to, why } = missing {
            ctx.out.remark(&gap(*from, *to, why));
        }
    }
    if let Some(cut) = page.output_cut {
        ctx.out.remark(&format!("[{cut} characters were left out; --limit and --offset show them in parts]"));
    }
    if let Some(kept) = page.lines_gone {
        ctx.out.remark(&format!("[lines before {kept}, after the head, are no longer kept]"));
    }
    if page.first_line > 0 {
        let id = page.session_id;
        ctx.out.tip(&format!("[from line {} of {}; `outlast log {id} --offset 0` shows the first]", page.first_line, page.total_lines));
    }
}
