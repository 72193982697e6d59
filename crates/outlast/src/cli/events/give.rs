//! `outlast events next`, `drain` and `follow`: they print notices, and take them under a lease.

use super::super::{Context, Failure, times};
use super::{AT_ONCE, Taking, sentence};
use clap::Args;
use outlast_client::{Client, ClientError, History, Notices, Take, Told, Verdict};
use outlast_text::announce_header;
use serde_json::{Value, json};
use std::io;
use std::time::Duration;
use tokio::io::AsyncWriteExt as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How far back a user is told of notices that were already seen, and how many are looked at.
const RECENT: Duration = Duration::from_secs(3_600);
const MAX_RECENT: u32 = 100;

#[derive(Debug, Args)]
pub(super) struct EventsNextArgs {
    /// At most this many
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    taking: Taking,
}

#[derive(Debug, Args)]
pub(super) struct EventsDrainArgs {
    /// At most this many [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    #[command(flatten)]
    taking: Taking,
}

/// Show notices as they are made
///
/// Takes and acknowledges nothing, so agents still get their notices. With --ack it is a taker: each notice is taken, printed and then
/// acknowledged. Continues across a restart of the engine; Ctrl-C leaves.
#[derive(Debug, Args)]
pub(super) struct EventsFollowArgs {
    /// From this number on, delivered and dropped ones too [default: new notices only]
    #[arg(long, value_name = "SEQ", conflicts_with = "ack")]
    from: Option<u64>,
    /// Take each notice, and acknowledge it once it is written
    #[arg(long)]
    ack: bool,
    /// With --ack: the lease, such as 30s or 5m; no other taker gets a notice before it ends
    #[arg(long, value_name = "DURATION", value_parser = super::some_seconds, default_value = "60s", allow_negative_numbers = true)]
    lease: Duration,
}

impl EventsNextArgs {
    pub(super) async fn perform(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let mut take = Take::default().limit(self.limit).lease(self.taking.lease);
        take.wait = self.taking.wait();
        let Notices { notices, text, .. } = client.take(&take).await?;
        let format = NoticeFormat::of(ctx);
        // All notices of one take have the same lease token.
        let lease = notices.first().and_then(|told| told.lease.clone());
        if notices.is_empty() && !ctx.out.json {
            if ctx.out.has_person() {
                ctx.out.tip(&format!("no notices are pending{}", held(ctx, client).await));
            }
            return Ok(0);
        }
        let said = match format {
            NoticeFormat::Json => line(&json!({"notices": notices, "lease": lease, "text": text})),
            NoticeFormat::Model => format!("{}\n", text.unwrap_or_default()),
            NoticeFormat::Line => lines(ctx, client, &notices),
        };
        if let Err(e) = write(said).await {
            return unwritten(client, &notices, e).await;
        }
        let ids: Vec<&str> = notices.iter().map(|told| told.event.event_id.as_str()).collect();
        ctx.out.remark(&format!("once it is delivered: outlast events ack --lease {} {}", lease.unwrap_or_default(), ids.join(" ")));
        Ok(0)
    }
}

impl EventsDrainArgs {
    /// What `events` does without a subcommand.
    pub(super) fn all() -> Self {
        Self { limit: None, taking: Taking { lease: Duration::from_secs(60), wait: None } }
    }

    pub(super) async fn perform(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let (lease, wait) = (self.taking.lease, self.taking.wait());
        let mut batch = Batch::take(client, self.limit, lease, if ctx.out.has_person() { Some(Duration::ZERO) } else { wait }).await?;
        if batch.given.is_empty() && ctx.out.has_person() && wait != Some(Duration::ZERO) {
            tell_waiting(ctx, client, wait).await;
            batch = Batch::take(client, self.limit, lease, wait).await?;
        }
        if batch.given.is_empty() && !ctx.out.json {
            tell_none(ctx, client).await;
            return Ok(0);
        }
        let text = match NoticeFormat::of(ctx) {
            NoticeFormat::Json => {
                let events: Vec<Value> = batch.given.iter().map(|told| json!({"event": told.event, "text": told.text})).collect();
                line(&json!({"events": events}))
            }
            NoticeFormat::Model => format!("{}\n", batch.text()),
            NoticeFormat::Line => lines(ctx, client, &batch.given),
        };
        let written = write(text).await;
        batch.written(written).await
    }
}

/// Says that no notice is pending.
async fn tell_none(ctx: &Context, client: &Client) {
    if !ctx.out.has_person() {
        return;
    }
    let seen = match count_seen(client).await {
        0 => String::new(),
        1 => "; 1 of the last hour was already seen (`outlast events history`)".to_owned(),
        n => format!("; {n} of the last hour were already seen (`outlast events history`)"),
    };
    ctx.out.tip(&format!("no notices are pending{}{seen}", held(ctx, client).await));
}

