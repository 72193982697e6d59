//! `outlast run`

use super::answer::{merge, of_start};
use super::bell::Bell;
use super::envfile::{self, EnvArgs};
use super::failure::{INTERRUPTED, OURS};
use super::follow::{FollowOutput, Stopped};
use super::label::{self, Label};
use super::named::{self, Named, shown, with_ids};
use super::out::tame;
use super::owner::Whose;
use super::ready::Ready;
use super::route::RouteArgs;
use super::{Context, Failure, ending, input, left_running, output, some_seconds};
use clap::{Args, ValueEnum, ValueHint};
use outlast_client::{Client, Command, EnvironmentName, From, OnStop, OsText, ProcessId, ProcessInfo, Reason, Scope, Spec, code};
use outlast_text::{Redactor, secret_name};
use serde_json::json;
use std::ffi::OsString;
use std::time::Duration;

/// Start a command that keeps running when its starter ends
///
/// The first word that is not a flag begins the command, and every word after it belongs to the command. `--` before the command is allowed.
/// One word is a shell command line, several words are a program and its arguments, and `-` reads a shell command line from standard input.
///
/// Prints the id of the process once the command runs. With --wait or --follow the exit code is that of the command: its own code, 128+n for
/// signal n, 124 after --timeout, 126 or 127 if it could not be started, 125 if Outlast failed. With --until the exit code is 0 once the line is there.
///
/// With --notify or --watch you get a notice, exactly once, even if Outlast crashes in between. In a shell, `outlast events` shows it. A command that was
/// started in the session of an agent (--session, OUTLAST_SESSION) notifies that agent.
#[derive(Debug, Args)]
pub(crate) struct Run {
    /// Run it in a terminal of its own, for programs that need one
    #[arg(long, conflicts_with = "stdin")]
    pty: bool,
    /// Open a pipe for input, for `write` and `submit`; without this its input is empty
    #[arg(long)]
    stdin: bool,
    /// Make a notice when it ends; `outlast events` shows it
    #[arg(long)]
    notify: bool,
    /// Make a notice when it prints a line with this text; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    watch: Vec<String>,
    #[command(flatten)]
    route: RouteArgs,
    /// Ring the bell of this terminal when it ends, also while you use the shell for something else
    #[arg(long)]
    bell: bool,
    /// How many characters of output the notice of its end contains [default: 2000]
    #[arg(long, value_name = "N")]
    notify_chars: Option<u32>,
    /// Run it in this environment instead of on this machine
    #[arg(long, value_name = "ENVIRONMENT", hide = true)]
    on: Option<EnvironmentName>,
    /// Run it in this directory
    #[arg(long, value_name = "DIR")]
    cwd: Option<OsString>,
    #[command(flatten)]
    env: EnvArgs,
    /// A name, which every verb accepts in place of the id
    #[arg(long, value_name = "NAME", allow_hyphen_values = true)]
    name: Option<String>,
    /// A label by which processes are found together; may be given several times
    #[arg(long = "label", value_name = "KEY=VALUE")]
    labels: Vec<Label>,
    #[command(flatten)]
    whose: Whose,
    /// Stop it after this time, such as 90s, 5m or 1h30m. With --until: stop waiting after this time
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, allow_negative_numbers = true)]
    timeout: Option<Duration>,
    /// What `outlast engine stop` does to it
    #[arg(long, value_name = "WHAT", default_value = "keep")]
    on_stop: WhenStopped,
    /// Show its output until it ends; Ctrl-C leaves it running, and the exit code is 130
    #[arg(long, short, conflicts_with = "wait")]
    follow: bool,
    /// Wait until it ends, print its output, and exit with its code
    #[arg(long, short)]
    wait: bool,
    /// Print the process id and nothing else; errors are still reported
    #[arg(long, short, conflicts_with_all = ["wait", "follow", "until"])]
    quiet: bool,
    /// Wait for a line that contains this text, and print it
    ///
    /// Prints the process id and then the line, and exits 0; the process keeps running. If the command ends first, its last output is on standard error
    /// and the exit code is its own. After --timeout the exit code is 124, and the process keeps running.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["wait", "follow"], allow_hyphen_values = true, value_parser = text_of_a_line)]
    until: Option<String>,
    /// Use this process id; if the request is repeated, the same process is returned
    #[arg(long, value_name = "ID", value_parser = whole_id)]
    id: Option<ProcessId>,
    /// The command to run
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND", value_hint = ValueHint::CommandWithArguments)]
    command: Vec<OsString>,
    /// Whether `--` stands before the command: then its user meant every later word for the command.
    #[arg(skip)]
    is_separated: bool,
}

