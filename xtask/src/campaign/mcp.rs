//! `cargo xtask campaign mcp`: the MCP server against what others have written to try servers with. The official conformance suite, the Inspector, and the Python SDK,
//! an old and a new one. Packages are installed below the target directory; nothing else remains.

use crate::Flags;
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::Product;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

/// What is installed, at the version that this was written against.
const NODE: &str = "node@24.21.0";
const CONFORMANCE: &str = "@modelcontextprotocol/conformance@0.2.0-alpha.12";
const INSPECTOR: &str = "@modelcontextprotocol/inspector@2.12.0";
const PYTHON: [&str; 2] = ["2.3.0", "1.26.0"];

/// The revisions whose scored scenarios are run.
const REVISIONS: [&str; 2] = ["2025-11-25", NEWEST];
const NEWEST: &str = "2026-07-28";
/// How the scenarios of the tasks extension are called, which no revision scores and the newest runs, and how many there are.
const TASKS: (&str, usize) = ("server-tasks-", 10);
/// How the Inspector begins a session.
const ERAS: [&str; 3] = ["legacy", "modern", "auto"];
/// The load of the Inspector's own load test.
const LOAD: usize = 2_000;
const AT_ONCE: usize = 20;

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let only = flags.get::<String>("--only")?;
    let wanted = |part: &str| only.as_deref().is_none_or(|only| only == part);
    let began = Instant::now();
    let program = super::program(flags)?;
    let bench = SuiteBench::new(program)?;
    let mut failed = Vec::new();
    let mut step = |name: String, done: Result<String>| match done {
        Ok(figures) => println!("  {name:<58} {figures}"),
        Err(e) => {
            println!("  {name:<58} FAILED: {e:#}");
            failed.push(name);
        }
    };
    if wanted("conformance") {
        conformance(&bench, &mut step)?;
    }
    if wanted("inspector") {
        inspector(&bench, &mut step)?;
    }
    if wanted("python") {
        python(&bench, &mut step)?;
    }
    println!("campaign mcp: {:.0} s", began.elapsed().as_secs_f64());
    ensure!(failed.is_empty(), "{} steps failed: {}", failed.len(), failed.join(", "));
    Ok(())
}

/// Prints a step, and remembers whether it failed.
type SuiteStep<'a> = dyn FnMut(String, Result<String>) + 'a;

/// What the steps have in common.
struct SuiteBench {
    program: PathBuf,
    /// Where packages are installed.
    place: PathBuf,
}

impl SuiteBench {
    fn new(program: PathBuf) -> Result<Self> {
        let own = std::env::current_exe()?;
        let target = own.parent().and_then(Path::parent).context("a target directory")?;
        let place = target.join("mcp");
        std::fs::create_dir_all(&place)?;
        Ok(Self { program, place })
    }

    /// A program of the npm packages.
    fn npm(&self, name: &str) -> Result<Command> {
        let place = self.place.join("npm");
        let (done, all) = (place.join("installed"), [NODE, CONFORMANCE, INSPECTOR]);
        if !std::fs::read_to_string(&done).is_ok_and(|what| what == all.join(" ")) {
            eprintln!("… installing {}", all.join(", "));
            std::fs::create_dir_all(&place)?;
            let mut install = Command::new("npm");
            install.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]).arg(&place).args(all);
            good(&mut install)?;
            std::fs::write(&done, all.join(" "))?;
        }
        let bin = place.join("node_modules/.bin");
        let mut command = Command::new(bin.join(name));
        // The suites need a newer Node than the machine may have.
        command.env("PATH", format!("{}:/usr/local/bin:/usr/bin:/bin", bin.display()));
        Ok(command)
    }

    /// The Python of an environment that has this version of the SDK.
    fn python(&self, version: &str) -> Result<PathBuf> {
        let place = self.place.join(format!("python-{version}"));
        let (python, done, what) = (place.join("bin/python"), place.join("installed"), format!("mcp=={version}"));
        if !std::fs::read_to_string(&done).is_ok_and(|there| there == what) {
            eprintln!("… installing {what}");
            good(Command::new("python3").args(["-m", "venv"]).arg(&place))?;
            good(Command::new(&python).args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", &what]))?;
            std::fs::write(&done, what)?;
        }
        Ok(python)
    }

    fn product(&self) -> Product {
        Product::new(&self.program)
    }
}

