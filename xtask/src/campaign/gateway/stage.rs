//! One home: its conversations, their messages, and the expected results.

use super::super::report::Report;
use super::agent;
use super::books::{Cause, Entry};
use super::client::{Client, Reply};
use super::eyes::Eyes;
use super::plan::{AFTER_CRASH, BreakerRelease, Came, Driver, GatewayVictim, Kind, ONCE, Ordeal, Plan, Progress, Seen, expected};
use super::scene::{Scene, joined};
use super::strike::Saboteur;
use anyhow::{Context, Result, bail, ensure};
use outlast_client::{Part, Standing, TurnInfo};
use outlast_testkit::product::{Product, kill_and_wait};
use std::path::Path;

/// A home is closed after this many deaths of its gateway: the engine's pauses before the next one grow.
const MAX_GATEWAY_KILLS: u32 = 3;
/// A home is closed after this many rounds.
const MAX_ROUNDS: u32 = 10;
/// A conversation gets at most this many rounds: the budget allows six unattended turns in a minute, and a round has at most two.
const MAX_ROUNDS_OF_CHAT: u32 = 2;
/// The breaker opens after this many consecutive starts with an interrupted turn.
const BREAKER_STARTS: u32 = 3;

/// One home.
pub(super) struct Stage {
    pub(super) scene: Scene,
    pub(super) chats: Vec<ChatOf>,
    pub(super) ledger: Vec<Entry>,
    rounds: u32,
    gateway_kills: u32,
    /// How many of the last consecutive starts found an interrupted turn.
    chain: u32,
    /// What each start of a gateway must have found, where the plans can predict it.
    pub(super) founds: Vec<Option<bool>>,
    is_spent: bool,
}

/// A conversation of a home.
#[derive(Debug, Clone)]
pub(super) struct ChatOf {
    pub(super) name: String,
    pub(super) key: String,
    pub(super) driver: Driver,
    rounds: u32,
}

impl Stage {
    pub(super) fn new(program: &Path) -> Result<Self> {
        let product = Product::new(program);
        product.configure(&format!(
            "[gateway.agents.acp]\nargv = {:?}\npermission = \"always\"\n[gateway.agents.turns]\ncommand = {:?}\n",
            agent_words(&product, "acp")?,
            turn_line(&product)?
        ));
        let (dir, eyes) = (product.work(), Eyes::new(product.home().root)?);
        let (scene, founds) = (Scene { product, dir, eyes }, vec![Some(false)]);
        Ok(Self { scene, chats: Vec::new(), ledger: Vec::new(), rounds: 0, gateway_kills: 0, chain: 0, founds, is_spent: false })
    }

    /// Whether a round can run here with a predictable result.
    pub(super) fn has_room_for(&self, plan: &Plan) -> bool {
        let opens_breaker = plan.victim.has_gateway() && self.chain + 1 >= BREAKER_STARTS;
        let is_known = !opens_breaker || plan.finds_interrupted().is_some() && !plan.does_collide;
        let can_suffer = plan.ordeal == Ordeal::Once || self.gateway_kills == 0;
        !self.is_spent && self.rounds < MAX_ROUNDS && self.gateway_kills < MAX_GATEWAY_KILLS && is_known && can_suffer
    }

    pub(super) fn play(&mut self, plan: &Plan, report: &Report) -> Result<()> {
        self.rounds += 1;
        let chat = self.chat_for(plan.driver, plan.is_warm, None, plan)?;
        let beside = match plan.bystander {
            Some(driver) => Some(self.begin_beside(driver, &chat, plan)?),
            None => None,
        };
        let seen = match (plan.ordeal, plan.kind()) {
            (Ordeal::GatewayThrice, _) => self.play_suspension(&chat, plan)?,
            (Ordeal::AgentTwice, _) => self.play_failure(&chat, plan)?,
            (Ordeal::Once, Kind::Message) => self.play_message(&chat, plan, report)?,
            (Ordeal::Once, Kind::Notice) => self.play_notice(&chat, plan, report)?,
        };
        if let Some(beside) = beside {
            self.end_beside(&beside, plan, seen)?;
        }
        self.scene.check_standing(&chat)?;
        count(plan, seen, report);
        Ok(())
    }

