//! `outlast chat send`

use super::super::ending::TIMED_OUT;
use super::super::out::tame;
use super::super::{input, progress, progress::About, some_seconds};
use super::questions::verdict;
use super::show::{ANSWERED_NOTHING, outcome_words};
use super::{AgentArgs, ChatName, Context, Failure, connect, failed_with_meant};
use crate::points;
use clap::Args;
use outlast_client::{
    Accepted, Chat, ChatEvent, ClientError, Content, Heard, MAX_WORDS_BYTES, PermissionBody, Setup, Standing, TurnInfo, TurnOutcome,
    TurnState, message_id,
};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// How many parts may arrive between the message and the start of following its conversation.
const MAX_EARLY_PARTS: u32 = 20;
/// How long reading the unreported questions may take after the wait for the reply has ended.
const REST_TIMEOUT: Duration = Duration::from_secs(2);

/// Send a message to a conversation, from a script
///
/// Returns when the message is on disk; from then on it is answered even after a crash. With --wait, prints the reply and exits with 0 if the
/// agent completed it, 1 if not or if the message waits for a person, and 124 if --timeout passed first; the agent then keeps working on the
/// reply.
#[derive(Debug, Args)]
pub(crate) struct ChatSend {
    /// The conversation; it is created if there is none of this name
    name: ChatName,
    /// The message; `-` is standard input. One that begins with `--` goes after `--`
    #[arg(allow_hyphen_values = true, required_unless_present = "text_after")]
    text: Option<OsString>,
    /// The message, whatever it begins with
    #[arg(last = true, value_name = "TEXT", hide = true, conflicts_with = "text")]
    text_after: Option<OsString>,
    #[command(flatten)]
    agent: AgentArgs,
    /// Wait for the reply, and print it
    #[arg(long)]
    wait: bool,
    /// Wait at most this long, such as 90s or 5m
    #[arg(long, value_name = "DURATION", value_parser = some_seconds, allow_negative_numbers = true, requires = "wait")]
    timeout: Option<Duration>,
    /// An id of your own; a message that is sent twice under the same id is answered once
    #[arg(long, value_name = "ID", value_parser = own_id)]
    id: Option<String>,
}

impl ChatSend {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let words = words(given(self.text, self.text_after)?)?;
        let id = match self.id {
            Some(id) => id,
            None => message_id()?,
        };
        let setup = self.agent.setup(ctx);
        let chat = connect(ctx).await?;
        let accepted = match chat.send(&self.name.key, &id, &words, &setup).await {
            Ok(accepted) => accepted,
            Err(e) => return Err(failed_with_meant(&chat, &self.name, e).await),
        };
        points::reach(&ctx.world, "chat.accepted");
        if !self.wait {
            return tell_accepted(ctx, &self.name, &id, &accepted);
        }
        // It says why the reply may take long.
        accepted.note.iter().for_each(|note| ctx.out.remark(note));
        let left = format!("the message is answered all the same: `outlast chat {}` shows the reply", self.name.short());
        let deadline = self.timeout.and_then(|time| Instant::now().checked_add(time));
        let wait = async {
            let mut questions = Questions::of(&self.name, accepted.turn);
            let ended = tokio::select! {
                ended = wait_for_end(&chat, &self.name, accepted.turn, deadline) => ended?,
                never = questions.tell_all(ctx, &chat) => match never {},
            };
            questions.tell_rest(ctx, &chat).await;
            Ok::<_, ClientError>(ended)
        };
        match progress::during(ctx, About::Words("waiting for the reply"), &left, wait).await?? {
            ReplyWait::Finished(turn) => {
                points::reach(&ctx.world, "chat.answered");
                let code = tell_finished(ctx, &self.name, &turn);
                points::reach(&ctx.world, "chat.shown");
                code
            }
            ReplyWait::Held(why) => tell_held(ctx, &self.name, &accepted, &why),
            ReplyWait::TimedOut => tell_timed_out(ctx, &self.name, &accepted),
        }
    }
}