/// How many notices another taker holds, and until when.
async fn held(ctx: &Context, client: &Client) -> String {
    let mut held = History::default().newest_first().limit(MAX_RECENT);
    held.state = Some("leased".to_owned());
    // Without a history there is only less to say.
    let mut held = client.history(held).await.unwrap_or_default();
    let session = client.owner().session.clone().unwrap_or_default();
    held.retain(|told| told.event.session_key == session);
    let count = match held.len() {
        0 => return String::new(),
        1 => "1 is held by another taker".to_owned(),
        n => format!("{n} are held by other takers"),
    };
    let until = held.iter().filter_map(|told| told.lease_until).min();
    let until = until.map(|until| format!(" until {}", times::clock(until, times::now(), &ctx.world.zone()))).unwrap_or_default();
    format!("; {count}{until}")
}

/// Says that nothing is pending yet, and how long this waits.
async fn tell_waiting(ctx: &Context, client: &Client, wait: Option<Duration>) {
    let seen = match count_seen(client).await {
        0 => String::new(),
        1 => " (1 was already seen)".to_owned(),
        n => format!(" ({n} were already seen)"),
    };
    let wait = wait.map(|wait| format!(" up to {}", times::round_age(wait.as_secs().max(1)))).unwrap_or_default();
    ctx.out.tip(&format!("nothing is pending{seen}; waiting{wait}, Ctrl-C stops"));
}

/// How many notices of the last hour were settled because the user saw what they report.
async fn count_seen(client: &Client) -> usize {
    let recent = History::default().newest_first().limit(MAX_RECENT);
    // Without a history there is only less to say.
    let found = client.history(recent).await.unwrap_or_default();
    let (now, session) = (times::now(), client.owner().session.clone().unwrap_or_default());
    let is_counted = |told: &&Told| {
        let is_seen = told.state == "consumed" || (told.state == "pending" && told.observed);
        is_seen && told.event.session_key == session && now.seconds_since(told.event.created_at) < RECENT.as_secs()
    };
    found.iter().filter(is_counted).count()
}

/// Notices that were taken, to be acknowledged once they are written.
pub(in crate::cli) struct Batch<'a> {
    client: &'a Client,
    given: Vec<Told>,
}

impl<'a> Batch<'a> {
    /// Takes all notices, or up to `limit`. `wait`: how long to wait for the first; None waits without limit.
    pub(in crate::cli) async fn take(
        client: &'a Client,
        limit: Option<u32>,
        lease: Duration,
        wait: Option<Duration>,
    ) -> Result<Self, ClientError> {
        let mut batch = Self { client, given: Vec::new() };
        if let Err(e) = batch.take_all(limit, lease, wait).await {
            // Notices that cannot be released come back when their lease ends.
            let _later = settle(client, &batch.given, Verdict::Released).await;
            return Err(e);
        }
        Ok(batch)
    }

    async fn take_all(&mut self, limit: Option<u32>, lease: Duration, mut wait: Option<Duration>) -> Result<(), ClientError> {
        loop {
            let left = limit.map_or(AT_ONCE, |n| (n as usize).saturating_sub(self.given.len()).min(AT_ONCE));
            if left == 0 {
                return Ok(());
            }
            let mut take = Take::default().at_a_terminal().limit(left as u32).lease(lease);
            take.wait = wait;
            let more = self.client.take(&take).await?.notices;
            if more.is_empty() {
                return Ok(());
            }
            self.given.extend(more);
            wait = Some(Duration::ZERO);
        }
    }

    /// Whether there were no notices.
    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.given.is_empty()
    }

    /// All notices as one text.
    pub(in crate::cli) fn text(&self) -> String {
        announced(&self.given)
    }

    /// Releases the notices that would make the text longer than `chars` characters. The first one always stays.
    pub(in crate::cli) async fn keep_to(&mut self, chars: usize) -> Result<(), ClientError> {
        let fits = |n: &usize| announced(&self.given[..*n]).chars().count() <= chars;
        let count = (2..=self.given.len()).take_while(fits).last().unwrap_or(1).min(self.given.len());
        settle(self.client, &self.given.split_off(count), Verdict::Released).await
    }

    /// Acknowledges the notices if they were written, and releases them if not. Returns the exit code.
    pub(in crate::cli) async fn written(self, done: io::Result<()>) -> Result<i32, Failure> {
        if let Err(e) = done {
            return unwritten(self.client, &self.given, e).await;
        }
        match settle(self.client, &self.given, Verdict::Delivered).await {
            Ok(()) => Ok(0),
            Err(e) => {
                // The notices were written. Standard error says that they will come again.
                eprintln!("outlast: {e}; what was printed is not acknowledged, and will be given again as a repeat");
                Ok(1)
            }
        }
    }
}

