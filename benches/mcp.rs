//! `cargo xtask bench mcp`: what a question over MCP costs beside a bare echo of the same library, a hundred agents at once on one engine, and how
//! long it takes to show a model the lines of a long log that matter. Also how many tokens the tools and some answers cost it.

use crate::Flags;
use crate::bench_notices::{Spread, spread};
use crate::bench_recovery::{ratio, release};
use crate::bench_suite::harness::{Stolen, disk};
use crate::rng::Rng;
use anyhow::{Context, Result, bail, ensure};
use outlast_testkit::product::Product;
use outlast_text::count_tokens;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ErrorData, JsonObject, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::{RequestContext, RoleServer, RunningService};
use rmcp::{RoleClient, ServerHandler, ServiceExt};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

/// How long the half of all polls may take.
const POLL: Duration = Duration::from_millis(1);
/// How many calls each of many agents makes.
const POLLS: usize = 20;
/// The length of the logs that are shortened.
const LONG_LOG_BYTES: usize = 5_000_000;
/// How many tokens of them may be shown.
const SHOWN_TOKENS: u32 = 2_000;
/// How long a command may take to print or to end, and its notice to be due.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to shorten one of them.
const SHORTEN: Duration = Duration::from_millis(500);

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let calls = flags.get("--calls")?.unwrap_or(500_usize);
    let rounds = flags.get("--rounds")?.unwrap_or(5_usize);
    let agents = flags.get("--agents")?.unwrap_or(100_usize);
    let program = match flags.get::<PathBuf>("--program")? {
        Some(path) => path.canonicalize().with_context(|| format!("{}", path.display()))?,
        None => release()?,
    };
    let disk = disk()?;
    let product = Product::in_dir(&program, disk.path());
    product.engine();
    let alone = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let stolen = Stolen::from_now_on()?;
    let (polls, echoes) = alone.block_on(poll_and_echo(&product, calls, rounds))?;
    let taken = stolen.part()? * 100.0;
    println!("mcp over stdio, {calls} calls in each of {rounds} rounds, one after the other in turns; p50 is the median of the rounds");
    println!("  process poll       p50 {:>8.0?} (limit {POLL:?})   p99 {:>8.0?}", polls.half, polls.most);
    println!("  bare rmcp echo     p50 {:>8.0?}                p99 {:>8.0?}", echoes.half, echoes.most);
    println!("  ratio {:.1}; the host took {taken:.1} % of the processors meanwhile", ratio(polls.half, echoes.half));
    let stolen = Stolen::from_now_on()?;
    let together = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let many = together.block_on(many_agents(&product, agents))?;
    let taken = stolen.part()? * 100.0;
    println!("{agents} agents at once on one engine, a server each, {POLLS} polls each, every answer right");
    println!("  until all servers had answered their first request {:.2} s", many.connected.as_secs_f64());
    println!("  start of a command p50 {:>8.2?}   p99 {:>8.2?}", many.starts.half, many.starts.most);
    println!(
        "  process poll       p50 {:>8.2?}   p99 {:>8.2?}   {:.0} a second in all; the host took {taken:.1} %",
        many.polls.half, many.polls.most, many.rate
    );
    println!("tokens of o200k_base: tools/list; the answer to `echo hello` (its text); the same with a notice (its text)");
    for (profile, start, look) in looks() {
        println!("  {profile:<8} {}", alone.block_on(cost(&product, profile, start, look))?);
    }
    println!("log of {LONG_LOG_BYTES} bytes with max_output_tokens {SHOWN_TOKENS}, {} times each (limit {SHORTEN:?})", rounds + 1);
    let mut slowest = Duration::ZERO;
    for (what, bytes) in long_logs() {
        let times = alone.block_on(shorten(&product, what, &bytes, rounds))?;
        println!("  {what:<24} p50 {:>8.0?}   longest {:>8.0?}", times.half, times.most);
        slowest = slowest.max(times.half);
    }
    ensure!(polls.half <= POLL, "a poll takes too long");
    ensure!(slowest <= SHORTEN, "a long log takes too long to be shortened");
    Ok(())
}

