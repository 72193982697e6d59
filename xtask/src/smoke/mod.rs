//! `xtask __smoke`: tries the promises in the place where it runs, one check after another.
//!
//! It needs only this program and the `outlast` under test, so that the same call works in a container, a sandbox, a guest or on the host.
//! Each check waits for facts, has a time limit, and prints its result on one line.

mod faults;
mod full;
mod gate;
mod layer;
mod notices;
mod output;
mod read_only;
mod refused;
mod start;
mod stop;

use crate::Flags;
use anyhow::{Context, Result, bail, ensure};
use outlast_testkit::os::Refusal;
use outlast_testkit::product::Product;
use serde_json::Value;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

/// The time limit of a check, unless `--bound` changes it. It only turns a hang into a failure.
const BOUND: Duration = Duration::from_secs(120);
/// How long a fact may take within a check, so that the check can still say which one did not come.
static PATIENCE: OnceLock<Duration> = OnceLock::new();

/// One check.
struct Check {
    name: &'static str,
    run: fn(&Product) -> Result<()>,
}

/// Names each check after its function.
macro_rules! checks {
    ($($module:ident :: $name:ident),* $(,)?) => { &[$(Check { name: stringify!($name), run: $module::$name }),*] };
}

/// The checks of every promise.
const ALL: &[Check] = checks![
    start::exit_code_zero,
    start::exit_code_of_the_command,
    start::death_by_signal,
    start::program_that_is_missing,
    start::same_id_starts_once,
    start::directory_and_environment,
    start::wait_with_a_timeout,
    start::forty_at_once,
    output::three_megabytes,
    output::many_writers,
    output::follow_to_the_end,
    output::terminal_output,
    output::input,
    output::terminal_input,
    stop::plain_tree,
    stop::sessions_of_their_own,
    stop::double_forks,
    stop::forking_loop,
    stop::children_born_in_the_grace,
    stop::after_the_holder_was_killed,
    notices::end_is_told_once,
    notices::match_is_told_once,
    notices::end_without_an_engine_is_told,
    faults::engine_killed,
    faults::fork_server_killed,
    faults::pump_killed,
    faults::holder_killed,
    faults::pump_killed_under_load,
    faults::holder_killed_under_load,
    faults::pump_killed_on_a_terminal,
    faults::holder_killed_on_a_terminal,
    faults::pump_killed_near_the_end,
    faults::holder_killed_near_the_end,
    faults::several_killed_in_turn,
    faults::both_keepers_killed,
    faults::both_keepers_killed_and_the_command_ended,
    start::removed,
    start::doctor,
];

/// One check of each kind, for places that differ in one thing.
const SHORT: &[Check] = checks![
    start::exit_code_of_the_command,
    start::same_id_starts_once,
    output::many_writers,
    output::terminal_output,
    output::input,
    stop::sessions_of_their_own,
    notices::end_is_told_once,
    faults::engine_killed,
    faults::fork_server_killed,
    faults::pump_killed,
    faults::holder_killed,
];

/// A home that lies in a lower layer of an overlayfs.
const LAYERED: &[Check] = checks![layer::old_processes_are_known, layer::removed_from_the_lower_layer, layer::cleaned_from_the_lower_layer];

/// A disk that fills up under a running home, and is freed again.
const FULL: &[Check] = checks![
    full::keepers_live_on,
    full::end_is_known,
    full::stop_works,
    full::start_is_refused_or_whole,
    full::output_is_kept_or_shown_as_missing,
    full::engine_killed_while_full,
    full::end_is_told_once,
    full::works_again_with_room,
];

/// A home that becomes read-only under a running engine.
const READ_ONLY: &[Check] = checks![
    read_only::list_and_log_answer,
    read_only::start_is_refused_at_once,
    read_only::stop_works,
    read_only::end_is_known,
    read_only::works_again_when_writable,
];

/// A place where nothing can be started.
const REFUSED: &[Check] = checks![refused::run_says_why_at_once];

pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let program: PathBuf = flags.get("--program")?.context("--program is missing")?;
    let dir: PathBuf = flags.get("--dir")?.context("--dir is missing")?;
    let bound = flags.get("--bound")?.map_or(BOUND, Duration::from_secs);
    PATIENCE.get_or_init(|| bound.mul_f64(0.8));
    let only: Option<String> = flags.get("--only")?;
    let checks = match flags.get::<String>("--set")?.as_deref() {
        None | Some("all") => ALL,
        Some("short") => SHORT,
        Some("full") => FULL,
        Some("read-only") => READ_ONLY,
        Some("refused") => REFUSED,
        Some(other) => bail!("--set is all, short, full, read-only or refused, not {other:?}"),
    };
    std::fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    let mut product = Product::in_dir(program.canonicalize()?, &dir.canonicalize()?);
    // In some places only this variable names a usable directory for sockets.
    if let Some(runtime) = std::env::var_os("XDG_RUNTIME_DIR") {
        product = product.with_env("XDG_RUNTIME_DIR", runtime);
    }
    if let Some(name) = flags.get::<String>("--refuse")? {
        let call = outlast_store::calls::CALLS.iter().find(|c| c.name == name).with_context(|| format!("no call is named {name:?}"))?;
        let errno = flags.get("--errno")?.context("--errno is missing")?;
        product = product.refusing(Refusal { number: call.number, argument: call.argument, errno });
    }
    let product = Arc::new(product);
    if let Some(line) = flags.get::<String>("--layer")? {
        layer::cover(&product, &line)?;
    }
    std::panic::set_hook(Box::new(|_| {}));
    let (mut good, mut bad) = (0, 0);
    let layered = if flags.has("--layer") { LAYERED } else { &[] };
    for check in layered.iter().chain(checks).filter(|c| only.as_ref().is_none_or(|only| c.name == only)) {
        // If the first few checks fail, nothing starts, and each of the others would only reach its time limit.
        let failed = if good == 0 && bad >= 3 {
            said(check.name, || bail!("not tried: nothing works here"))
        } else {
            said(check.name, || bounded(&product, check.run, bound))
        };
        if failed { bad += 1 } else { good += 1 }
    }
    // A home that is gone with its mounts gets no further calls.
    if flags.has("--keep") {
        println!("smoke: {good} ok, {bad} failed");
        std::process::exit(i32::from(bad > 0));
    }
    // If nothing starts, `doctor` would only repeat that.
    let weaker = if std::ptr::eq(checks, REFUSED) { Vec::new() } else { degraded(&product) };
    for weaker in weaker {
        println!("weaker {weaker}");
    }
    if said("nothing_is_left", || bounded(&product, Product::shut_down, bound)) {
        bad += 1
    } else {
        good += 1
    }
    println!("smoke: {good} ok, {bad} failed");
    // A check that hung still holds the product. Then the caller removes the directory.
    if let Some(product) = Arc::into_inner(product).filter(|_| bad == 0) {
        drop(product);
    }
    std::process::exit(i32::from(bad > 0));
}

/// Prints the result of a check on one line. Returns whether it failed.
fn said(name: &str, check: impl FnOnce() -> Result<()>) -> bool {
    let began = Instant::now();
    match check() {
        Ok(()) => println!("ok {name} {} ms", began.elapsed().as_millis()),
        Err(e) => {
            println!("FAILED {name}: {}", format!("{e:#}").replace('\n', "\\n"));
            return true;
        }
    }
    false
}

/// Runs one check on a thread of its own. A panic is a failure, and so is reaching the time limit.
fn bounded(product: &Arc<Product>, check: fn(&Product) -> Result<()>, bound: Duration) -> Result<()> {
    let (tell, told) = mpsc::channel();
    let product = product.clone();
    std::thread::spawn(move || {
        let result = catch_unwind(AssertUnwindSafe(|| check(&product)));
        drop(product);
        let result = result.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            bail!("{}", text.unwrap_or_else(|| "it panicked".into()))
        });
        // If the check reached its time limit, the receiver is gone.
        let _late = tell.send(result);
    });
    match told.recv_timeout(bound) {
        Ok(result) => result,
        Err(_) => bail!("timed out after {} s", bound.as_secs()),
    }
}

/// What `doctor` reports as weaker here: the name of each check and its text.
fn degraded(product: &Product) -> Vec<String> {
    let Ok(said) = serde_json::from_slice::<Value>(&product.call(["doctor", "--json"]).out) else { return Vec::new() };
    let checks = said["checks"].as_array().cloned().unwrap_or_default();
    checks
        .iter()
        .filter(|c| c["state"] != "ok")
        .map(|c| {
            let promises: Vec<&str> = c["promises"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            // Ids differ from run to run.
            let what = c["what"].as_str().unwrap_or("?").split(" of proc_").next().unwrap_or("?").to_owned();
            format!("{} [{}]: {what}", c["name"].as_str().unwrap_or("?"), promises.join(" "))
        })
        .collect()
}

/// Polls for a fact, up to the time limit. Facts in files and answers have no descriptor to wait on.
fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> Result<T> {
    crate::wait::until(what, *PATIENCE.get_or_init(|| BOUND), Duration::from_millis(5), || Ok(look()))
}

/// Waits for the end of a process and compares its exit code.
fn ends_with(product: &Product, id: &str, code: i64) -> Result<()> {
    let ended = product.json(["wait", id, "--timeout", &PATIENCE.get_or_init(|| BOUND).as_secs().to_string()]);
    ensure!(ended["status"] == "exited" && ended["exit_code"] == code, "wait answered {ended} instead of exit code {code}");
    Ok(())
}

/// Compares the whole output with the expected bytes.
fn printed(product: &Product, id: &str, want: &[u8]) -> Result<()> {
    let log = product.call(["log", id, "--raw"]);
    ensure!(log.code == Some(0), "log exited {:?}: {}", log.code, log.err);
    let same = log.out.iter().zip(want).take_while(|(a, b)| a == b).count();
    ensure!(log.out == want, "{} bytes of output instead of {}; they differ from byte {same} on", log.out.len(), want.len());
    Ok(())
}
