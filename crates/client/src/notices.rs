//! Notices: taking, settling, following and posting them, and barriers.

use crate::client::{draw, millis};
use crate::link::{CallError, Item, Link, Stream, read};
use crate::peer::EngineTalk;
use crate::redial::{Repeat, Tries, to_error};
use crate::{Client, ClientError};
use outlast_core::Route;
use outlast_wire::v1::notice::{
    Barrier, Barriers, Consumed, Dead, DeadLetter, Deliveries, Delivery, History, Judged, Lent, Notices, Posted, Push, Replay, Taker, Told,
    Until, Verdict,
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
    /// By whom.
    pub by: Taker,
    /// At most so many.
    pub limit: u32,
    /// How long they are given to nobody else. Whoever has not settled them by then may find that somebody else was given them.
    pub lease: Duration,
    /// How long to wait for one; nothing waits for as long as it takes.
    pub wait: Option<Duration>,
}

impl Default for Take {
    fn default() -> Self {
        Self { by: Taker::Gateway, limit: 1, lease: Duration::from_secs(60), wait: Some(Duration::ZERO) }
    }
}

impl Take {
    /// The same, for a terminal: what a poll showed is not told.
    #[must_use]
    pub fn at_a_terminal(self) -> Self {
        Self { by: Taker::Terminal, ..self }
    }

    /// The same, at most so many.
    #[must_use]
    pub fn limit(self, limit: u32) -> Self {
        Self { limit, ..self }
    }

    /// The same, given to nobody else for this long.
    #[must_use]
    pub fn lease(self, lease: Duration) -> Self {
        Self { lease, ..self }
    }

    /// The same, and waits for one for as long as it takes.
    #[must_use]
    pub fn wait(self) -> Self {
        Self { wait: None, ..self }
    }

    /// The same, and waits for one at most this long.
    #[must_use]
    pub fn wait_at_most(self, time: Duration) -> Self {
        Self { wait: Some(time), ..self }
    }
}