/// How a wait for a reply ended.
enum ReplyWait {
    Finished(Box<TurnInfo>),
    /// The turn waits for a person, for this reason.
    Held(String),
    TimedOut,
}

/// Reports on standard error which permissions the agent asks for in a turn, and the answers. A script that waits would not see a refusal
/// otherwise.
struct Questions<'a> {
    name: &'a ChatName,
    turn: u64,
    /// Who answers, as far as it is known.
    agent: Option<String>,
    /// The last part that was read; None if it is not known yet.
    after: Option<Option<u64>>,
    /// How many parts before that are read, too.
    context: u32,
}

impl<'a> Questions<'a> {
    fn of(name: &'a ChatName, turn: u64) -> Self {
        Self { name, turn, agent: None, after: None, context: MAX_EARLY_PARTS }
    }

    /// Reports each question as it arrives.
    async fn tell_all(&mut self, ctx: &Context, chat: &Chat) -> Infallible {
        if let Ok(opened) = chat.open(&self.name.key, &Setup::default()).await {
            (self.after, self.agent) = (Some(opened.last_part), opened.conversation.agent);
            self.tell(ctx, chat, false).await;
        }
        std::future::pending().await
    }

    /// Reports the questions that have arrived and were not reported. The gateway may have exited with the turn, because the user stopped
    /// it.
    async fn tell_rest(&mut self, ctx: &Context, chat: &Chat) {
        // The conversation shows questions that are not read in time.
        let _late = tokio::time::timeout(REST_TIMEOUT, self.tell(ctx, chat, true)).await;
    }

    /// A gateway that cannot be reached is reported by the wait for the reply, which also starts the next one if that is due.
    async fn tell(&mut self, ctx: &Context, chat: &Chat, is_rest: bool) {
        let Some(after) = self.after else { return };
        let mut feed = chat.follow(&self.name.key).after(after).with_context(self.context).of_running();
        loop {
            match feed.next().await {
                Ok(Heard::Event(ChatEvent::Part { part })) => {
                    (self.after, self.context) = (Some(Some(part.id)), 0);
                    if let (Content::Permission(body), true) = (part.content(), part.turn == Some(self.turn)) {
                        progress::remark_above(ctx, &about_question(&body, self.name, self.agent.as_deref()));
                    }
                }
                Ok(Heard::Event(ChatEvent::CaughtUp { .. }) | Heard::Lost { .. }) if is_rest => return,
                Ok(_) => {}
                Err(_) => return,
            }
        }
    }
}

fn about_question(body: &PermissionBody, name: &ChatName, agent: Option<&str>) -> String {
    let question = tame(&body.question);
    match &body.answer {
        None => format!("the agent asks for permission: {question}\n  `outlast chat {}` answers it", name.short()),
        Some(answer) => match verdict(body, answer) {
            (true, by) => format!("allowed: {question}{}", tame(&by)),
            (false, by) => {
                let (by, agent) = (tame(&by), tame(agent.unwrap_or("NAME")));
                format!("refused: {question}{by}\n  `permission` in [gateway.agents.{agent}] of config.toml allows it beforehand")
            }
        },
    }
}

/// The argument that is the message. A misspelt flag is not sent as one.
fn given(text: Option<OsString>, after: Option<OsString>) -> Result<OsString, Failure> {
    let text = after.map(Ok).or_else(|| {
        let text = text?;
        let is_flag = text.as_encoded_bytes().starts_with(b"--");
        Some(if is_flag { Err(text) } else { Ok(text) })
    });
    text.unwrap_or_else(|| Ok(OsString::new())).map_err(|flag| {
        let flag = tame(&flag.to_string_lossy());
        let hint = "`outlast chat send --help` lists the flags; a message that begins with `--` goes after `--`";
        Failure::refused(format!("`chat send` has no flag {flag}"), hint)
    })
}

fn words(text: OsString) -> Result<String, Failure> {
    let bytes = input::line(input::text(text)?);
    let words =
        String::from_utf8(bytes).map_err(|_| Failure::refused("the message is not UTF-8", "put it into a file, and say where it is"))?;
    check(&words)?;
    Ok(words)
}

