//! Notices: taking, settling, following and posting them; and barriers.

use crate::client::{millis, random_id};
use crate::link::{CallError, Link, Stream, StreamItem, read};
use crate::peer::EngineTalk;
use crate::redial::{Repeat, Tries, to_error};
use crate::{Client, ClientError};
use outlast_core::Route;
use outlast_core::notice_state::TakerKind;
use outlast_wire::v1::notice::{
    Barrier, BarrierTarget, Barriers, Consumed, Dead, DeadLetter, DeadOfSink, Deliveries, Delivery, History, Judged, Lent, Notices, Posted,
    Push, Replay, Told, Verdict,
};
use outlast_wire::v1::{Done, Event, Request};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How notices are taken.
///
/// ```
/// # use outlast_client::Take;
/// # use std::time::Duration;
/// let take = Take::default().limit(10).lease(Duration::from_secs(120)).wait_at_most(Duration::from_secs(30));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Take {
    /// The kind of taker.
    pub by: TakerKind,
    /// The most notices to take.
    pub limit: u32,
    /// How long they are leased. A notice that is not settled by then may be given to another taker.
    pub lease: Duration,
    /// How long to wait for a notice; none waits without a limit.
    pub wait: Option<Duration>,
    /// Whether the owner itself asks, so that it also gets the notices of conversations of its session that have ended.
    pub asked: bool,
}

impl Default for Take {
    fn default() -> Self {
        Self { by: TakerKind::Gateway, limit: 1, lease: Duration::from_secs(60), wait: Some(Duration::ZERO), asked: false }
    }
}

impl Take {
    /// The same, for a terminal: an end that a poll showed is not delivered.
    #[must_use]
    pub fn at_a_terminal(self) -> Self {
        Self { by: TakerKind::Terminal, ..self }
    }

    /// The same, asked for by the owner itself: also the notices of conversations of its session that have ended.
    #[must_use]
    pub fn asked(self) -> Self {
        Self { asked: true, ..self }
    }

    /// The same, at most this many.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// The same, leased for this long.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// The same, and waits for a notice without a limit.
    #[must_use]
    pub fn wait(self) -> Self {
        Self { wait: None, ..self }
    }

    /// The same, and waits for a notice at most this long.
    #[must_use]
    pub fn wait_at_most(self, time: Duration) -> Self {
        Self { wait: Some(time), ..self }
    }
}