impl Client {
    /// The next notices of the owner's conversation. Settle each with [`Client::settle`] once its owner was told.
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
        let request = || Request::NoticeNext { taker: take.by, limit: take.limit, lease_ms: millis(take.lease), wait_ms: until.map(left) };
        // Given to us and lost on the way, a notice comes back when its lease ends, marked as one that may have been told.
        self.ask_with("take notices", request, Repeat::Safe).await
    }

    /// Says what became of notices that were taken. `lease`: the word that was given with them.
    pub async fn settle(&self, ids: &[&str], lease: Option<&str>, verdict: Verdict) -> Result<Judged, ClientError> {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        let request = Request::NoticeSettle { ids, lease: lease.map(str::to_owned), verdict };
        self.ask("settle notices", request, Repeat::Safe).await
    }

    /// Every notice as it is made, from behind `after` or from now on: of the owner's conversation, or of all for a person. Looking on settles nothing.
    pub fn follow_notices(&self, after: Option<u64>) -> Followed {
        Followed { client: self.clone(), after, link: None, stream: None, tries: Tries::default() }
    }

    /// Says that a gateway serves this home, for as long as the feed is kept, and brings the sessions of gateways that have notices.
    pub fn serve(&self) -> SessionFeed {
        SessionFeed { client: self.clone(), stream: None }
    }

    /// Says at the end of a gateway that it has no conversation for these sessions. That holds until a gateway serves again.
    pub async fn disown(&self, sessions: &[String]) -> Result<Done, ClientError> {
        self.ask("say which sessions are not ours", Request::Disown { sessions: sessions.to_vec() }, Repeat::Safe).await
    }

    /// Tells the owner's conversation something. With an `id`, the same again is the same notice. Secrets in it are masked as they are in output.
    pub async fn post(&self, id: Option<&str>, event: Map<String, Value>, route: Route) -> Result<Posted, ClientError> {
        let repeat = if id.is_some() { Repeat::Safe } else { Repeat::Never };
        self.ask("post the notice", Request::NoticePost { name: id.map(str::to_owned), event, route }, repeat).await
    }

    /// Reads notices, settled ones too, and changes nothing.
    pub async fn history(&self, wanted: History) -> Result<Vec<Told>, ClientError> {
        let found: Notices = self.ask("read notices", Request::NoticeHistory(wanted), Repeat::Safe).await?;
        Ok(found.notices)
    }

    /// Offers notices again that were delivered, or pushes again what sinks gave up on. How many.
    pub async fn replay(&self, what: Replay) -> Result<u64, ClientError> {
        let done: Done = self.ask("replay notices", Request::NoticeReplay(what), Repeat::Never).await?;
        Ok(done.count.unwrap_or(0))
    }

    /// What sinks gave up on.
    pub async fn dead_letters(&self, limit: Option<u32>) -> Result<Vec<DeadLetter>, ClientError> {
        #[derive(Deserialize)]
        struct Texts<'a> {
            #[serde(borrow)]
            letters: Vec<&'a RawValue>,
        }
        let text = match self.ask_or_text::<Dead>("list dead letters", Request::NoticeDead { limit }).await? {
            Ok(dead) => return Ok(dead.letters),
            Err(text) => text,
        };
        let Texts { letters } = serde_json::from_str(text.get()).map_err(ClientError::protocol)?;
        letters.into_iter().map(read).collect::<Result<_, _>>().map_err(ClientError::protocol)
    }

    /// Whether the owner of a process has seen its end, so that it is not told.
    pub async fn is_completion_consumed(&self, process: &str) -> Result<bool, ClientError> {
        let answer: Consumed =
            self.ask("look at the process", Request::Consumed { process: process.into(), mark: false }, Repeat::Safe).await?;
        Ok(answer.consumed)
    }

    /// Says that the owner of a process has seen its end.
    pub async fn mark_completion_consumed(&self, process: &str) -> Result<(), ClientError> {
        let _marked: Consumed =
            self.ask("mark its end as seen", Request::Consumed { process: process.into(), mark: true }, Repeat::Safe).await?;
        Ok(())
    }

    /// What a sink owes, as soon as it owes something. Each is read by itself, so that one that cannot be read is no reason to lose the others.
    pub async fn deliveries(&self, sink: &str, limit: u32, lease: Duration) -> Result<Owed, ClientError> {
        let request = Request::Deliveries { sink: sink.into(), limit, lease_ms: millis(lease) };
        match self.ask_or_text::<Deliveries>("take what is to be pushed", request).await? {
            Ok(owed) => Ok(Owed { deliveries: owed.deliveries, unread: Vec::new() }),
            Err(text) => Owed::one_by_one(&text).map_err(ClientError::protocol),
        }
    }

    /// Gives up on something that cannot be read. `false`: its lease had ended, and it may be given again.
    pub async fn give_up(&self, sink: &str, unread: &Unread) -> Result<bool, ClientError> {
        let how = Push::Dead { reason: format!("it cannot be read: {}", unread.why) };
        self.pushed_by(sink, unread.seq, &unread.lease, how).await
    }

    /// Says that a sink that wakes an agent is about to tell these, and which of them it may tell, as they are now. The others are its own no more: the agent has
    /// them by other ways, or somebody else is just telling them.
    pub async fn wake(&self, sink: &str, lent: &[Delivery]) -> Result<Vec<Delivery>, ClientError> {
        let lent = lent.iter().map(|d| Lent::new(d.event.seq, &d.lease)).collect();
        // Not repeated: whoever was given them by an answer that was lost would not be given them again.
        let may: Deliveries = self.ask("ask what may be told", Request::Wake { sink: sink.into(), lent }, Repeat::Never).await?;
        Ok(may.deliveries)
    }

    /// Says how a push went. `false`: its lease had ended, and it may be pushed again.
    pub async fn pushed(&self, sink: &str, delivery: &Delivery, how: Push) -> Result<bool, ClientError> {
        self.pushed_by(sink, delivery.event.seq, &delivery.lease, how).await
    }

    async fn pushed_by(&self, sink: &str, seq: u64, lease: &str, how: Push) -> Result<bool, ClientError> {
        let request = Request::Pushed { sink: sink.into(), seq, lease: lease.into(), how };
        let done: Done = self.ask("say how a push went", request, Repeat::Safe).await?;
        Ok(done.status == "ok")
    }

    /// Sets a barrier and waits until it opens. Should the caller die, it stays, and that it opens is told as a notice.
    pub async fn until(&self, until: Until) -> Result<Barrier, ClientError> {
        let barrier = Some(barrier_id()?);
        self.ask("wait at the barrier", Request::Until { until, barrier, no_wait: false }, Repeat::Safe).await
    }

    /// Like [`Client::until`], for at most this long. One that is not open by then is `waiting`: it stays, and that it opens is told as a notice.
    pub async fn until_within(&self, until: Until, at_most: Duration) -> Result<Barrier, ClientError> {
        // On disk first: however short the time is, the barrier is there when it is over.
        let set = self.set_until(until.clone()).await?;
        let wait = || Request::Until { until: until.clone(), barrier: Some(set.barrier.clone()), no_wait: false };
        if let Ok(open) = tokio::time::timeout(at_most, self.ask("wait at the barrier", wait(), Repeat::Safe)).await {
            return open;
        }
        match self.barriers().await?.into_iter().find(|b| b.barrier == set.barrier) {
            // It opened in the last moment. Answered with that, its owner is not told as well.
            Some(found) if found.status == "open" => self.ask("wait at the barrier", wait(), Repeat::Safe).await,
            Some(found) => Ok(found),
            None => {
                let mut cleared = set;
                cleared.status = "cleared".into();
                Ok(cleared)
            }
        }
    }

    /// Sets a barrier and does not wait: that it opens is told as a notice.
    pub async fn set_until(&self, until: Until) -> Result<Barrier, ClientError> {
        let barrier = Some(barrier_id()?);
        self.ask("set the barrier", Request::Until { until, barrier, no_wait: true }, Repeat::Safe).await
    }

    /// The barriers of the owner's conversation.
    pub async fn barriers(&self) -> Result<Vec<Barrier>, ClientError> {
        let all: Barriers = self.ask("list barriers", Request::Barriers { clear: false }, Repeat::Safe).await?;
        Ok(all.barriers)
    }

    /// Takes the barriers of the owner's conversation away.
    pub async fn clear_barriers(&self) -> Result<Vec<Barrier>, ClientError> {
        let all: Barriers = self.ask("clear barriers", Request::Barriers { clear: true }, Repeat::Never).await?;
        Ok(all.barriers)
    }
}

