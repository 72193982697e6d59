//! `cargo xtask bench notices`: how soon an end is delivered, how many notices a second are durably delivered, and whether old ones slow down
//! new ones.

use crate::Flags;
use crate::bench_recovery::{ratio, release};
use crate::bench_suite::harness::{Stolen, disk};
use anyhow::{Context, Result, ensure};
use outlast_client::{Body, Client, Connect, Owner, Route, Run, Spec, Take, Tell, Time, Verdict, caller};
use outlast_store::os::now;
use outlast_testkit::product::Product;
use serde_json::{Map, Value};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The goals for the time from the end of a command to its event in a stream: the median, and the 99th percentile.
const TOLD_HALF: Duration = Duration::from_millis(1);
const TOLD_MOST: Duration = Duration::from_millis(10);
/// How long a command runs in the second measurement.
const LIVED: Duration = Duration::from_millis(20);
/// The goal for notices that are posted, taken and acknowledged in a second.
const RATE: f64 = 10_000.0;
/// The next notice, after this many old ones.
const OLD: usize = 100_000;
const NEXT: Duration = Duration::from_millis(2);

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let ends = flags.get("--ends")?.unwrap_or(500_usize);
    let old = flags.get("--old")?.unwrap_or(OLD);
    let program = match flags.get::<PathBuf>("--program")? {
        Some(path) => path.canonicalize().with_context(|| format!("{}", path.display()))?,
        None => release()?,
    };
    let stolen = Stolen::from_now_on()?;
    let disk = disk()?;
    let product = Product::in_dir(&program, disk.path());
    // The engine is started here, so that it has the product's environment.
    product.json(["engine", "start"]);
    let to = Connect::to(product.home().root);
    let sync = sync_time(&product.work())?;
    // One thread, as in the command line.
    let alone = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let measure = |ends, lived| alone.block_on(async { told(&Client::connect(&to).await?, &product.work(), ends, lived).await });
    let (told, from_rest) = (measure(ends, Duration::ZERO)?, measure(ends / 2, LIVED)?);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let client = Client::connect(&to).await?;
        let rate = rate(&client).await?;
        let (fresh, behind) = next_behind(&client, old).await?;
        println!("notices, medians of one run; a sync of one page of this disk takes {sync:.0?}");
        println!(
            "  end of a command to its event   p50 {:>8.2?} (limit {TOLD_HALF:?}, {:.1} syncs)   p99 {:>8.2?} (limit {TOLD_MOST:?})   of {ends}",
            told.all.half,
            ratio(told.all.half, sync),
            told.all.most
        );
        println!(
            "    of that, medians: {:.2?} until it was seen, {:.2?} until it was on record and its notice begun, {:.2?} until it was there",
            told.seen, told.recorded, told.written
        );
        println!(
            "    each after {LIVED:?} in which nothing ran: p50 {:.2?}, p99 {:.2?}; the processors have to wake up first",
            from_rest.all.half, from_rest.all.most
        );
        println!("  posted, taken, acknowledged     {rate:>8.0} a second (limit {RATE:.0})");
        println!(
            "  next behind {old} old ones   p50 {:>8.0?}   p99 {:>8.0?} (limit {NEXT:?})   behind none p50 {:.0?}, ratio {:.1}",
            behind.half,
            behind.most,
            fresh.half,
            ratio(behind.half, fresh.half)
        );
        let stolen = stolen.part()?;
        let host = if stolen > Stolen::MOST { ", which is too much for these times to be ours alone" } else { "" };
        println!("  the host took {:.1} % of the processors meanwhile{host}", stolen * 100.0);
        ensure!(told.all.half <= TOLD_HALF && told.all.most <= TOLD_MOST, "an end is told too late");
        ensure!(rate >= RATE, "too few a second");
        ensure!(behind.half <= NEXT, "old notices slow new ones down");
        Ok(())
    })
}

/// How long it took to deliver ends, and where the time went.
struct Told {
    all: Spread,
    seen: Duration,
    recorded: Duration,
    written: Duration,
}

/// The median and the 99th percentile.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    pub(crate) half: Duration,
    pub(crate) most: Duration,
}

pub(crate) fn spread(mut times: Vec<Duration>) -> Spread {
    times.sort_unstable();
    let at = |part: f64| times.get((times.len() as f64 * part) as usize).or(times.last()).copied().unwrap_or_default();
    Spread { half: at(0.5), most: at(0.99) }
}

/// How long the disk takes to write one page, the least that a record costs.
fn sync_time(dir: &Path) -> Result<Duration> {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::create(dir.join("page"))?;
    let mut times = Vec::new();
    for n in 0..200_u8 {
        let began = Instant::now();
        file.write_all_at(&[n; 4096], 0)?;
        file.sync_data()?;
        times.push(began.elapsed());
    }
    Ok(spread(times).half)
}