/// What shells exit with if there is no such program.
const NOT_FOUND: i32 = 127;
/// How long a start on a terminal waits for an end that comes at once, such as that of a program that does not exist.
const IMMEDIATE_END_TIMEOUT: Duration = Duration::from_millis(100);
/// Shorter values of variables are not masked in the output, so a text with them can be found.
const SHORTEST_SECRET: usize = 8;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum WhenStopped {
    Keep,
    Kill,
}

impl Run {
    /// Whether nothing but the id is to be printed.
    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// Reads from the whole command line whether `--` stands before the command.
    pub(crate) fn find_separator(&mut self, args: &[OsString]) {
        let before = args.len().checked_sub(self.command.len() + 1);
        self.is_separated = before.and_then(|at| args.get(at)).is_some_and(|word| word == "--");
    }

    /// Whether it shows the end of the command, if that comes.
    pub(crate) fn shows_output(&self) -> bool {
        self.wait || self.follow || self.until.is_some()
    }

    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        self.start(ctx).await.map_err(|e| e.exit(OURS))
    }

    async fn start(self, ctx: &Context) -> Result<i32, Failure> {
        let (follow, wait, quiet, id, bell) = (self.follow, self.wait, self.quiet, self.id, self.bell);
        let ready = self.until.clone().map(|text| Ready { text, at_most: self.timeout });
        let misplaced = misplaced(&self.command);
        let passed = if self.is_separated { None } else { passed_to_command(&self.command) };
        let spec = self.spec(ctx)?;
        if let Some(ready) = &ready {
            check_until(&ready.text, &spec, &Redactor::new(ctx.settings.redact))?;
        }
        let is_labelled = !spec.labels.is_empty();
        let client = ctx.client().await?.with_owner(spec.owner.clone());
        // Reported before the start, which may be refused because of such a setting.
        if !quiet {
            super::engine::tell_outdated(ctx, &client).await;
        }
        let mut run = outlast_client::Run::new(spec, ctx.caller());
        run.id = id;
        let info = client.run_info(run).await?;
        if info.fate.completion_reason == Some(Reason::FailedStart) {
            if wait || ready.is_some() {
                // The caller sees the end here and needs no notice of it. If this request fails, the notice is delivered all the same.
                let _seen = client.mark_completion_consumed(&info.session_id.to_string()).await;
            }
            return failed_start_with(ctx, &info, misplaced.as_deref());
        }
        let bell = Bell::new(ctx, bell);
        if let (Some(bell), None, false, false) = (&bell, &ready, follow, wait) {
            bell.leave(ctx, &info);
        }
        if let Some(passed) = passed {
            ctx.out.tip(&passed);
        }
        if quiet && !ctx.out.json {
            ctx.out.line(&info.session_id.to_string())?;
            return Ok(0);
        }
        for warning in &info.warnings {
            ctx.out.remark(&format!("note: {warning}"));
        }
        tell_not_passed_on(ctx, &info);
        label::tell_if_not_kept(ctx, is_labelled, &info);
        let typed = named::typed_after_start(ctx, &client, &info).await;
        if let Some(ready) = ready {
            let code = ready.wait(ctx, &client, &info, &typed).await?;
            if let Some(bell) = bell {
                let of = info.name.clone().unwrap_or_else(|| info.session_id.to_string());
                bell.tell_ready(ctx, &format!("{of}: the wait for {:?} is over", ready.text)).await;
            }
            return Ok(code);
        }
        match (follow, wait) {
            (true, _) => to_its_end(ctx, &client, info, &typed, bell).await,
            (_, true) => wait_for_it(ctx, &client, &info, &typed, bell).await,
            (false, false) => started(ctx, &client, info, &typed).await,
        }
    }

    fn spec(self, ctx: &Context) -> Result<Spec, Failure> {
        let command = command(self.command, self.env.reads_stdin())?;
        if self.cwd.as_ref().is_some_and(|dir| dir.is_empty()) {
            // A script with an unset variable passes this.
            return Err(Failure::refused("the directory of --cwd is empty", "name a directory, or leave --cwd out to run it here"));
        }
        let mut spec = Spec::of(command);
        spec.cwd = match &self.on {
            None => self.cwd.map(|dir| ctx.world.path(&dir).as_path().into()),
            // A directory of the environment: what is relative begins where commands start there.
            Some(_) => self.cwd.map(Into::into),
        };
        spec.on = self.on;
        spec.env = self.env.read(&ctx.world)?;
        spec.pty = self.pty;
        spec.stdin = self.stdin;
        spec.name = self.name;
        spec.labels = label::collect(self.labels)?;
        spec.owner = self.whose.or(ctx.owner());
        spec.timeout = self.timeout.filter(|_| self.until.is_none());
        spec.on_stop = match self.on_stop {
            WhenStopped::Keep => OnStop::Keep,
            WhenStopped::Kill => OnStop::Kill,
        };
        spec.tell.completion = self.notify;
        spec.tell.awaited = self.wait && self.notify;
        spec.tell.watch = self.watch;
        spec.tell.chars = self.notify_chars;
        spec.tell.route = self.route.into();
        Ok(spec)
    }
}