    /// A conversation with this kind of agent. A warm one has had a turn.
    fn chat_for(&mut self, driver: Driver, is_warm: bool, but: Option<&ChatOf>, plan: &Plan) -> Result<ChatOf> {
        let is_other = |chat: &ChatOf| but.is_none_or(|but| but.key != chat.key);
        let is_free = |chat: &&mut ChatOf| chat.driver == driver && chat.rounds < MAX_ROUNDS_OF_CHAT && is_other(chat);
        if let Some(chat) = self.chats.iter_mut().find(is_free).filter(|_| is_warm || but.is_some()) {
            chat.rounds += 1;
            return Ok(chat.clone());
        }
        let name = format!("c{}", self.chats.len());
        let chat = ChatOf { key: format!("agent:main:local:dm:{name}"), name, driver, rounds: 1 };
        self.chats.push(chat.clone());
        if is_warm {
            self.say(&chat, &format!("w{}", plan.round), "", plan)?;
        }
        Ok(chat)
    }

    /// Sends a message without any fault, and waits for its answer.
    fn say(&mut self, chat: &ChatOf, token: &str, more: &str, plan: &Plan) -> Result<()> {
        match Client::new(&self.scene.product, chat, token).speak(more, true)? {
            Reply::Over(turn) => ensure!(turn["outcome"] == "completed", "{token} was not answered: {turn}"),
            Reply::Killed | Reply::Accepted => bail!("{token} was not answered"),
        }
        self.scene.eyes.follow(&chat.key);
        self.enter(chat, token, plan, vec![ONCE]);
        Ok(())
    }

    /// Records the expected result of a message or a notice. The caller changes what differs.
    fn enter(&mut self, chat: &ChatOf, token: &str, plan: &Plan, may_be: Vec<Came>) -> &mut Entry {
        let cause = match token.starts_with('n') {
            true => Cause::Notice { process: agent::process_id(token) },
            false => Cause::Message(format!("msg:{token}")),
        };
        let (of, key, driver, token) = (format!("round {} ({plan})", plan.round), chat.key.clone(), chat.driver, token.to_owned());
        let entry = Entry { of, key, driver, cause, token, may_be, least_prompts: 1, is_certain: true };
        self.ledger.push(entry);
        let last = self.ledger.len() - 1;
        &mut self.ledger[last]
    }

    /// Starts a turn in another conversation, which runs until the round is over.
    fn begin_beside(&mut self, driver: Driver, but: &ChatOf, plan: &Plan) -> Result<ChatOf> {
        let chat = self.chat_for(driver, false, Some(but), plan)?;
        let token = format!("b{}", plan.round);
        let scene = &self.scene;
        Client::new(&scene.product, &chat, &token).speak("<<wait>>", false)?;
        scene.eyes.follow(&chat.key);
        scene.until("the bystander's wait", || Ok(agent::is_waiting(&scene.dir, &token).then_some(())))?;
        if driver == Driver::Acp {
            // From here on it commits nothing and reaches no point.
            scene.until("the bystander's tool", || {
                let parts = scene.eyes.parts(&chat.key)?;
                let is_begin = |part: &Part| part.body["message_id"] == format!("msg:{token}");
                let own = parts.iter().rposition(is_begin).map(|at| &parts[at..]).unwrap_or_default();
                Ok(own.iter().any(|part| part.kind.as_str() == "tool").then_some(()))
            })?;
        }
        Ok(chat)
    }

    /// Lets the turn of the bystander finish, and checks it against the plan.
    fn end_beside(&mut self, chat: &ChatOf, plan: &Plan, seen: Seen) -> Result<()> {
        let token = format!("b{}", plan.round);
        let is_crash = seen.is_killed && plan.victim.has_gateway();
        // A command outlives the gateway, but not the power.
        let is_interrupted = is_crash && (!chat.driver.is_per_turn() || plan.victim == GatewayVictim::Everything);
        let outcome = if is_interrupted { AFTER_CRASH } else { ONCE };
        if is_interrupted && self.is_breaker_open() {
            ensure!(self.scene.until_held_back(chat, &token)?, "the breaker did not hold the bystander back");
            ensure!(self.scene.eyes.resume(&chat.key), "the bystander cannot be resumed");
        }
        agent::let_go(&self.scene.dir, &token)?;
        self.scene.until_finished(chat, &token)?;
        self.enter(chat, &token, plan, vec![outcome]).least_prompts = outcome.0 as usize;
        self.scene.check_standing(chat)
    }