/// A server, ended when it is dropped.
struct Server {
    child: Child,
    url: String,
    token: Option<String>,
}

impl Server {
    /// Ours over HTTP.
    fn http(product: &Product) -> Result<Self> {
        let child = product.command(["mcp", "--http", "--json"]).stdout(Stdio::piped()).spawn()?;
        let (child, line) = first_line(child)?;
        let said: Value = serde_json::from_str(&line)?;
        let token = std::fs::read_to_string(said["token_file"].as_str().context("a token")?)?;
        Ok(Self { child, url: said["url"].as_str().context("an address")?.to_owned(), token: Some(token) })
    }

    /// The one with fixtures.
    fn fixtures(bench: &SuiteBench, product: &Product) -> Result<Self> {
        good(crate::cargo().args(["build", "--quiet", "--package", "outlast-mcp", "--example", "conformance"]))?;
        let example = std::env::current_exe()?.with_file_name("examples").join("conformance");
        let child = in_home(Command::new(example), product).arg(&bench.program).stdout(Stdio::piped()).spawn()?;
        let (child, line) = first_line(child)?;
        Ok(Self { child, url: line.trim().to_owned(), token: None })
    }

    fn header(&self) -> String {
        format!("Authorization: Bearer {}", self.token.as_deref().unwrap_or_default())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself. A step has reported that.
        let _over = self.child.kill();
        let _over = self.child.wait();
    }
}

fn first_line(mut child: Child) -> Result<(Child, String)> {
    let mut line = String::new();
    let out = child.stdout.take().context("a pipe")?;
    BufReader::new(out).read_line(&mut line)?;
    ensure!(!line.is_empty(), "a server said nothing");
    Ok((child, line))
}

/// A program in the surroundings of a product's own.
fn in_home(mut command: Command, product: &Product) -> Command {
    let like: Command = product.command([""; 0]);
    command.env_clear().envs(like.get_envs().filter_map(|(name, value)| Some((name, value?)))).current_dir(product.work());
    command.stdin(Stdio::null());
    command
}

fn conformance(bench: &SuiteBench, step: &mut SuiteStep<'_>) -> Result<()> {
    let product = bench.product();
    let server = Server::fixtures(bench, &product)?;
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mcp/examples/conformance/expected-failures.yml").canonicalize()?;
    println!("{CONFORMANCE}");
    for revision in REVISIONS {
        let results = tempfile::tempdir()?;
        let mut command = bench.npm("conformance")?;
        command.args(["server", "--url", &server.url, "--requirements", revision]).arg("--expected-failures").arg(&expected);
        let said = command.arg("--output-dir").arg(results.path()).stdin(Stdio::null()).output()?;
        let passed = |checks: Checks, least: usize| -> Result<String> {
            ensure!(said.status.success() && checks.failures.is_empty() && checks.scenarios >= least, "{checks}\n{}", tail(&said));
            Ok(checks.to_string())
        };
        step(format!("all that {revision} requires, and what it does not score"), passed(Checks::read(results.path(), "")?, 30));
        if revision == NEWEST {
            let (tasks, number) = TASKS;
            step("  of that, the tasks extension".into(), passed(Checks::read(results.path(), tasks)?, number));
        }
    }
    Ok(())
}

/// What the suite has written down.
#[derive(Debug, Default)]
struct Checks {
    scenarios: usize,
    good: usize,
    skipped: usize,
    warnings: Vec<String>,
    failures: Vec<String>,
}