/// Refuses a text with a secret in it. Secrets are masked in the output, so such a line would never be found.
fn check_until(text: &str, spec: &Spec, redactor: &Redactor) -> Result<(), Failure> {
    let values = spec.env.iter().filter(|variable| secret_name(&variable.name.to_lossy()));
    let is_given =
        |value: &OsText| value.to_lossy().lines().map(str::trim).any(|line| line.len() >= SHORTEST_SECRET && text.contains(line));
    let (has, hint) = if redactor.is_on() && values.map(|variable| &variable.value).any(is_given) {
        (
            "has a value in it that is given under a secret's name",
            "wait for the text around it, or give the value under a name that is no secret's",
        )
    } else if redactor.command(text) != text {
        ("has the form of a secret in it, such as a token's", "wait for the text around it")
    } else {
        return Ok(());
    };
    Err(Failure::refused(format!("the text of --until {has}, and secrets are masked in the output"), hint))
}

/// Parses the id for a new process.
fn whole_id(text: &str) -> Result<ProcessId, String> {
    text.parse().map_err(|_| format!("{text:?} is not a whole process id: give proc_ and 12 hexadecimal digits"))
}

/// Parses the text of --until.
fn text_of_a_line(text: &str) -> Result<String, String> {
    match text {
        "" => Err("the text is empty: give some that only the awaited line contains".into()),
        text if text.contains('\n') => Err("a line contains no line break: give the text of one line".into()),
        text => Ok(text.to_owned()),
    }
}

/// One word is a shell command line, several are a program and its arguments, `-` reads a shell command line from standard input.
fn command(mut words: Vec<OsString>, stdin_taken: bool) -> Result<Command, Failure> {
    if words.len() > 1 {
        return Ok(Command::Argv(words.into_iter().map(OsText::from).collect()));
    }
    let word = words.pop().unwrap_or_default();
    if word == "-" && stdin_taken {
        return Err(Failure::refused("the command and --env-file cannot both be read from standard input", "put one of them into a file"));
    }
    let line = if word == "-" { input::line(input::stdin()?).into() } else { OsText::from(word) };
    if line.as_bytes().trim_ascii().is_empty() {
        return Err(Failure::refused("the command is empty", "write it after --, for instance: outlast run -- make test"));
    }
    Ok(Command::Shell(line))
}

/// Names the caller's variables that were not passed to the command.
pub(crate) fn tell_not_passed_on(ctx: &Context, info: &ProcessInfo) {
    if let Some(note) = not_passed_on(&info.not_passed_on) {
        ctx.out.tip(&note);
    }
}

fn not_passed_on(names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(format!("note: {one} was not passed on; use --env {one}")),
        several => Some(format!("note: {} were not passed on; use --env NAME", several.join(", "))),
    }
}