    fn play_message(&mut self, chat: &ChatOf, plan: &Plan, report: &Report) -> Result<Seen> {
        let token = format!("m{}", plan.round);
        let scene = &self.scene;
        let client = Client::new(&scene.product, chat, &token);
        let saboteur = Saboteur::new(scene, chat, &token, plan, &client);
        saboteur.arm()?;
        let (played, spoken) = std::thread::scope(|scope| {
            let striking = scope.spawn(|| saboteur.strike());
            let speaking = scope.spawn(|| scene.say_until_heard(&client, chat, plan, &saboteur));
            let played = self.see_through(chat, &token, plan, &saboteur, striking);
            if played.is_err() {
                // A client that still waits would wait for ever.
                client.silence();
            }
            (played, speaking.join().unwrap_or_else(|_| bail!("the client failed")))
        });
        let (played, spoken) = match (played, spoken) {
            (Ok(played), Ok(spoken)) => (played, spoken),
            (Err(e), Ok(_)) => return Err(e),
            (Ok(_), Err(e)) => return Err(e),
            (Err(e), Err(also)) => bail!("{e:#}; {also:#}"),
        };
        let Played { seen, turn, release } = played;
        // A repeated request gets the same answer, and reaches no agent.
        let again = Client::new(&self.scene.product, chat, &token).speak("", true)?;
        for reply in [&spoken, &again] {
            if let Reply::Over(told) = reply {
                let is_same = told["id"] == turn.id && told["reply"].as_str() == turn.reply.as_deref();
                ensure!(is_same, "the client was told {told}, and the turn is {turn:?}");
            }
        }
        ensure!(matches!(again, Reply::Over(_)), "the client that came back was told {again:?}");
        self.scene.eyes.follow(&chat.key);
        self.note_kill(plan, seen);
        let may_be = expected(plan, seen);
        let entry = self.enter(chat, &token, plan, may_be.clone());
        entry.least_prompts = least_prompts(&may_be, seen);
        if release == Some(BreakerRelease::Write) {
            // The message that resumed it took its place, and quotes it.
            entry.may_be = may_be.into_iter().map(|(_, reason, _)| (1, reason, "cancelled")).collect();
            entry.least_prompts = usize::from(seen.has_prompt);
        }
        self.enter_release(chat, plan, release, report)?;
        Ok(seen)
    }

    fn play_notice(&mut self, chat: &ChatOf, plan: &Plan, report: &Report) -> Result<Seen> {
        let (token, beside) = (format!("n{}", plan.round), format!("x{}", plan.round));
        self.start_process(chat, &token, plan)?;
        let scene = &self.scene;
        let client = Client::new(&scene.product, chat, &beside);
        let saboteur = Saboteur::new(scene, chat, &token, plan, &client);
        saboteur.arm()?;
        agent::let_go(&scene.dir, &token)?;
        let (played, spoken) = std::thread::scope(|scope| {
            let striking = scope.spawn(|| saboteur.strike());
            let speaking = plan.does_collide.then(|| {
                scope.spawn(|| {
                    scene.until("a victim is held", || Ok((saboteur.is_held() || saboteur.is_off()).then_some(())))?;
                    scene.say_until_heard(&client, chat, plan, &saboteur)
                })
            });
            let played = self.see_through(chat, &token, plan, &saboteur, striking);
            if played.is_err() {
                client.silence();
            }
            (played, speaking.map(|speaking| speaking.join().unwrap_or_else(|_| bail!("the client failed"))))
        });
        let Played { seen, release, .. } = played?;
        if let Some(spoken) = spoken {
            spoken?;
            self.scene.until_finished(chat, &beside)?;
            self.enter(chat, &beside, plan, Vec::new());
        }
        self.note_kill(plan, seen);
        let may_be = expected(plan, seen);
        let is_certain = !(plan.victim.has_gateway() || plan.victim.has_engine()) || plan.progress() == Progress::Finished;
        let least = least_prompts(&may_be, seen);
        let entry = self.enter(chat, &token, plan, may_be);
        (entry.least_prompts, entry.is_certain) = (least, is_certain);
        self.enter_release(chat, plan, release, report)?;
        Ok(seen)
    }

    /// Starts the process whose end becomes a notice: by the agent, or by a user in the conversation's name.
    fn start_process(&mut self, chat: &ChatOf, token: &str, plan: &Plan) -> Result<()> {
        if plan.is_by_agent {
            return self.say(chat, &format!("s{}", plan.round), &format!("start <<{token}>>"), plan);
        }
        let Scene { product, dir, .. } = &self.scene;
        let generation = agent::generation_of(dir, &chat.key).context("the conversation had no turn")?;
        let (id, line) = (agent::process_id(token), agent::process_line(dir, token));
        let mut run = product.command(["run", "--notify", "--id", &id, "--", &line]);
        let ran = run.env("OUTLAST_SESSION", &chat.key).env("OUTLAST_GENERATION", generation).output()?;
        ensure!(ran.status.success(), "cannot start {token}: {ran:?}");
        Ok(())
    }