/// Refuses an empty or too long message.
pub(super) fn check(words: &str) -> Result<(), Failure> {
    if words.trim().is_empty() {
        return Err(Failure::refused("the message is empty", "give a text, or `-` to read it from standard input"));
    }
    if words.len() > MAX_WORDS_BYTES {
        let error = format!("the message is {} bytes long, {MAX_WORDS_BYTES} at most can be sent", words.len());
        return Err(Failure::refused(error, "put a long text into a file, and say where it is"));
    }
    Ok(())
}

/// The id of a message, from the id that a script chose.
fn own_id(text: &str) -> Result<String, String> {
    let word = text.strip_prefix("msg:").unwrap_or(text);
    let is_plain = !word.is_empty() && word.len() <= 128 && word.chars().all(|c| c.is_ascii_alphanumeric() || "._:-".contains(c));
    if is_plain { Ok(format!("msg:{word}")) } else { Err("up to 128 letters, digits, `.`, `_`, `:` and `-`".into()) }
}

fn tell_accepted(ctx: &Context, name: &ChatName, id: &str, accepted: &Accepted) -> Result<i32, Failure> {
    if ctx.out.json {
        let mut answer = json!({"status": "accepted", "key": name.key, "message_id": id});
        super::super::answer::merge(&mut answer, serde_json::to_value(accepted).unwrap_or_default());
        ctx.out.object(&answer)?;
        return Ok(0);
    }
    match &accepted.note {
        Some(note) => ctx.out.remark(note),
        None => ctx.out.tip(&format!("sent; `outlast chat {}` shows the reply", name.short())),
    }
    Ok(0)
}

fn tell_finished(ctx: &Context, name: &ChatName, turn: &TurnInfo) -> Result<i32, Failure> {
    let is_completed = turn.outcome == Some(TurnOutcome::Completed);
    let code = i32::from(!is_completed);
    if ctx.out.json {
        let mut answer = json!({"status": turn.outcome, "key": name.key});
        super::super::answer::merge(&mut answer, serde_json::to_value(turn).unwrap_or_default());
        ctx.out.object(&answer)?;
        return Ok(code);
    }
    let reply = turn.reply.as_deref().unwrap_or_default();
    ctx.out.text(&for_reader(reply))?;
    if is_completed && reply.trim().is_empty() {
        ctx.out.tip(ANSWERED_NOTHING);
    }
    if !is_completed {
        let outcome = turn.outcome.as_ref().map_or_else(|| "unknown".into(), |outcome| outcome_words(outcome, turn.why.as_deref()));
        ctx.out.remark(&format!("outlast: the message was not answered ({outcome})"));
    }
    Ok(code)
}

/// Why the turn of a message waits for a person, if it does: the gateway ends the wait for it then.
pub(super) async fn who_is_waited_for(chat: &Chat, name: &ChatName, turn: u64) -> Option<String> {
    let shown = chat.show(&name.key, None).await.ok()?;
    shown.turns.iter().find(|one| one.id == turn && matches!(one.state, TurnState::Queued | TurnState::Interrupted))?;
    // While a turn runs, it is what waits, and the message waits for it.
    if shown.turns.iter().any(|one| one.state == TurnState::Running) {
        return None;
    }
    let suspended = || (shown.conversation.standing == Standing::Suspended).then(|| "the conversation is suspended".to_owned());
    shown.conversation.waits_for.clone().or_else(suspended)
}

/// Waits until the turn has ended, waits for a person, or the time is over. A turn that a person resumes meanwhile is waited for again.
async fn wait_for_end(chat: &Chat, name: &ChatName, turn: u64, deadline: Option<Instant>) -> Result<ReplyWait, ClientError> {
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        if let Some(turn) = chat.wait(&name.key, turn, left).await? {
            return Ok(ReplyWait::Finished(Box::new(turn)));
        }
        if let Some(why) = who_is_waited_for(chat, name, turn).await {
            return Ok(ReplyWait::Held(why));
        }
        if deadline.is_some_and(|at| at <= Instant::now()) || !has_started(chat, name, turn).await {
            return Ok(ReplyWait::TimedOut);
        }
    }
}