/// Reports that the process has started. On a terminal also how it has ended, if it ends at once. `typed` is what hints call it.
pub(crate) async fn started(ctx: &Context, client: &Client, info: ProcessInfo, typed: &str) -> Result<i32, Failure> {
    if ctx.out.json {
        ctx.out.object(&with_ids(&info))?;
        return Ok(0);
    }
    ctx.out.line(&info.session_id.to_string())?;
    if ctx.out.has_person() {
        let info = ended_at_once(client, &info).await.unwrap_or(info);
        ctx.out.tip(&stands(&info, typed));
        if let Some(note) = left_running::note(info.session_id, &info.left) {
            ctx.out.tip(&note);
        }
    }
    Ok(0)
}

/// The process as it stands after a moment, or at its end if that comes first. A list marks nothing as seen, so a notice of the end is delivered all the same.
async fn ended_at_once(client: &Client, info: &ProcessInfo) -> Option<ProcessInfo> {
    let mut output = client.follow_to_exit(&info.session_id.to_string(), From::Last(0));
    let end = async { while let Ok(Some(_)) = output.next().await {} };
    let _ended = tokio::time::timeout(IMMEDIATE_END_TIMEOUT, end).await;
    let scope = Scope { task: None, session: info.session_key.clone() };
    // A process that cannot be looked up is shown as it was after its start.
    let all = client.list(&scope, true).await.ok()?;
    all.into_iter().find(|p| p.session_id == info.session_id && p.fate.completion_reason.is_some())
}

/// The state just after the start, and the command that shows the output.
fn stands(info: &ProcessInfo, typed: &str) -> String {
    match ending::outcome_in_words(info) {
        Some(outcome) => format!("{outcome}; `outlast log {typed}` shows its output"),
        None => {
            let pid = info.pid.map(|pid| format!(" as pid {pid}")).unwrap_or_default();
            format!("{}{pid}; `outlast log {typed} --follow` shows its output", info.phase)
        }
    }
}

/// The long flag of `run` that a word is.
fn flag_of<'a>(run: &'a clap::Command, word: &OsString) -> Option<&'a clap::Arg> {
    let flag = word.to_str()?.strip_prefix("--")?;
    let name = flag.split('=').next().unwrap_or(flag);
    run.get_arguments().find(|flag| flag.get_long() == Some(name))
}

/// A note about words of the command that are long flags of `run`, too.
fn passed_to_command(words: &[OsString]) -> Option<String> {
    let run = Run::augment_args(clap::Command::new("run"));
    let mut found = Vec::new();
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        // What follows a `--` of the command's own is no flag.
        if word == "--" {
            break;
        }
        let Some(flag) = flag_of(&run, word) else { continue };
        let takes_next = flag.get_action().takes_values() && !word.to_string_lossy().contains('=');
        let value = takes_next.then(|| rest.next()).flatten();
        let text = [Some(word), value].into_iter().flatten().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        found.push(format!("`{}`", Redactor::new(true).command(&tame(&text))));
    }
    (!found.is_empty()).then(|| format!("note: {} went to the command; flags of Outlast come before it", found.join(", ")))
}

/// A hint for words that look like a shell command line followed by flags of `run`.
fn misplaced(words: &[OsString]) -> Option<String> {
    let (program, rest) = words.split_first().filter(|(_, rest)| !rest.is_empty())?;
    let run = Run::augment_args(clap::Command::new("run"));
    if program.to_string_lossy().contains(char::is_whitespace) || rest.iter().any(|word| flag_of(&run, word).is_some()) {
        let hint = "a shell line is one word, and flags of run go before it, such as: outlast run --name web 'make && ./serve'";
        return Some(hint.to_owned());
    }
    if let Some((name, value)) = program.to_str().and_then(|word| word.split_once('='))
        && envfile::is_name(name.as_bytes())
    {
        let value = if secret_name(name) { "VALUE" } else { value };
        return Some(format!(
            "a variable is given with --env: outlast run --env {}",
            typed_words(&[OsString::from(format!("{name}={value}"))])?
        ));
    }
    let is_shell =
        SHELL_WORDS.iter().any(|word| *program == **word) || rest.iter().any(|word| SHELL_OPERATORS.iter().any(|op| *word == **op));
    let line = || typed_words(words).unwrap_or_else(|| "cd /tmp && ls".into());
    is_shell.then(|| format!("a shell line is one word: outlast run '{}'", line()))
}