    /// Waits for the kill, and until the turn is finished. Resumes a turn that the breaker holds back, as a user does.
    fn see_through(
        &self,
        chat: &ChatOf,
        token: &str,
        plan: &Plan,
        saboteur: &Saboteur<'_>,
        striking: std::thread::ScopedJoinHandle<'_, Result<Seen>>,
    ) -> Result<Played> {
        let struck = self.scene.until_struck(chat, token, saboteur);
        let seen = joined(striking);
        struck?;
        let seen = seen?;
        let may_be = expected(plan, seen);
        let opens = plan.victim.has_gateway() && plan.finds_interrupted() == Some(true) && self.chain + 1 >= BREAKER_STARTS;
        let mut release = None;
        if opens && may_be.iter().any(|came| *came != ONCE) {
            if self.scene.until_held_back(chat, token)? {
                release = Some(plan.release);
                match plan.release {
                    BreakerRelease::Resume => ensure!(self.scene.eyes.resume(&chat.key), "it cannot be resumed"),
                    BreakerRelease::Write => {
                        let reply = Client::new(&self.scene.product, chat, &format!("r{}", plan.round)).speak("", true)?;
                        ensure!(matches!(reply, Reply::Over(_)), "the message that lets it go on was told {reply:?}");
                    }
                }
            } else {
                ensure!(may_be.len() > 1, "the breaker did not hold it back");
            }
        }
        let turn = self.scene.until_finished(chat, token)?;
        Ok(Played { seen, turn, release })
    }

    /// The message that resumed a turn.
    fn enter_release(&mut self, chat: &ChatOf, plan: &Plan, release: Option<BreakerRelease>, report: &Report) -> Result<()> {
        let Some(release) = release else { return Ok(()) };
        report.add(format!("held back by the breaker, and let go with {release:?}"), 1);
        if release == BreakerRelease::Write {
            let token = format!("r{}", plan.round);
            self.enter(chat, &token, plan, vec![ONCE]);
            if plan.kind() == Kind::Message {
                let prompts = agent::prompts_of(&self.scene.dir, &token);
                let does_quote = prompts.first().is_some_and(|prompt| prompt.quoted.contains(&format!("m{}", plan.round)));
                ensure!(does_quote, "the message does not quote the one whose place it took: {prompts:?}");
            }
        }
        Ok(())
    }

    /// Kills the gateway in each attempt of a turn, until the conversation is suspended. A message starts a new one.
    fn play_suspension(&mut self, chat: &ChatOf, plan: &Plan) -> Result<Seen> {
        let token = format!("m{}", plan.round);
        self.kill_each_attempt(chat, plan, &token, 3, ("gave_up", Standing::Suspended))?;
        // Each gateway follows the running command, so a command is prompted once. An ACP agent is prompted each time.
        let (attempts, reason) = if chat.driver.is_per_turn() { (1, None) } else { (3, Some("restart_interrupted")) };
        self.enter(chat, &token, plan, vec![(attempts, reason, "gave_up")]).least_prompts = attempts as usize;
        self.founds.extend([Some(true); 3]);
        self.is_spent = true;
        self.say(chat, &format!("y{}", plan.round), "", plan)?;
        let shown = self.scene.until("a gateway", || Ok(self.scene.eyes.show(&chat.key, None)))?.conversation;
        ensure!(shown.generation == 2, "a message to a suspended conversation starts anew: {shown:?}");
        Ok(Seen { is_killed: true, ..Seen::default() })
    }

    /// Kills the agent in both attempts of a turn, which fails. The next message is answered.
    fn play_failure(&mut self, chat: &ChatOf, plan: &Plan) -> Result<Seen> {
        let token = format!("m{}", plan.round);
        self.kill_each_attempt(chat, plan, &token, 2, ("failed", Standing::Active))?;
        self.enter(chat, &token, plan, vec![(2, Some("agent_ended"), "failed")]).least_prompts = 2;
        self.say(chat, &format!("y{}", plan.round), "", plan)?;
        Ok(Seen { is_killed: true, ..Seen::default() })
    }