impl Client {
    /// Takes the next notices of the owner's session. Settle each with [`Client::settle`] once its owner has it.
    ///
    /// ```
    /// # use outlast_client::{Client, Connect, Take, Verdict};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let product = outlast_testkit::product::Product::running();
    /// # let client = Client::connect(&Connect::to(product.home().root)).await?;
    /// # let fields = serde_json::json!({"type": "greeting", "message": "hello"});
    /// # client.post(None, fields.as_object().cloned().unwrap_or_default(), Default::default()).await?;
    /// let given = client.take(&Take::default().wait()).await?;
    /// for told in given.notices {
    ///     println!("{}", told.text);
    ///     client.settle(&[&told.event.event_id], told.lease.as_deref(), Verdict::Delivered).await?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take(&self, take: &Take) -> Result<Notices, ClientError> {
        let until = take.wait.and_then(|t| Instant::now().checked_add(t));
        let left = |at: Instant| millis(at.saturating_duration_since(Instant::now()));
        let (lease_ms, asked) = (millis(take.lease), take.asked);
        let request = || Request::NoticeNext { taker: take.by, limit: take.limit, lease_ms, wait_ms: until.map(left), asked };
        // If the answer is lost, a notice is offered again when its lease ends, marked as a possible repeat.
        self.ask_with("take notices", request, Repeat::Safe).await
    }

    /// Settles notices that were taken. `lease`: the lease token that came with them.
    pub async fn settle(&self, ids: &[&str], lease: Option<&str>, verdict: Verdict) -> Result<Judged, ClientError> {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let request = Request::NoticeSettle { ids, lease: lease.map(str::to_owned), verdict };
        self.ask("settle notices", request, Repeat::Safe).await
    }

    /// Every notice as it is made, after the notice `after` or from now on: of the owner's session, or all of them for a person.
    /// Following settles no notice.
    pub fn follow_notices(&self, after: Option<u64>) -> Followed {
        Followed { client: self.clone(), after, link: None, stream: None, tries: Tries::default() }
    }

    /// Registers a gateway for this home as long as the feed exists, and brings the sessions of gateways that have notices.
    pub fn serve(&self) -> SessionFeed {
        SessionFeed { client: self.clone(), stream: None }
    }

    /// Reports, when a gateway ends, that it has no session with these keys. That holds until a gateway serves again.
    pub async fn disown(&self, sessions: &[String]) -> Result<Done, ClientError> {
        self.ask("say which sessions are not ours", Request::Disown { sessions: sessions.to_vec() }, Repeat::Safe).await
    }

    /// Posts a notice to the owner's session. A second post with the same `id` is the same notice. Secrets in it are masked as they
    /// are in output.
    pub async fn post(&self, id: Option<&str>, event: Map<String, Value>, route: Route) -> Result<Posted, ClientError> {
        let repeat = if id.is_some() { Repeat::Safe } else { Repeat::Never };
        self.ask("post the notice", Request::NoticePost { name: id.map(str::to_owned), event, route }, repeat).await
    }

    /// Reads notices, also settled ones, and changes nothing.
    pub async fn history(&self, wanted: History) -> Result<Vec<Told>, ClientError> {
        let found: Notices = self.ask("read notices", Request::NoticeHistory(wanted), Repeat::Safe).await?;
        Ok(found.notices)
    }

    /// Offers delivered notices again, or sends dead letters of sinks again. Returns how many.
    pub async fn replay(&self, what: Replay) -> Result<u64, ClientError> {
        let done: Done = self.ask("replay notices", Request::NoticeReplay(what), Repeat::Never).await?;
        Ok(done.count.unwrap_or(0))
    }

    /// The dead letters of sinks.
    pub async fn dead_letters(&self, limit: Option<u32>) -> Result<Vec<DeadLetter>, ClientError> {
        Ok(self.dead(limit).await?.letters)
    }

    /// The dead letters of sinks, and how many each sink has in all.
    pub async fn dead(&self, limit: Option<u32>) -> Result<Dead, ClientError> {
        #[derive(Deserialize)]
        struct LetterTexts<'a> {
            #[serde(borrow)]
            letters: Vec<&'a RawValue>,
            #[serde(default)]
            sinks: Vec<DeadOfSink>,
        }
        let text = match self.ask_or_text::<Dead>("list dead letters", Request::NoticeDead { limit }).await? {
            Ok(dead) => return Ok(dead),
            Err(text) => text,
        };
        let LetterTexts { letters, sinks } = serde_json::from_str(text.get()).map_err(ClientError::protocol)?;
        let letters = letters.into_iter().map(read).collect::<Result<_, _>>().map_err(ClientError::protocol)?;
        Ok(Dead::new(letters, sinks))
    }

    /// Whether the owner of a process has seen its end, so that no notice of it is delivered.
    pub async fn is_completion_consumed(&self, process: &str) -> Result<bool, ClientError> {
        let answer: Consumed =
            self.ask("look at the process", Request::Consumed { process: process.into(), mark: false }, Repeat::Safe).await?;
        Ok(answer.consumed)
    }

    /// Marks the end of a process as seen by its owner.
    pub async fn mark_completion_consumed(&self, process: &str) -> Result<(), ClientError> {
        let _marked: Consumed =
            self.ask("mark its end as seen", Request::Consumed { process: process.into(), mark: true }, Repeat::Safe).await?;
        Ok(())
    }

    /// Leases notices that a sink has to deliver, as soon as there are any. Each is parsed separately, so that an unreadable one
    /// does not lose the others.
    pub async fn deliveries(&self, sink: &str, limit: u32, lease: Duration) -> Result<Owed, ClientError> {
        let request = Request::Deliveries { sink: sink.into(), limit, lease_ms: millis(lease) };
        match self.ask_or_text::<Deliveries>("take what is to be pushed", request).await? {
            Ok(owed) => Ok(Owed { deliveries: owed.deliveries, unread: Vec::new() }),
            Err(text) => Owed::one_by_one(&text).map_err(ClientError::protocol),
        }
    }

    /// Gives up a delivery that cannot be read. `false`: its lease had ended, and it may be leased again.
    pub async fn give_up(&self, sink: &str, unread: &Unread) -> Result<bool, ClientError> {
        let how = Push::Dead { reason: format!("it cannot be read: {}", unread.why) };
        self.pushed_by(sink, unread.seq, &unread.lease, how).await
    }

    /// Announces that a waking sink is about to deliver these notices. Returns those that it may deliver, in their current state.
    /// Its leases on the others have ended: the agent has them by other means, or another taker is delivering them.
    pub async fn wake(&self, sink: &str, lent: &[Delivery]) -> Result<Vec<Delivery>, ClientError> {
        let lent = lent.iter().map(|d| Lent::new(d.event.seq, &d.lease)).collect();
        // If the answer is lost, a second request with the same tokens returns the notices that the first one claimed.
        let may: Deliveries = self.ask("ask what may be told", Request::Wake { sink: sink.into(), lent }, Repeat::Safe).await?;
        Ok(may.deliveries)
    }

    /// Reports how a delivery went. `false`: its lease had ended, and it may be delivered again.
    pub async fn pushed(&self, sink: &str, delivery: &Delivery, how: Push) -> Result<bool, ClientError> {
        self.pushed_by(sink, delivery.event.seq, &delivery.lease, how).await
    }

    async fn pushed_by(&self, sink: &str, seq: u64, lease: &str, how: Push) -> Result<bool, ClientError> {
        let request = Request::Pushed { sink: sink.into(), seq, lease: lease.into(), how };
        let done: Done = self.ask("say how a push went", request, Repeat::Safe).await?;
        Ok(done.status == "ok")
    }

    /// Sets a barrier and waits until it opens. If the caller dies, the barrier stays, and its opening becomes a notice.
    pub async fn until(&self, until: BarrierTarget) -> Result<Barrier, ClientError> {
        let barrier = Some(barrier_id()?);
        self.ask("wait at the barrier", Request::Until { until, barrier, no_wait: false }, Repeat::Safe).await
    }

    /// Like [`Client::until`], for at most this long. A barrier that is not open by then is `waiting`: it stays, and its opening
    /// becomes a notice.
    pub async fn until_within(&self, until: BarrierTarget, at_most: Duration) -> Result<Barrier, ClientError> {
        // On disk first: however short the time is, the barrier exists when it is over.
        let set = self.set_until(until.clone()).await?;
        let wait = || Request::Until { until: until.clone(), barrier: Some(set.barrier.clone()), no_wait: false };
        if let Ok(open) = tokio::time::timeout(at_most, self.ask("wait at the barrier", wait(), Repeat::Safe)).await {
            return open;
        }
        match self.barriers().await?.into_iter().find(|b| b.barrier == set.barrier) {
            // It opened in the last moment. If this request is answered with that, no notice of it is delivered.
            Some(found) if found.status == "open" => self.ask("wait at the barrier", wait(), Repeat::Safe).await,
            Some(found) => Ok(found),
            None => {
                let mut cleared = set;
                cleared.status = "cleared".into();
                Ok(cleared)
            }
        }
    }

    /// Sets a barrier and does not wait: its opening becomes a notice.
    pub async fn set_until(&self, until: BarrierTarget) -> Result<Barrier, ClientError> {
        let barrier = Some(barrier_id()?);
        self.ask("set the barrier", Request::Until { until, barrier, no_wait: true }, Repeat::Safe).await
    }

    /// The barriers of the owner's session.
    pub async fn barriers(&self) -> Result<Vec<Barrier>, ClientError> {
        let all: Barriers = self.ask("list barriers", Request::Barriers { clear: false }, Repeat::Safe).await?;
        Ok(all.barriers)
    }

    /// Clears the barriers of the owner's session.
    pub async fn clear_barriers(&self) -> Result<Vec<Barrier>, ClientError> {
        let all: Barriers = self.ask("clear barriers", Request::Barriers { clear: true }, Repeat::Never).await?;
        Ok(all.barriers)
    }
}