/// What a sink owes now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Owed {
    /// In order.
    pub deliveries: Vec<Delivery>,
    /// Those that were given with them and cannot be read.
    pub unread: Vec<Unread>,
}

/// Something a sink owes that cannot be read. Settle it with [`Client::give_up`], or it is given again when its lease ends.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unread {
    /// Its place among all notices.
    pub seq: u64,
    /// Its name.
    pub event_id: String,
    /// The word that settles it.
    pub lease: String,
    /// What is wrong with it.
    pub why: String,
}

impl Owed {
    fn one_by_one(text: &RawValue) -> serde_json::Result<Self> {
        #[derive(Deserialize)]
        struct Texts<'a> {
            #[serde(borrow)]
            deliveries: Vec<&'a RawValue>,
        }
        let Texts { deliveries } = serde_json::from_str(text.get())?;
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
        /// What is passed over while this is read may be as deep as it likes.
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
    Ok(draw()?.to_string().replace("proc_", "bar_"))
}

/// The sessions of gateways that have notices. It ends with its connection: a caller that goes on makes another.
pub struct SessionFeed {
    client: Client,
    stream: Option<Stream>,
}

impl SessionFeed {
    /// The next ones: all at first, then those that have new notices. May be dropped while it waits, and called again.
    pub async fn next(&mut self) -> Result<Vec<String>, ClientError> {
        loop {
            let stream = match &mut self.stream {
                Some(stream) => stream,
                none => {
                    let link = self.client.own_link().await?;
                    let stream = link.stream(self.client.owner(), Request::Serve).await;
                    none.insert(stream.map_err(|e| to_error::<EngineTalk>(e, "serve the home"))?)
                }
            };
            match stream.next().await {
                Item::Event(Event::Sessions { sessions }) => return Ok(sessions),
                Item::Event(_) | Item::Raw(_) => {}
                Item::End(_) => return Err(ClientError::protocol("sessions ended")),
                Item::Failed(e) => return Err(to_error::<EngineTalk>(e, "serve the home")),
            }
        }
    }
}

/// Notices as they are made.
///
/// Should the engine die, following goes on over the next one behind the last that came, or where it began: none is missed and none comes twice.
pub struct Followed {
    client: Client,
    after: Option<u64>,
    link: Option<Arc<Link>>,
    stream: Option<Stream>,
    tries: Tries,
}

impl Followed {
    /// Waits until everything that is made from now on will come.
    pub async fn ready(&mut self) -> Result<(), ClientError> {
        while self.stream.is_none() {
            if let Err(e) = self.open().await {
                self.again(e).await?;
            }
        }
        Ok(())
    }

    /// The next one. May be dropped while it waits, and called again.
    pub async fn next(&mut self) -> Result<Told, ClientError> {
        loop {
            self.ready().await?;
            let Some(stream) = &mut self.stream else { continue };
            match stream.next().await {
                Item::Event(Event::Notice { told }) => {
                    self.after = Some(told.event.seq);
                    return Ok(*told);
                }
                Item::Event(_) | Item::Raw(_) => {}
                Item::End(_) => return Err(ClientError::protocol("notices ended")),
                Item::Failed(e) => self.again(e).await?,
            }
        }
    }

    /// The last one that came, or the last one before it began: where to go on another time.
    pub fn after(&self) -> Option<u64> {
        self.after
    }

    async fn open(&mut self) -> Result<(), CallError> {
        // Whoever looks on may be slow, so the connection is not shared where another can be had.
        let link = self.client.own_link().await.map_err(CallError::Unsent)?;
        self.link = Some(link.clone());
        let mut stream = link.stream(self.client.owner(), Request::NoticeFollow { after: self.after }).await?;
        match stream.next().await {
            // From now on is from here on, also over the next engine.
            Item::Event(Event::Waiting { after }) => self.after = self.after.or(after),
            Item::Failed(e) => return Err(e),
            Item::Event(_) | Item::Raw(_) | Item::End(_) => {
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