/// Ends commands one after the other, by closing their inputs, and measures the time until each event arrives.
async fn told(client: &Client, work: &Path, ends: usize, lived: Duration) -> Result<Told> {
    let owner = Owner { session: Some("bench:told".into()), ..Owner::default() };
    let client = client.with_owner(owner);
    let mut events = client.follow_notices(None);
    events.ready().await?;
    let fifo = work.join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR, 0)?;
    let mut times = Vec::new();
    let (mut seen, mut recorded, mut written) = (Vec::new(), Vec::new(), Vec::new());
    let since = |from: Time, to: Time| Duration::from_micros(to.micros().saturating_sub(from.micros()).max(0) as u64);
    for _ in 0..ends {
        let mut spec = Spec::argv([std::ffi::OsString::from("/bin/cat"), fifo.clone().into()]);
        spec.tell = Tell::end();
        let process = client.run(Run::new(spec, caller(std::iter::empty(), work))).await?;
        // Opening waits until the command opens the other end.
        let end = {
            let fifo = fifo.clone();
            tokio::task::spawn_blocking(move || std::fs::OpenOptions::new().write(true).custom_flags(libc::O_CLOEXEC).open(fifo)).await??
        };
        tokio::time::sleep(lived).await;
        let pid = process.poll().await?.pid.context("a running command has a pid")?;
        let watcher = ended(pid)?;
        let closed = now();
        drop(end);
        let event = events.next().await?;
        let (told_at, there) = (Instant::now(), now());
        times.push(
            told_at.saturating_duration_since(
                watcher.join().map_err(|_| anyhow::anyhow!("the thread that watches for the end has panicked"))??,
            ),
        );
        ensure!(event.event.session_id == process.id().to_string(), "another process was told");
        let Body::Completion(end) = &event.event.body else { anyhow::bail!("{} was told", event.event.kind()) };
        let ended = end.ended_at.context("an end has a time")?;
        seen.push(since(closed, ended));
        recorded.push(since(ended, event.event.created_at));
        written.push(since(event.event.created_at, there));
    }
    std::fs::remove_file(fifo)?;
    Ok(Told { all: spread(times), seen: spread(seen).half, recorded: spread(recorded).half, written: spread(written).half })
}

/// A thread that notes when the kernel reports the end of the command.
fn ended(pid: u32) -> Result<std::thread::JoinHandle<Result<Instant>>> {
    use rustix::event::{PollFd, PollFlags, poll};
    let pid = rustix::process::Pid::from_raw(pid as i32).context("a pid")?;
    let handle = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
    Ok(std::thread::spawn(move || {
        poll(&mut [PollFd::new(&handle, PollFlags::IN)], None)?;
        Ok(Instant::now())
    }))
}

fn event(n: usize) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("type".into(), "bench".into());
    fields.insert("message".into(), format!("number {n}").into());
    fields
}

/// Posts from many callers, and takes and acknowledges in batches, as an agent's gateway does.
async fn rate(client: &Client) -> Result<f64> {
    const ALL: usize = 20_000;
    const CALLERS: usize = 256;
    let client = client.with_owner(Owner { session: Some("bench:rate".into()), ..Owner::default() });
    let began = Instant::now();
    let mut posting = tokio::task::JoinSet::new();
    for caller in 0..CALLERS {
        let client = client.clone();
        posting.spawn(async move {
            for n in (caller..ALL).step_by(CALLERS) {
                client.post(Some(&format!("rate-{n}")), event(n), Route::default()).await?;
            }
            anyhow::Ok(())
        });
    }
    let mut settled = 0;
    while settled < ALL {
        let take = Take::default().limit(500).wait_at_most(Duration::from_secs(10));
        let given = client.take(&take).await?;
        ensure!(!given.notices.is_empty(), "only {settled} of {ALL} came");
        let ids: Vec<&str> = given.notices.iter().map(|t| t.event.event_id.as_str()).collect();
        let lease = given.notices[0].lease.as_deref();
        client.settle(&ids, lease, Verdict::Delivered).await?;
        settled += ids.len();
    }
    let took = began.elapsed();
    while let Some(done) = posting.join_next().await {
        done??;
    }
    Ok(ALL as f64 / took.as_secs_f64())
}

/// The next notice, in a home without older ones and in one with many.
async fn next_behind(client: &Client, old: usize) -> Result<(Spread, Spread)> {
    let client = client.with_owner(Owner { session: Some("bench:next".into()), ..Owner::default() });
    let fresh = next(&client, "fresh").await?;
    let mut filling = tokio::task::JoinSet::new();
    const CALLERS: usize = 64;
    for caller in 0..CALLERS {
        let client = client.clone();
        filling.spawn(async move {
            for n in (caller..old).step_by(CALLERS) {
                client.post(Some(&format!("old-{n}")), event(n), Route::default()).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = filling.join_next().await {
        done??;
    }
    loop {
        let given = client.take(&Take::default().limit(1_000)).await?;
        if given.notices.is_empty() {
            break;
        }
        let ids: Vec<&str> = given.notices.iter().map(|t| t.event.event_id.as_str()).collect();
        client.settle(&ids, given.notices[0].lease.as_deref(), Verdict::Delivered).await?;
    }
    Ok((fresh, next(&client, "behind").await?))
}

async fn next(client: &Client, name: &str) -> Result<Spread> {
    let mut times = Vec::new();
    for n in 0..200 {
        client.post(Some(&format!("{name}-{n}")), event(n), Route::default()).await?;
        let began = Instant::now();
        let given = client.take(&Take::default()).await?;
        times.push(began.elapsed());
        let [told] = &given.notices[..] else { anyhow::bail!("{} notices came instead of one", given.notices.len()) };
        client.settle(&[&told.event.event_id], told.lease.as_deref(), Verdict::Delivered).await?;
    }
    Ok(spread(times))
}