/// What only a shell understands as the first word of a command.
const SHELL_WORDS: [&str; 22] = [
    "alias", "cd", "eval", "exec", "exit", "export", "for", "function", "if", "local", "read", "return", "set", "shift", "source", "trap",
    "type", "ulimit", "umask", "unset", "until", "while",
];
/// What only a shell understands as a later word.
const SHELL_OPERATORS: [&str; 10] = ["&&", "||", "|", ";", "&", ">", ">>", "<", "2>", "2>&1"];

/// The words as a user can type them within quotes. None if they need quotes of their own, or hold a secret.
fn typed_words(words: &[OsString]) -> Option<String> {
    let line = words.iter().map(|word| word.to_str()).collect::<Option<Vec<_>>>()?.join(" ");
    let is_plain = !line.contains(|c: char| c.is_control() || "'\"\\$`!*?".contains(c)) && words.iter().all(|word| !word.is_empty());
    (is_plain && Redactor::new(true).command(&line) == line).then_some(line)
}

/// Reports that the command could not be started.
pub(crate) fn failed_start(ctx: &Context, info: &ProcessInfo) -> Result<i32, Failure> {
    failed_start_with(ctx, info, None)
}

/// The same, with a hint for the case that the program was not found.
fn failed_start_with(ctx: &Context, info: &ProcessInfo, if_not_found: Option<&str>) -> Result<i32, Failure> {
    let hint = if_not_found.filter(|_| ending::exit_code(&info.fate) == NOT_FOUND);
    let error = format!("{} {}", shown(info.session_id, info.name.as_deref()), ending::sentence(&info.fate));
    if ctx.out.json {
        let mut answer = serde_json::to_value(info).unwrap_or_default();
        merge(
            &mut answer,
            json!({"error": error, "code": code::FAILED_START, "hint": hint.unwrap_or("check the command, its directory and its permissions")}),
        );
        ctx.out.object(&with_ids(&answer))?;
    } else {
        ctx.out.remark(&format!("outlast: {error}"));
        if let Some(hint) = hint {
            ctx.out.remark(&format!("  {hint}"));
        }
    }
    Ok(ending::exit_code(&info.fate))
}

/// Waits until it ends, and prints its output. Returns its exit code.
pub(crate) async fn wait_for_it(
    ctx: &Context,
    client: &Client,
    info: &ProcessInfo,
    typed: &str,
    bell: Option<Bell>,
) -> Result<i32, Failure> {
    let id = info.session_id.to_string();
    let waited = super::wait::for_it(ctx, client, &id, typed, None).await?;
    let of = Named { id: id.clone(), name: info.name.clone() };
    if let Some(bell) = bell.filter(|_| waited.fate.completion_reason.is_some()) {
        bell.tell_end(ctx, &of, &info.command, &waited.fate).await;
    }
    if ctx.out.json {
        // The fields of the start, such as the pid, and those of the end.
        let mut answer = serde_json::to_value(client.poll(&id).await?).unwrap_or_default();
        if let Some(fields) = answer.as_object_mut() {
            // `output` is there in its place, and `output_cut` is about that.
            fields.retain(|name, _| name != "output_preview" && name != "output_cut");
        }
        merge(&mut answer, output::in_json(client, &id, &waited).await);
        merge(&mut answer, of_start(info));
        ctx.out.object(&with_ids(&answer))?;
        return Ok(super::wait::code(&waited));
    }
    super::wait::tell(ctx, client, &of, &waited, None).await
}

