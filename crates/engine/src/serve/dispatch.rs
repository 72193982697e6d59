//! Passes each request to its verb, and sends the answer.

use super::chosen::Chosen;
use super::context::{AnswerWithEnd, Input, RequestContext, run_to_completion};
use super::relay::Relay;
use super::{
    active, adopt, attach, clean, close, deliveries, end_conversation, engine_status, engine_stop, gateway, kill, list, log, notice, poll,
    read, remove, rerun, resize, restart, run, signal, until, view, wait, write,
};
use crate::points::point;
use crate::refuse;
use crate::table::ProcessView;
use outlast_wire::v1::notice::Told;
use outlast_wire::v1::{Done, Error, Found, ReadUntil, Removed, Request, RerunChange};
use outlast_wire::{code, frame};
use serde::Serialize;
use std::sync::Arc;

impl RequestContext {
    pub(super) async fn serve(&self, request: Request, input: Input) {
        let out = &self.out;
        if self.parts.own_home.is_lost() {
            return out.error(refuse::home_gone(&self.parts.home.root)).await;
        }
        // These end an earlier request or the conversation, and may come after the client has begun another one.
        let begins = !matches!(request, Request::NoticeSettle { .. } | Request::Relayed { .. } | Request::EndConversation);
        let _under_way = match self.asker.as_ref().filter(|_| begins) {
            Some(asker) => asker.register().await,
            None => None,
        };
        match request {
            Request::Hello { .. } => out.error(refuse::refusal(code::BAD_REQUEST, "hello was said before", "")).await,
            Request::Run { spec, want, caller } | Request::RunOn { spec, want, caller } => {
                out.result(run::run(self, *spec, want, caller).await).await
            }
            Request::Rerun { process, caller, env, want } => {
                out.result(rerun::rerun(self, &process, caller, env, RerunChange::default(), want).await).await
            }
            Request::RerunChanged { process, caller, env, change, want } => {
                out.result(rerun::rerun(self, &process, caller, env, change, want).await).await;
            }
            Request::Restart { process, caller, env, want, grace_ms } => {
                let asked = self.clone();
                let work = async move { restart::restart(&asked, &process, caller, env, want, grace_ms).await };
                self.answer_with_end(run_to_completion(work).await, "restart").await;
            }
            Request::List { scope, all } => match list::list(self, &scope, all).await {
                Ok(json) => out.send(frame::answer(out.of, &json)).await,
                Err(error) => out.error(error).await,
            },
            Request::Find { process } => out.result(self.resolve(&process).await.map(|view| found(&view))).await,
            Request::Poll { process } => out.result(poll::poll(self, &process).await).await,
            Request::Log { process, page } => self.answer_with_end(log::log(self, &process, page).await, "log").await,
            Request::Read { process, from, follow, to_exit, view, masked, timed } => {
                let until = ReadUntil::of_flags(follow, to_exit);
                let viewed = if view { read::Viewed::Yes } else { read::Viewed::No };
                let secrets = if masked { read::Secrets::Masked } else { read::Secrets::Raw };
                out.result(read::read(self, &process, from, until, viewed, secrets, timed).await).await;
            }
            Request::Wait { process, timeout_ms } => self.answer_with_end(wait::wait(self, &process, timeout_ms).await, "wait").await,
            Request::Interrupt { session } => {
                out.result(wait::interrupt(self, session).await).await;
            }
            Request::Kill { process, kill } => self.answer_with_end(kill::kill(self, &process, kill).await, "kill").await,
            Request::KillAll { scope, kill } => {
                let (asked, chosen) = (self.clone(), Chosen::In(scope));
                out.result(run_to_completion(async move { kill::kill_all(&asked, &chosen, kill).await }).await).await;
            }
            Request::KillThese { processes, kill } => {
                let (asked, chosen) = (self.clone(), Chosen::These(processes.into_iter().collect()));
                out.result(run_to_completion(async move { kill::kill_all(&asked, &chosen, kill).await }).await).await;
            }
            Request::Signal { process, number } => out.result(signal::signal(self, &process, number).await).await,
            Request::Write { process, at, .. } => {
                let written = write::write(self, &process, at, &input.bytes).await;
                // Freed before the answer, so that the client has room for its next write.
                drop(input);
                out.result(written).await;
            }
            Request::Close { process } => out.result(close::close(self, &process).await).await,
            Request::Resize { process, rows, cols } => out.result(resize::resize(self, &process, rows, cols).await).await,
            Request::Attach { process, read_only } => attach::attach(self, &process, read_only).await,
            Request::ViewClose { process } => out.result(view::close(self, &process).await).await,
            Request::Remove { process, set_aside } if self.relay => self.answer_and_remove(&process, set_aside).await,
            Request::Remove { process, set_aside: true } => out.result(remove::set_aside(self, &process).await).await,
            Request::Remove { process, set_aside: false } => out.result(remove::remove(self, &process).await).await,
            Request::Clean { scope } => {
                let (asked, chosen) = (self.clone(), Chosen::In(scope));
                out.result(run_to_completion(async move { clean::clean(&asked, &chosen).await }).await).await;
            }
            Request::CleanThese { processes } => {
                let (asked, chosen) = (self.clone(), Chosen::These(processes.into_iter().collect()));
                out.result(run_to_completion(async move { clean::clean(&asked, &chosen).await }).await).await;
            }
            Request::Active(activity) => out.result(active::active(self, activity).await).await,
            Request::Adopt(from) => out.result(adopt::adopt(self, from).await).await,
            Request::NoticeNext { taker, limit, lease_ms, wait_ms, asked } => {
                let given = notice::next(self, (taker, asked), limit, lease_ms, wait_ms).await;
                if let (true, Ok(given)) = (self.relay, &given) {
                    self.relay_notices(&given.notices);
                }
                out.result(given).await;
            }
            Request::NoticeSettle { ids, lease, verdict } => out.result(notice::settle(self, ids, lease, verdict).await).await,
            Request::NoticeFollow { after } => out.result(notice::follow(self, after).await).await,
            Request::NoticePost { name, event, route } => out.result(notice::post(self, name, event, route).await).await,
            Request::NoticeHistory(wanted) => out.result(notice::history(self, wanted).await).await,
            Request::NoticeReplay(what) => out.result(notice::replay(self, what).await).await,
            Request::NoticeDead { limit } => out.result(notice::dead(self, limit).await).await,
            Request::Consumed { process, mark } => out.result(notice::consumed(self, &process, mark).await).await,
            Request::Relayed { of } => out.result(self.relays.confirm(&of).await).await,
            Request::Deliveries { sink, limit, lease_ms } => {
                out.result(deliveries::deliveries(self, sink, limit, lease_ms).await).await;
            }
            Request::Wake { sink, lent } => out.result(deliveries::wake(self, sink, lent).await).await,
            Request::Pushed { sink, seq, lease, how } => out.result(deliveries::pushed(self, sink, seq, lease, how).await).await,
            Request::Until { until, barrier, no_wait } => until::until(self, until, barrier, no_wait).await,
            Request::Barriers { clear } => out.result(until::barriers(self, clear).await).await,
            Request::Serve => out.result(gateway::serve(self).await).await,
            Request::Disown { sessions } => out.answer(gateway::disown(self, sessions)).await,
            Request::EndConversation => out.result(end_conversation::end_conversation(self).await).await,
            Request::EngineStatus => out.result(engine_status::engine_status(self).await).await,
            Request::EngineStop => match engine_stop::may_stop(self).await {
                Ok(()) => {
                    out.answer(Done::ok()).await;
                    point!("engine_stop.allowed");
                    self.parts.table.begin_stop(self.owner.clone()).await;
                }
                Err(error) => out.error(error).await,
            },
            Request::EngineHandOver => {
                out.answer(Done::ok()).await;
                self.parts.table.begin_hand_over().await;
            }
            // The connection handles it, because it has the list of requests.
            Request::Cancel { .. } => {}
        }
    }