    /// Kills a program in each attempt of a turn, and checks the outcome for the client and the standing of the conversation.
    fn kill_each_attempt(&self, chat: &ChatOf, plan: &Plan, token: &str, attempts: u32, want: (&str, Standing)) -> Result<()> {
        let scene = &self.scene;
        let client = Client::new(&scene.product, chat, token);
        scene.product.points().arm(plan.point.name)?;
        let (turn, spoken) = std::thread::scope(|scope| {
            let speaking = scope.spawn(|| client.speak("", true));
            let turn = (1..=attempts).try_for_each(|attempt| scene.kill_held(plan.point.name, attempt < attempts));
            let turn = turn.and_then(|()| scene.until_finished(chat, token));
            if turn.is_err() {
                client.silence();
            }
            (turn, speaking.join().unwrap_or_else(|_| bail!("the client failed")))
        });
        let (turn, spoken) = (turn?, spoken?);
        let (outcome, standing) = want;
        let has_outcome = matches!(&spoken, Reply::Over(answer) if answer["outcome"] == outcome);
        ensure!(has_outcome, "after {attempts} deaths the client got {spoken:?} instead of {outcome}");
        let shown = scene.until("a gateway", || Ok(scene.eyes.show(&chat.key, None)))?.conversation;
        ensure!(shown.standing == standing && shown.strikes == attempts, "after {attempts} deaths: {shown:?}, {turn:?}");
        scene.eyes.follow(&chat.key);
        Ok(())
    }

    fn is_breaker_open(&self) -> bool {
        self.chain >= BREAKER_STARTS
    }

    /// Records the death of a gateway, and what the next one must find.
    fn note_kill(&mut self, plan: &Plan, seen: Seen) {
        if !seen.is_killed || !plan.victim.has_gateway() {
            return;
        }
        self.gateway_kills += 1 + u32::from(plan.again.is_some());
        let found = plan.finds_interrupted();
        self.founds.push(found);
        self.chain = if found == Some(true) { self.chain + 1 } else { 0 };
        self.is_spent |= found.is_none() || self.is_breaker_open();
    }
}

/// How a round was completed.
struct Played {
    seen: Seen,
    turn: TurnInfo,
    /// How a turn was resumed that the breaker held back.
    release: Option<BreakerRelease>,
}

impl Scene {
    /// Kills the process that is held at a point. If the point is to hold another one, it is armed again first.
    fn kill_held(&self, point: &str, is_armed_again: bool) -> Result<()> {
        let points = self.product.points();
        let held = self.until(point, || Ok(points.held(point)))?;
        if is_armed_again {
            points.arm(point)?;
        }
        kill_and_wait(held)?;
        Ok(std::fs::remove_file(points.dir().join(format!("{point}.held.{held}")))?)
    }
}

/// How many prompts agents must have seen at least.
fn least_prompts(may_be: &[Came], seen: Seen) -> usize {
    let is_second = may_be.iter().all(|(attempt, ..)| *attempt == 2);
    let can_fail = may_be.iter().any(|(.., outcome)| *outcome != "completed");
    match (is_second && seen.has_prompt, can_fail) {
        (true, _) => 2,
        (false, true) => 0,
        (false, false) => 1,
    }
}

fn count(plan: &Plan, seen: Seen, report: &Report) {
    let times = match plan.ordeal {
        Ordeal::Once => "",
        Ordeal::GatewayThrice => ", in each of three attempts",
        Ordeal::AgentTwice => ", in each of two attempts",
    };
    if seen.is_killed {
        report.add(format!("killed {:?}{times}", plan.victim), 1);
        report.add(format!("killed at {}", plan.point.name), 1);
    }
    if let Some(again) = plan.again {
        report.add(format!("the next gateway killed at {again}"), 1);
    }
}

/// Program and arguments of an agent.
fn agent_words(product: &Product, kind: &str) -> Result<Vec<String>> {
    let exe = std::env::current_exe()?;
    let paths = [exe.as_path(), &product.work(), product.points().dir(), product.program()].map(|path| path.display().to_string());
    let [exe, dir, points, program] = paths;
    Ok(vec![exe, "__agent".into(), kind.into(), dir, points, program])
}

/// The shell line of the agent that is a command per turn.
pub(super) fn turn_line(product: &Product) -> Result<String> {
    let words = agent_words(product, "turn")?;
    // `exec` replaces the shell, so that a kill of the agent kills the command.
    Ok(words.iter().fold("exec".to_owned(), |line, word| format!("{line} '{word}'")))
}