impl Checks {
    /// What it says of the scenarios whose names begin so.
    fn read(dir: &Path, begins: &str) -> Result<Self> {
        let mut all = Self::default();
        for scenario in std::fs::read_dir(dir)? {
            let scenario = scenario?;
            if !scenario.file_name().to_string_lossy().starts_with(begins) {
                continue;
            }
            let text = std::fs::read_to_string(scenario.path().join("checks.json"))?;
            all.scenarios += 1;
            for check in serde_json::from_str::<Vec<Value>>(&text)? {
                let name = check["id"].as_str().unwrap_or_default().to_owned();
                match check["status"].as_str() {
                    Some("SUCCESS") => all.good += 1,
                    Some("SKIPPED") => all.skipped += 1,
                    Some("WARNING") => all.warnings.push(name),
                    Some("INFO") => {}
                    _ => all.failures.push(format!("{name} ({})", check["errorMessage"].as_str().unwrap_or_default())),
                }
            }
        }
        Ok(all)
    }
}

impl std::fmt::Display for Checks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} scenarios, {} checks passed, {} failed", self.scenarios, self.good, self.failures.len())?;
        for (what, n) in [("skipped by the suite", self.skipped), ("warnings", self.warnings.len())] {
            if n > 0 {
                write!(f, ", {n} {what}")?;
            }
        }
        for name in self.failures.iter().chain(&self.warnings) {
            write!(f, "; {name}")?;
        }
        Ok(())
    }
}

fn inspector(bench: &SuiteBench, step: &mut SuiteStep<'_>) -> Result<()> {
    println!("{INSPECTOR}");
    let product = bench.product();
    let server = Server::http(&product)?;
    let storage = tempfile::tempdir()?;
    for transport in ["stdio", "http"] {
        let ask = |era: &str, profile: &str, more: &[&str]| -> Result<Output> {
            let mut command = bench.npm("mcp-inspector")?;
            let path = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value).context("a path")?.to_owned();
            command = in_home(command, &product);
            command.env("PATH", path).env("HOME", storage.path());
            command.args(["--cli", "--protocol-era", era, "--format", "json"]);
            match transport {
                "http" => command.args([&server.url, "--header", &server.header()]),
                _ => {
                    let home = format!("OUTLAST_HOME={}", product.home().root.display());
                    command.args(["-e", &home, "-e", &format!("HOME={}", product.user().display())]);
                    command.arg(product.program()).args(["mcp", "--profile", profile])
                }
            };
            Ok(command.args(more).output()?)
        };
        let said = |era: &str, more: &[&str]| -> Result<Value> {
            let said = ask(era, "native", more)?;
            ensure!(said.status.success(), "{}", tail(&said));
            serde_json::from_slice(&said.stdout).with_context(|| tail(&said))
        };
        let strict = |era: &str, profile: &str, number: usize| -> Result<String> {
            let said = ask(era, profile, &["--method", "tools/list", "--strict"])?;
            // What it has to say of a schema it says here, and fails only if it is an error.
            ensure!(said.status.success() && said.stderr.is_empty(), "{}", tail(&said));
            let all: Value = serde_json::from_slice(&said.stdout).with_context(|| tail(&said))?;
            let tools = list(&all, "tools")?;
            ensure!(tools.len() == number, "{} tools: {all}", tools.len());
            Ok(format!("{number} tools, no complaint"))
        };
        let run = |era: &str, arguments: Value| -> Result<Value> {
            let arguments = arguments.to_string();
            let all = said(era, &["--method", "tools/call", "--tool-name", "run", "--tool-args-json", &arguments])?;
            Ok(field(&all, "structuredContent")?.clone())
        };
        for era in ERAS {
            let name = |what: &str| format!("{transport}, {era}: {what}");
            step(name("tools/list --strict"), strict(era, "native", 7));
            let called = run(era, json!({"command": "echo from the inspector"})).and_then(|answer| {
                ensure!(answer["output"] == "from the inspector", "{answer}");
                Ok("answered".into())
            });
            step(name("tools/call"), called);
            // A client of the old era cannot be given a task, though this one says so; a newer one asks for it until it is over.
            let later = run(era, json!({"command": "sleep 3; echo late", "wait_seconds": 1})).and_then(|answer| {
                let (key, want) = if era == "legacy" { ("status", "running") } else { ("output", "late") };
                ensure!(answer[key] == want, "{answer}");
                Ok(if era == "legacy" { "answered while it runs".into() } else { "a task, driven to its end".into() })
            });
            step(name("tools/call of what goes on"), later);
            let begun = run(era, json!({"command": "sleep 1000", "wait_seconds": 0, "notify": false}));
            let listed = begun.and_then(|_| said(era, &["--method", "resources/list"])).and_then(|all| {
                let number = list(&all, "resources")?.len();
                ensure!(number >= 2, "{all}");
                Ok(format!("{number} resources"))
            });
            step(name("resources/list"), listed);
        }
        if transport == "stdio" {
            for profile in ["hermes", "codex"] {
                step(format!("{transport}, modern: tools/list --strict of {profile}"), strict("modern", profile, 2));
            }
        }
        let (load, at_once) = (LOAD.to_string(), AT_ONCE.to_string());
        for era in ["legacy", "modern"] {
            let many =
                ["--method", "tools/call", "--tool-name", "list", "--load", "--load-requests", &load, "--load-concurrency", &at_once];
            let done = said(era, &many).and_then(|all| loaded(&all));
            step(format!("{transport}, {era}: {LOAD} calls of list, {AT_ONCE} at once"), done);
        }
    }
    Ok(())
}