/// The notices that a sink has to deliver now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Owed {
    /// By `seq`.
    pub deliveries: Vec<Delivery>,
    /// Those that were leased with them and cannot be read.
    pub unread: Vec<Unread>,
}

/// A delivery that cannot be read. Settle it with [`Client::give_up`], or it is leased again when its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unread {
    /// The `seq` of its notice.
    pub seq: u64,
    /// The id of its notice.
    pub event_id: String,
    /// The lease token that settles it.
    pub lease: String,
    /// What is wrong with it.
    pub why: String,
}

impl Owed {
    fn one_by_one(text: &RawValue) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct DeliveryTexts<'a> {
            #[serde(borrow)]
            deliveries: Vec<&'a RawValue>,
        }
        let DeliveryTexts { deliveries } = serde_json::from_str(text.get())?;
        let mut owed = Self::default();
        for text in deliveries {
            match read(text) {
                Ok(delivery) => owed.deliveries.push(delivery),
                Err(e) => owed.unread.push(Unread::new(text, e.to_string())?),
            }
        }
        Ok(owed)
    }
}

impl Unread {
    fn new(text: &RawValue, why: String) -> serde_json::Result<Self> {
        /// Fields that are skipped may be nested to any depth.
        #[derive(Deserialize)]
        struct Names {
            event: EventNames,
            lease: String,
        }
        #[derive(Deserialize)]
        struct EventNames {
            seq: u64,
            event_id: String,
        }
        let Names { event: EventNames { seq, event_id }, lease } = serde_json::from_str(text.get())?;
        Ok(Self { seq, event_id, lease, why })
    }
}