    /// Answers, and counts the end of a process as seen if the answer shows it. Only an answer in the process's own session and
    /// conversation counts.
    async fn answer_with_end<T: Serialize>(&self, result: Result<AnswerWithEnd<T>, Error>, how: &'static str) {
        let ended = match result {
            Ok(ended) => ended,
            Err(error) => return self.out.error(error).await,
        };
        let of = ended.of.filter(|facts| self.informs_owner(facts));
        let Some(facts) = of else { return self.out.answer(ended.answer).await };
        let awaiting = ended.awaiting;
        let (parts, id, now) = (Arc::clone(&self.parts), facts.id(), self.parts.now());
        let relayed = self.relay.then(|| (self.relays.clone(), self.out.of));
        let hold = async move {
            point!("answer.ready");
            if !facts.kept.spec.tell.is_nothing()
                && let Err(error) = parts.intake.answer_begins(id, now).await
            {
                tracing::warn!(%error, "an end that was answered may also be delivered as a notice");
            }
            // The request was cancelled before this, so the cancellation had nothing to release.
            if relayed.is_some_and(|(relays, of)| !relays.is_under_way(of)) {
                parts.outbox.answer_failed(id).await;
            }
            if let Some(awaiting) = awaiting {
                awaiting.held();
            }
        };
        let parts = Arc::clone(&self.parts);
        if self.relay {
            let (relays, of) = (self.relays.clone(), self.out.of);
            relays.begin(of, Relay::End { process: id, how, since: now });
            let then = move |sent: bool| async move {
                point!("answer.sent");
                if !sent {
                    relays.let_go(of).await;
                }
            };
            return self.out.answer_between(hold, ended.answer, Box::new(|sent| Box::pin(then(sent)))).await;
        }
        let then = move |sent: bool| async move {
            point!("answer.sent");
            if sent {
                parts.intake.end_seen(id, how, now).await;
            } else {
                parts.outbox.answer_failed(id).await;
            }
        };
        self.out.answer_between(hold, ended.answer, Box::new(|sent| Box::pin(then(sent)))).await;
    }

    /// Records the lease of these notices, so that they are released if the answer is not confirmed.
    fn relay_notices(&self, given: &[Told]) {
        // All notices of one answer have the same lease token.
        if let Some(lease) = given.first().and_then(|told| told.lease.clone()) {
            let ids = given.iter().map(|told| told.event.event_id.clone()).collect();
            self.relays.begin(self.out.of, Relay::Notices { ids, lease });
        }
    }

    /// Answers that a process is removed or set aside, and does so once the proxy confirms the answer. Without that it stays until it is too
    /// old.
    async fn answer_and_remove(&self, name: &str, set_aside: bool) {
        match remove::removable(self, name).await {
            Ok(view) => {
                let removed = Removed::new(view.id());
                let relay = if set_aside { Relay::SetAside(view.id()) } else { Relay::Removal(Box::new(view)) };
                self.relays.begin(self.out.of, relay);
                self.out.answer(removed).await;
            }
            Err(error) => self.out.error(error).await,
        }
    }
}

/// The answer about a process that was looked up.
fn found(view: &ProcessView) -> Found {
    let mut found = Found::new(view.id(), view.facts.kept.spec.name.clone(), view.facts.phase.status());
    (found.namesakes, found.running, found.newer) = (view.namesakes.all, view.namesakes.running, view.namesakes.newer);
    found
}