/// A field of what the Inspector says, wherever it has it.
fn field<'a>(all: &'a Value, name: &str) -> Result<&'a Value> {
    all.get(name).or_else(|| all["result"].get(name)).with_context(|| format!("there is no {name}: {all}"))
}

fn list<'a>(all: &'a Value, name: &str) -> Result<&'a Vec<Value>> {
    field(all, name)?.as_array().with_context(|| format!("{name} is no list: {all}"))
}

/// The figures of a load test in which nothing went wrong.
fn loaded(all: &Value) -> Result<String> {
    let said = all.get("result").unwrap_or(all);
    ensure!(said["ok"] == LOAD && said["errorRate"] == 0, "{said}");
    let latency = &said["latencyMs"];
    Ok(format!("no error, {} a second, p50 {} ms, p99 {} ms", said["throughput"], latency["p50"], latency["p99"]))
}

fn python(bench: &SuiteBench, step: &mut SuiteStep<'_>) -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/mcp/tests/python/client.py").canonicalize()?;
    for version in PYTHON {
        println!("mcp=={version}");
        let python = bench.python(version)?;
        for transport in ["stdio", "http"] {
            let product = bench.product();
            let server = if transport == "http" { Some(Server::http(&product)?) } else { None };
            let mut command = in_home(Command::new(&python), &product);
            command.arg(&script);
            match &server {
                Some(server) => command.arg(&server.url).env("TOKEN", server.token.as_deref().unwrap_or_default()),
                None => command.arg(product.program()),
            };
            let said = command.output()?;
            let done = match said.status.success() {
                true => Ok(String::from_utf8_lossy(&said.stdout).trim().to_owned()),
                false => Err(anyhow::anyhow!("{}", tail(&said))),
            };
            step(format!("{transport}: tools, run, a notice"), done);
        }
    }
    Ok(())
}

/// The end of a program's output, for a failure message.
fn tail(said: &Output) -> String {
    let all = [said.stdout.as_slice(), &said.stderr].map(|bytes| String::from_utf8_lossy(bytes).trim().to_owned()).join("\n");
    let lines: Vec<&str> = all.lines().collect();
    format!("{}: {}", said.status, lines[lines.len().saturating_sub(25)..].join("\n"))
}

fn good(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let said = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name}"))?;
    ensure!(said.status.success(), "{name}: {}", tail(&said));
    Ok(())
}