/// Shows its output until it ends, and returns its exit code.
pub(crate) async fn to_its_end(ctx: &Context, client: &Client, info: ProcessInfo, typed: &str, bell: Option<Bell>) -> Result<i32, Failure> {
    let id = info.session_id.to_string();
    ctx.out.tip(&format!("{} runs; Ctrl-C leaves it running", shown(&id, info.name.as_deref())));
    let follow = FollowOutput { client, id: &id, typed, command: &info.command, from: From::Byte(0), raw: false, to_exit: true };
    let stopped = follow.show(ctx).await?;
    let now = client.poll(&id).await?;
    if ctx.out.json {
        let mut answer = serde_json::to_value(&now).unwrap_or_default();
        merge(&mut answer, stopped.fields());
        merge(&mut answer, of_start(&info));
        ctx.out.object(&with_ids(&answer))?;
    }
    match stopped {
        Stopped::Ended { .. } if now.fate.completion_reason.is_some() => {
            if let Some(bell) = bell {
                bell.tell_end(ctx, &Named { id: id.clone(), name: now.name.clone() }, &now.command, &now.fate).await;
            }
            let sentence = format!("{} {}", shown(&id, now.name.as_deref()), ending::sentence(&now.fate));
            if ending::is_ours(&now.fate) {
                ctx.out.remark(&sentence)
            } else {
                ctx.out.tip(&sentence)
            }
            if let Some(note) = left_running::note(now.session_id, &now.left) {
                ctx.out.remark(&note);
            }
            Ok(ending::exit_code(&now.fate))
        }
        Stopped::Ended { .. } => {
            ctx.out.remark(&ending::without_reader(&now, typed));
            Ok(OURS)
        }
        // As after every wait that Ctrl-C ends, so that `run -f … && deploy` does not continue.
        Stopped::Detached { .. } => Ok(INTERRUPTED),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_are_not_passed_on_are_named_on_one_line() {
        let note = |names: &[&str]| not_passed_on(&names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>());
        assert_eq!(note(&[]), None);
        assert_eq!(note(&["A_API_KEY"]).unwrap(), "note: A_API_KEY was not passed on; use --env A_API_KEY");
        assert_eq!(note(&["A_API_KEY", "B_TOKEN"]).unwrap(), "note: A_API_KEY, B_TOKEN were not passed on; use --env NAME");
    }

    #[test]
    fn a_command_that_ends_at_once_is_not_reported_as_running() {
        let mut p =
            ProcessInfo::new(ProcessId::from_bytes([1; 6]), "x", outlast_client::Status::Running, "", outlast_client::Time::from_micros(0));
        p.name = Some("hk".into());
        (p.phase, p.pid) = ("running".into(), Some(7));
        assert_eq!(stands(&p, "hk"), "running as pid 7; `outlast log hk --follow` shows its output");
        p.phase = "draining".into();
        for (code, want) in [(0, "finished"), (2, "failed (exit 2)")] {
            p.fate.exit_code = Some(Some(code));
            assert_eq!(stands(&p, "hk"), format!("{want}; `outlast log hk` shows its output"));
        }
    }

    #[test]
    fn flags_of_ours_that_went_to_the_command_are_named() {
        let note = |line: &str| passed_to_command(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        let of = |flags: &str| Some(format!("note: {flags} went to the command; flags of Outlast come before it"));
        assert_eq!(note("python3 srv.py --name web"), of("`--name web`"));
        assert_eq!(note("srv --name=web --notify x"), of("`--name=web`, `--notify`"));
        for none in ["make -f x", "make -j4 --json", "srv -- --name web", "--name", "srv --names web"] {
            assert_eq!(note(none), None, "{none}");
        }
        let secret = note("srv --env API_KEY=sk-ant-REDACTED").unwrap();
        assert!(!secret.contains("abcdefghijklmnop"), "{secret}");
    }

    #[test]
    fn what_only_a_shell_understands_is_explained() {
        let hint = |line: &str| misplaced(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        let line = |text: &str| Some(format!("a shell line is one word: outlast run '{text}'"));
        assert_eq!(hint("exit 3"), line("exit 3"));
        assert_eq!(hint("cd /tmp && ls"), line("cd /tmp && ls"));
        assert_eq!(hint("prog > $OUT"), line("cd /tmp && ls"));
        assert_eq!(hint("FOO=1 env").unwrap(), "a variable is given with --env: outlast run --env FOO=1");
        assert_eq!(hint("API_TOKEN=hunter2 env").unwrap(), "a variable is given with --env: outlast run --env API_TOKEN=VALUE");
        for none in ["exit", "no-such-program x", "a/b=c d"] {
            assert_eq!(hint(none), None, "{none}");
        }
    }

    #[test]
    fn one_word_is_a_line_and_several_are_a_program() {
        let words = |w: &[&str]| w.iter().map(OsString::from).collect::<Vec<_>>();
        assert_eq!(command(words(&["a && b"]), false).unwrap(), Command::Shell("a && b".into()));
        assert_eq!(command(words(&["a", "-"]), false).unwrap(), Command::Argv(vec!["a".into(), "-".into()]));
        assert!(command(words(&[" \n"]), false).is_err());
        assert!(command(words(&["-"]), true).is_err());
    }
}