/// Each set of tools, with a call that starts a command which ends soon, and one that runs another.
fn looks() -> [(&'static str, ToolCall, ToolCall); 3] {
    const ENDS: &str = "sleep 2; exit 3";
    [
        ("native", ("run", json!({"command": ENDS, "wait_seconds": 0})), ("run", json!({"command": "echo hello"}))),
        (
            "hermes",
            ("terminal", json!({"command": ENDS, "background": true, "notify_on_complete": true})),
            ("terminal", json!({"command": "echo hello"})),
        ),
        ("codex", ("exec_command", json!({"cmd": ENDS, "yield_time_ms": 1})), ("exec_command", json!({"cmd": "echo hello"}))),
    ]
}

type ToolCall = (&'static str, Value);

/// The tokens of a set's descriptions, and of an answer without and with a notice.
async fn cost(product: &Product, profile: &str, start: ToolCall, look: ToolCall) -> Result<String> {
    let session = format!("bench:tokens:{profile}");
    let mut command = product.command(["mcp", "--profile", profile]);
    command.env("OUTLAST_SESSION", &session);
    let agent = Agent::start(command.into()).await?;
    let tools = agent.client.list_all_tools().await?;
    let quiet = agent.answer(look.0, &look.1).await?;
    agent.answer(start.0, &start.1).await?;
    let until = Instant::now() + COMMAND_TIMEOUT;
    let is_due = |one: &Value| one["event"]["exit_code"] == 3 && one["state"] == "pending";
    while !product.json(["events", "history", "--session", &session])["notices"].as_array().is_some_and(|all| all.iter().any(is_due)) {
        ensure!(Instant::now() < until, "the end is not reported");
        // The end is in a file, and no descriptor says so to a program that is no client.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let told = agent.answer(look.0, &look.1).await?;
    agent.leave().await?;
    let of = |said: &CallToolResult| {
        let text = said.content.first().and_then(|first| first.as_text()).map_or("", |text| text.text.as_str());
        anyhow::Ok(format!("{} ({})", count_tokens(&serde_json::to_string(said)?), count_tokens(text)))
    };
    Ok(format!("{}; {}; {}", count_tokens(&serde_json::to_string(&tools)?), of(&quiet)?, of(&told)?))
}

/// Long logs of the kinds that take different paths: many different lines, one line, letters of three bytes, and no text at all.
fn long_logs() -> [(&'static str, Vec<u8>); 4] {
    const WORDS: [&str; 8] = ["compiling", "module", "warning:", "src/lib.rs:12", "passed", "0x7f3a", "link", "value"];
    let mut rng = Rng::new(1, 1);
    let mut filled = |next: &mut dyn FnMut(&mut Rng, &mut Vec<u8>)| {
        let mut bytes = Vec::with_capacity(LONG_LOG_BYTES + 1_000);
        while bytes.len() < LONG_LOG_BYTES {
            next(&mut rng, &mut bytes);
        }
        bytes
    };
    let word = |rng: &mut Rng, bytes: &mut Vec<u8>| {
        bytes.extend_from_slice(rng.pick(&WORDS).as_bytes());
        bytes.push(b' ');
    };
    let mut number = 0;
    let lines = filled(&mut |rng, bytes| {
        number += 1;
        bytes.extend_from_slice(format!("{number} ").as_bytes());
        (0..10).for_each(|_| word(rng, bytes));
        bytes.push(b'\n');
    });
    let one_line = filled(&mut |rng, bytes| word(rng, bytes));
    let wide = filled(&mut |rng, bytes| {
        let letter = char::from_u32(0x4e00 + rng.below(0x5000) as u32).unwrap_or('x');
        bytes.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
    });
    let no_text = filled(&mut |rng, bytes| bytes.extend_from_slice(&rng.next().to_le_bytes()));
    [("lines of ten words", lines), ("one line of words", one_line), ("one line of Chinese", wide), ("random bytes", no_text)]
}

/// Has a process print this, and asks for its log once more often than there are rounds. The first time the vocabulary is unpacked.
async fn shorten(product: &Product, what: &str, bytes: &[u8], rounds: usize) -> Result<Spread> {
    let file = product.work().join("long-log");
    std::fs::write(&file, bytes)?;
    let mut command = product.command(["mcp", "--profile", "native"]);
    command.env("OUTLAST_SESSION", format!("bench:{what}"));
    let agent = Agent::start(command.into()).await?;
    let said = agent.call("run", json!({"command": format!("cat {}", file.display()), "wait_seconds": 60})).await?;
    let id = said["process"].as_str().with_context(|| format!("nothing was started: {said}"))?;
    let mut times = Vec::new();
    for _ in 0..=rounds {
        let began = Instant::now();
        let said = agent.call("log", json!({"process": id, "max_output_tokens": SHOWN_TOKENS})).await?;
        times.push(began.elapsed());
        ensure!(said["output"].as_str().is_some_and(|output| !output.is_empty()), "nothing is shown: {said}");
    }
    agent.leave().await?;
    Ok(spread(times))
}

/// The median of the rounds, for each value.
fn middle(rounds: &[Spread]) -> Spread {
    let of = |which: fn(&Spread) -> Duration| spread(rounds.iter().map(which).collect()).half;
    Spread { half: of(|r| r.half), most: of(|r| r.most) }
}

/// A server, as an agent starts it.
struct Agent {
    client: RunningService<RoleClient, ()>,
    child: Child,
}

impl Agent {
    async fn start(mut command: Command) -> Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true).spawn()?;
        let streams = (child.stdout.take().context("a pipe")?, child.stdin.take().context("a pipe")?);
        let client = ().serve(streams).await.context("no session could be begun")?;
        Ok(Self { client, child })
    }

    /// The real server, with the tools that have `process`.
    async fn ours(product: &Product, session: &str) -> Result<Self> {
        let mut command = product.command(["mcp", "--profile", "hermes"]);
        command.env("OUTLAST_SESSION", session);
        Self::start(command.into()).await
    }

    async fn echo() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("__mcp-echo");
        Self::start(command).await
    }

    async fn answer(&self, tool: &'static str, arguments: &Value) -> Result<CallToolResult> {
        let arguments = arguments.as_object().cloned().unwrap_or_default();
        Ok(self.client.call_tool(CallToolRequestParams::new(tool).with_arguments(arguments)).await?)
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> Result<Value> {
        let said = self.answer(tool, &arguments).await?;
        ensure!(said.is_error != Some(true), "{tool}: {}", json!(said));
        if let Some(structured) = said.structured_content {
            return Ok(structured);
        }
        // The tools that Hermes knows are answered with texts alone.
        let text = said.content.first().and_then(|first| first.as_text()).context("an answer has a text")?;
        Ok(serde_json::from_str(&text.text)?)
    }

    /// Starts a command that prints a word and keeps running.
    async fn begin(&self, word: &str) -> Result<String> {
        let arguments = json!({"command": format!("echo {word}; exec sleep 1000"), "background": true});
        let said = self.call("terminal", arguments).await?;
        said["session_id"].as_str().map(str::to_owned).with_context(|| format!("nothing was started: {said}"))
    }

    async fn leave(mut self) -> Result<()> {
        self.client.cancel().await?;
        ensure!(self.child.wait().await?.success(), "a server did not end well");
        Ok(())
    }
}

async fn poll_and_echo(product: &Product, calls: usize, rounds: usize) -> Result<(Spread, Spread)> {
    let (mut polls, mut echoes) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let (ours, echo) = (Agent::ours(product, &format!("bench:{round}")).await?, Agent::echo().await?);
        let id = ours.begin("one").await?;
        let question = json!({"action": "poll", "session_id": id});
        let (mut slow, mut bare) = (Vec::new(), Vec::new());
        // The first calls find cold caches.
        for n in 0..calls + 20 {
            let began = Instant::now();
            let said = ours.call("process", question.clone()).await?;
            let polled = began.elapsed();
            ensure!(said["session_id"] == *id && said["status"] == "running", "{said}");
            let began = Instant::now();
            let said = echo.call("echo", question.clone()).await?;
            let echoed = began.elapsed();
            ensure!(said == question, "{said}");
            if n >= 20 {
                slow.push(polled);
                bare.push(echoed);
            }
        }
        ours.call("process", json!({"action": "kill", "session_id": id})).await?;
        ours.leave().await?;
        echo.leave().await?;
        polls.push(spread(slow));
        echoes.push(spread(bare));
    }
    Ok((middle(&polls), middle(&echoes)))
}

struct Many {
    connected: Duration,
    starts: Spread,
    polls: Spread,
    rate: f64,
}

async fn many_agents(product: &Product, agents: usize) -> Result<Many> {
    let began = Instant::now();
    let mut connecting = JoinSet::new();
    for n in 0..agents {
        let mut command = product.command(["mcp", "--profile", "hermes"]);
        command.env("OUTLAST_SESSION", format!("bench:many:{n}"));
        connecting.spawn(async move { anyhow::Ok((n, Agent::start(command.into()).await?)) });
    }
    let all = connecting.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let connected = began.elapsed();
    let mut working = JoinSet::new();
    let began = Instant::now();
    for (n, agent) in all {
        working.spawn(async move {
            let word = format!("word-{n}-of-many");
            let since = Instant::now();
            let id = agent.begin(&word).await?;
            let started = since.elapsed();
            let (mut times, mut printed) = (Vec::new(), false);
            let until = Instant::now() + COMMAND_TIMEOUT;
            // A command may print later than these polls take.
            while times.len() < POLLS || !printed && Instant::now() < until {
                let since = Instant::now();
                let said = agent.call("process", json!({"action": "poll", "session_id": id})).await?;
                times.push(since.elapsed());
                ensure!(said["session_id"] == *id && said["status"] == "running", "another answer: {said}");
                let output = said["output_preview"].as_str().unwrap_or_default().trim();
                ensure!(output.is_empty() || output == word, "another's output: {said}");
                printed |= output == word;
            }
            Ok((agent, id, started, times, printed))
        });
    }
    let done = working.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let took = began.elapsed();
    let (mut starts, mut polls) = (Vec::new(), Vec::new());
    let mut leaving = JoinSet::new();
    for (agent, id, started, times, printed) in done {
        ensure!(printed, "what {id} printed was never shown");
        starts.push(started);
        polls.extend(times);
        leaving.spawn(async move {
            agent.call("process", json!({"action": "kill", "session_id": id})).await?;
            agent.leave().await
        });
    }
    leaving.join_all().await.into_iter().collect::<Result<Vec<()>>>()?;
    let rate = polls.len() as f64 / took.as_secs_f64();
    Ok(Many { connected, starts: spread(starts), polls: spread(polls), rate })
}

/// `xtask __mcp-echo`: measures the library alone.
pub(crate) fn echo() -> Result<()> {
    let alone = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    alone.block_on(async {
        let running = Echo.serve(rmcp::transport::io::stdio()).await?;
        match running.waiting().await? {
            rmcp::service::QuitReason::Cancelled | rmcp::service::QuitReason::Closed => Ok(()),
            reason => bail!("the session ended: {reason:?}"),
        }
    })
}

struct Echo;

impl ServerHandler for Echo {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: RequestContext<RoleServer>) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![Tool::new("echo", "Says the same", Arc::new(JsonObject::new()))]))
    }

    async fn call_tool(&self, request: CallToolRequestParams, _: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let same = Value::Object(request.arguments.unwrap_or_default());
        let mut result = CallToolResult::success(vec![ContentBlock::text(same.to_string())]);
        result.structured_content = Some(same);
        Ok(result.into())
    }
}