fn barrier_id() -> Result<String, ClientError> {
    Ok(random_id()?.to_string().replace("proc_", "bar_"))
}

/// The sessions of gateways that have notices. It ends with its connection: to continue, the caller makes another one.
pub struct SessionFeed {
    client: Client,
    stream: Option<Stream>,
}

impl SessionFeed {
    /// The next sessions: first all of them, then those with new notices. The future may be dropped while it waits, and called
    /// again.
    pub async fn next(&mut self) -> Result<Vec<String>, ClientError> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                none => {
                    let link = self.client.own_link().await?;
                    let stream = link.stream(self.client.by(), Request::Serve).await;
                    none.insert(stream.map_err(|e| to_error::<EngineTalk>(e, "serve the home"))?)
                }
            };
            match stream.next().await {
                StreamItem::Event(Event::Sessions { sessions }) => return Ok(sessions),
                StreamItem::Event(_) | StreamItem::Raw(_) => {}
                StreamItem::End(_) => return Err(ClientError::protocol("sessions ended")),
                StreamItem::Failed(e) => return Err(to_error::<EngineTalk>(e, "serve the home")),
            }
        }
    }
}

/// Notices as they are made.
///
/// If the engine dies, following continues through the next one after the last notice, or where it began: none is missed and none
/// comes twice.
pub struct Followed {
    client: Client,
    after: Option<u64>,
    link: Option<Arc<Link>>,
    stream: Option<Stream>,
    tries: Tries,
}

impl Followed {
    /// Waits until no notice from then on will be missed.
    pub async fn ready(&mut self) -> Result<(), ClientError> {
        while self.stream.is_none() {
            if let Err(e) = self.open().await {
                self.again(e).await?;
            }
        }
        Ok(())
    }

    /// The next notice. The future may be dropped while it waits, and called again.
    pub async fn next(&mut self) -> Result<Told, ClientError> {
        loop {
            self.ready().await?;
            let Some(stream) = &mut self.stream else { continue };
            match stream.next().await {
                StreamItem::Event(Event::Notice { told }) => {
                    self.after = Some(told.event.seq);
                    return Ok(*told);
                }
                StreamItem::Event(_) | StreamItem::Raw(_) => {}
                StreamItem::End(_) => return Err(ClientError::protocol("notices ended")),
                StreamItem::Failed(e) => self.again(e).await?,
            }
        }
    }

    /// The `seq` of the last notice that came, or of the last one before it began: where to continue another time.
    pub fn after(&self) -> Option<u64> {
        self.after
    }

    async fn open(&mut self) -> Result<(), CallError> {
        // A reader may be slow, so it gets its own connection if one can be made.
        let link = self.client.own_link().await.map_err(CallError::Unsent)?;
        self.link = Some(link.clone());
        let mut stream = link.stream(self.client.by(), Request::NoticeFollow { after: self.after }).await?;
        match stream.next().await {
            // This also fixes where to continue through the next engine.
            StreamItem::Event(Event::Waiting { after }) => self.after = self.after.or(after),
            StreamItem::Failed(e) => return Err(e),
            StreamItem::Event(_) | StreamItem::Raw(_) | StreamItem::End(_) => {
                return Err(CallError::Unsent(ClientError::protocol("notices came before their beginning")));
            }
        }
        self.stream = Some(stream);
        Ok(())
    }

    async fn again(&mut self, error: CallError) -> Result<(), ClientError> {
        let link = self.link.take();
        self.stream = None;
        if self.client.can_redial() && self.tries.again(&error, link.as_deref(), Repeat::Safe).await {
            return Ok(());
        }
        Err(to_error::<EngineTalk>(error, "follow notices"))
    }
}