/// Whether the turn of a message runs or has ended.
async fn has_started(chat: &Chat, name: &ChatName, turn: u64) -> bool {
    let shown = chat.show(&name.key, None).await;
    let is_it = |one: &TurnInfo| one.id == turn && matches!(one.state, TurnState::Running | TurnState::Finished);
    shown.is_ok_and(|shown| shown.turns.iter().any(is_it))
}

fn tell_held(ctx: &Context, name: &ChatName, accepted: &Accepted, why: &str) -> Result<i32, Failure> {
    if ctx.out.json {
        let answer =
            json!({"status": "waiting", "key": name.key, "id": accepted.turn, "outcome": Value::Null, "reply": Value::Null, "note": why});
        ctx.out.object(&answer)?;
    } else {
        remark_held(ctx, name, why);
    }
    Ok(1)
}

pub(super) fn remark_held(ctx: &Context, name: &ChatName, why: &str) {
    let go_on = format!("`outlast chat {}` continues", name.short());
    ctx.out.remark(&format!("outlast: the message waits for a person: {}\n  {go_on}", tame(why)));
}

fn tell_timed_out(ctx: &Context, name: &ChatName, accepted: &Accepted) -> Result<i32, Failure> {
    if ctx.out.json {
        let mut answer = json!({"status": "timeout", "key": name.key, "id": accepted.turn, "outcome": Value::Null, "reply": Value::Null});
        if let Some(note) = &accepted.note {
            answer["note"] = note.as_str().into();
        }
        ctx.out.object(&answer)?;
    } else if accepted.note.is_some() {
        ctx.out.remark(&format!("the message waits: `outlast chat {}` shows the reply when it is there", name.short()));
    } else {
        ctx.out.remark(&format!("the reply is not complete yet; `outlast chat {}` shows it", name.short()));
    }
    Ok(TIMED_OUT)
}

/// Text of an agent for standard output. On a terminal, control characters are escaped.
pub(super) fn for_reader(text: &str) -> String {
    use std::io::IsTerminal as _;
    if std::io::stdout().is_terminal() { text.split('\n').map(tame).collect::<Vec<_>>().join("\n") } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_turns_no_direction_of_writing() {
        let mut body = PermissionBody::new("p", "rm -r x \u{202e} gnp.x\n\u{1b}[2J", Vec::new());
        let name: ChatName = "main".parse().unwrap();
        for answer in [None, Some("allowed"), Some("denied")] {
            body.answer = answer.map(Into::into);
            let told = about_question(&body, &name, Some("kimi"));
            assert!(told.contains("rm -r x") && !told.contains(['\u{202e}', '\u{1b}']), "{told:?}");
            assert_eq!(told.contains("`permission` in [gateway.agents.kimi] "), answer == Some("denied"), "{told:?}");
        }
    }

    #[test]
    fn an_id_of_ones_own_is_marked_as_one_of_a_message() {
        assert_eq!(own_id("nightly-7").unwrap(), "msg:nightly-7");
        assert_eq!(own_id("msg:nightly-7").unwrap(), "msg:nightly-7");
        for bad in ["", "msg:", "a b", "a\n", &"x".repeat(129)] {
            assert!(own_id(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_misspelt_flag_is_no_message() {
        let given = |text: Option<&str>, after: Option<&str>| given(text.map(Into::into), after.map(Into::into));
        assert!(given(Some("--wiat"), None).unwrap_err().error().contains("no flag --wiat"));
        for text in ["-", "-1", "- one\n- two", "hello --wait"] {
            assert_eq!(given(Some(text), None).unwrap(), text);
        }
        assert_eq!(given(None, Some("--wiat")).unwrap(), "--wiat");
    }

    #[test]
    fn what_is_no_message_is_refused_before_it_is_sent() {
        assert!(check(" \n").is_err());
        assert!(check(&"x".repeat(MAX_WORDS_BYTES + 1)).is_err());
        assert!(check("hello").is_ok());
        assert_eq!(words("hello\n".into()).unwrap(), "hello");
    }
}