fn announced(given: &[Told]) -> String {
    let texts = given.iter().map(|told| told.text.clone());
    announce_header(given.len()).into_iter().chain(texts).collect::<Vec<_>>().join("\n\n")
}

/// The form in which notices are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NoticeFormat {
    /// JSON, for a program.
    Json,
    /// The texts for models, for an agent that runs this in its own session.
    Model,
    /// One line each, for a user.
    Line,
}

impl NoticeFormat {
    fn of(ctx: &Context) -> Self {
        match ctx.owner().session {
            _ if ctx.out.json => Self::Json,
            Some(_) => Self::Model,
            None => Self::Line,
        }
    }
}

/// One line for each notice, for a user.
fn lines(ctx: &Context, client: &Client, given: &[Told]) -> String {
    given.iter().map(|told| sentence::line(ctx, &told.event, client.owner().session.as_deref())).collect()
}

fn line(object: &Value) -> String {
    format!("{object}\n")
}

/// Writes a text, and returns once the kernel has all of it.
pub(in crate::cli) async fn write(text: String) -> io::Result<()> {
    let mut out = tokio::io::stdout();
    out.write_all(text.as_bytes()).await?;
    out.flush().await
}

/// Releases notices that could not be written, and reports the error unless the reader has closed its end.
async fn unwritten(client: &Client, given: &[Told], error: io::Error) -> Result<i32, Failure> {
    // Notices that cannot be released come back when their lease ends.
    let _later = settle(client, given, Verdict::Released).await;
    match error.kind() {
        io::ErrorKind::BrokenPipe => Ok(1),
        _ => Err(error.into()),
    }
}

/// Settles notices, each with its lease token.
async fn settle(client: &Client, given: &[Told], verdict: Verdict) -> Result<(), ClientError> {
    for same in given.chunk_by(|a, b| a.lease == b.lease) {
        for some in same.chunks(AT_ONCE) {
            let ids: Vec<&str> = some.iter().map(|told| told.event.event_id.as_str()).collect();
            client.settle(&ids, some[0].lease.as_deref(), verdict.clone()).await?;
        }
    }
    Ok(())
}

impl EventsFollowArgs {
    pub(super) async fn perform(self, ctx: &Context, client: &Client) -> Result<i32, Failure> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        if self.ack { self.tell(ctx, client, &mut interrupts).await } else { self.look(ctx, client, &mut interrupts).await }
    }

    async fn look(self, ctx: &Context, client: &Client, interrupts: &mut Signal) -> Result<i32, Failure> {
        let mut notices = client.follow_notices(self.from.map(|seq| seq.saturating_sub(1)));
        notices.ready().await?;
        ctx.out.tip("Ctrl-C leaves");
        loop {
            let told = tokio::select! {
                _ = interrupts.recv() => break,
                told = notices.next() => told?,
            };
            // A slow reader of our output must not delay Ctrl-C.
            tokio::select! {
                _ = interrupts.recv() => break,
                written = write(shown(ctx, client, &told)) => written?,
            }
        }
        if let Some(seq) = notices.after() {
            ctx.out.remark(&format!("\ncome back with: outlast events follow --from {}", seq + 1));
        }
        Ok(0)
    }

    async fn tell(self, ctx: &Context, client: &Client, interrupts: &mut Signal) -> Result<i32, Failure> {
        let take = Take::default().lease(self.lease).wait();
        ctx.out.tip("Ctrl-C leaves");
        loop {
            let given = tokio::select! {
                _ = interrupts.recv() => return Ok(0),
                given = client.take(&take) => given?.notices,
            };
            for told in &given {
                let written = tokio::select! {
                    _ = interrupts.recv() => Err(io::ErrorKind::BrokenPipe.into()),
                    written = write(shown(ctx, client, told)) => written,
                };
                if let Err(e) = written {
                    return unwritten(client, &given, e).await;
                }
                settle(client, std::slice::from_ref(told), Verdict::Delivered).await?;
            }
        }
    }
}

fn shown(ctx: &Context, client: &Client, told: &Told) -> String {
    match NoticeFormat::of(ctx) {
        // A notice holds strings, numbers and maps with string keys only, which always serialise.
        NoticeFormat::Json => line(&serde_json::to_value(told).unwrap_or_default()),
        NoticeFormat::Model => format!("{}\n\n", told.text),
        NoticeFormat::Line => lines(ctx, client, std::slice::from_ref(told)),
    }
}
