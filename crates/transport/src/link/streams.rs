//! The stream to the sandbox: opened while there is a use for it, again after a loss, and what comes on it.

use super::{Link, LinkInput, Numbered, StreamPhase};
use crate::stream::{Stream, StreamInput, StreamOut};
use crate::transport::{Transport, TransportError, TransportFailure};
use outlast_core::ProcessId;
use outlast_store::dir::Home;
use outlast_store::mirror::MirrorState;
use outlast_wire::code;
use outlast_wire::frame;
use outlast_wire::v1::keeper::KeeperReply;
use outlast_wire::v1::link::LinkReply;
use outlast_wire::v1::sandbox::{FromSandbox, SandboxHello, SandboxReply, SandboxRequest, ToSandbox};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};

/// The pauses between attempts to open a stream: this one first, then twice as long each time, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// Opens streams for as long as the link runs.
pub(super) async fn keep_open(transport: Arc<dyn Transport>, inbox: mpsc::Sender<LinkInput>, hurry: Arc<Notify>) {
    let (mut pause, mut number) = (FIRST_PAUSE, 0);
    loop {
        number += 1;
        let lost = match Stream::open(&*transport).await {
            Ok(stream) => {
                pause = FIRST_PAUSE;
                let (out, frames) = mpsc::unbounded_channel();
                if inbox.send(LinkInput::Up(Box::new(stream.hello.clone()), out.clone())).await.is_err() {
                    return;
                }
                let wrap = move |came| LinkInput::Came(number, came);
                (stream.run(frames, out, inbox.clone(), wrap).await, true)
            }
            Err(error) => {
                number -= 1;
                (error, false)
            }
        };
        if inbox.send(LinkInput::Down(lost.0, lost.1)).await.is_err() {
            return;
        }
        // Its own failure changes nothing.
        let _as_far_as_it_goes = transport.lost().await;
        if !lost.1 {
            let _sooner = tokio::time::timeout(jittered(pause), hurry.notified()).await;
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }
}

/// Between half of a pause and the whole: links that lost the same machine do not come back together.
fn jittered(pause: Duration) -> Duration {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let random = RandomState::new().build_hasher().finish();
    pause / 2 + pause.mul_f64((random % 1000) as f64 / 2000.0)
}

impl Link {
    /// Sends a frame. A stream that is lost drops it.
    pub(super) fn send(&self, frame: Vec<u8>) {
        if let StreamPhase::Open { out, .. } = &self.phase {
            let _lost = out.send(frame);
        }
    }

    /// Sends a request that has no answer.
    pub(super) fn ask(&mut self, ask: SandboxRequest) -> u64 {
        self.last_number += 1;
        let id = self.last_number;
        self.send(frame::json(&ToSandbox { id, ask }));
        id
    }

    /// Sends a request whose answers stand for something.
    pub(super) fn number(&mut self, stands_for: Numbered, ask: SandboxRequest) -> u64 {
        let id = self.ask(ask);
        if matches!(self.phase, StreamPhase::Open { .. }) {
            self.numbers.insert(id, stands_for);
        }
        id
    }

    pub(super) fn up(&mut self, hello: Box<SandboxHello>, out: StreamOut) {
        self.stream += 1;
        let Ok(boot) = u128::from_str_radix(&hello.boot, 16) else {
            tracing::error!(boot = hello.boot, "the sandbox named no boot id");
            return;
        };
        tracing::info!(on = %self.settings.on, home = hello.home, "connected");
        for waiting in self.waiting.drain(..) {
            let _left = waiting.send(LinkReply::Ready { sandbox: hello.clone() });
        }
        self.phase = StreamPhase::Open { hello, out, boot };
        let all: Vec<ProcessId> = self.processes.keys().copied().collect();
        for process in all {
            self.mark_reachable(process);
            self.attach(process);
        }
        let conns: Vec<u64> = self.conns.keys().copied().collect();
        conns.into_iter().for_each(|number| self.flush_conn(number));
        // The answer to an earlier removal may have been lost.
        self.number(Numbered::List, SandboxRequest::List);
    }

    /// `was_open`: a stream is lost, and the next is opened at once. Otherwise it could not be opened.
    pub(super) fn down(&mut self, error: TransportError, was_open: bool) {
        // An answer that was under way does not come. The engine connects again, and asks again.
        for (_, stands_for) in std::mem::take(&mut self.numbers) {
            if let Numbered::InputTaken(_, conn, _) = stands_for {
                self.conns.remove(&conn);
            }
        }
        self.detach_all();
        // Whether a request reached its keeper is not known. The engine repeats those that may be repeated.
        let open: Vec<u64> = self.conns.iter().filter(|(_, conn)| conn.channel.is_some()).map(|(number, _)| *number).collect();
        for number in open {
            self.conns.remove(&number);
        }
        if was_open {
            tracing::warn!(on = %self.settings.on, %error, "the stream is lost");
            self.phase = StreamPhase::Opening(None);
            return;
        }
        let is_first = matches!(self.phase, StreamPhase::Opening(None));
        if is_first {
            tracing::warn!(on = %self.settings.on, %error, "cannot be reached");
        }
        for waiting in self.waiting.drain(..) {
            let _left = waiting.send(refusal(&error));
        }
        if error.failure == TransportFailure::Gone {
            let all: Vec<ProcessId> = self.processes.keys().copied().collect();
            let known =
                |link: &Self, process| link.processes.get(&process).is_some_and(|m: &super::Mirrored| m.mirror.state().sandbox.is_some());
            for process in all {
                if known(self, process) {
                    self.lose(process, &error.what);
                }
            }
        }
        self.phase = StreamPhase::Opening(Some(error));
        let all: Vec<ProcessId> = self.processes.keys().copied().collect();
        all.into_iter().for_each(|process| self.mark_reachable(process));
        // What waits on a connection was not sent; its sender is told.
        let waiting: Vec<u64> = self.conns.iter().filter(|(_, conn)| conn.has_waiting()).map(|(number, _)| *number).collect();
        waiting.into_iter().for_each(|number| self.close_conn(number));
    }

    pub(super) fn came(&mut self, stream: u64, came: StreamInput) {
        if stream != self.stream {
            return;
        }
        match came {
            StreamInput::Raw(of, bytes) => {
                if let Some(Numbered::Channel(conn)) = self.numbers.get(&of).copied() {
                    self.channel_bytes(conn, &bytes);
                }
            }
            StreamInput::Said(FromSandbox { of, say }, bytes) => self.said(of, say, &bytes),
        }
    }

    fn said(&mut self, of: u64, say: SandboxReply, bytes: &[u8]) {
        let Some(stands_for) = self.numbers.get(&of).copied() else { return };
        match (stands_for, say) {
            (Numbered::Attach(process), SandboxReply::Update(update)) => return self.updated(of, process, &update, bytes),
            (Numbered::Channel(conn), SandboxReply::Taken { bytes }) => return self.channel_taken(conn, bytes),
            (Numbered::Channel(conn), SandboxReply::HungUp) => {
                // The keeper is gone or was replaced. The engine connects again, and looks.
                self.numbers.remove(&of);
                self.conns.remove(&conn);
                return;
            }
            (Numbered::Attach(process), SandboxReply::Refused { code, error }) => match code.as_str() {
                code::NOT_FOUND => self.unknown_there(process),
                _ => self.disk_refused(process, &std::io::Error::other(error)),
            },
            (Numbered::Start(process), SandboxReply::Refused { error, .. }) => self.start_refused(process, error),
            (Numbered::InputTaken(process, conn, id), SandboxReply::InputTaken { bytes }) => {
                if let Some(mirrored) = self.processes.get_mut(&process) {
                    mirrored.input_taken(bytes);
                }
                if let Some(conn) = self.conns.get(&conn) {
                    conn.say(Some(id), KeeperReply::Ok);
                }
            }
            (Numbered::InputTaken(_, conn, id), SandboxReply::Refused { code, error }) => {
                if let Some(conn) = self.conns.get(&conn) {
                    conn.say(Some(id), KeeperReply::Refused { code, error });
                }
            }
            (Numbered::List, SandboxReply::Processes { processes }) => self.remove_whole(&processes),
            (_, _) => {}
        }
        self.numbers.remove(&of);
    }

    /// Removes from the sandbox what is here as a whole.
    fn remove_whole(&mut self, there: &[ProcessId]) {
        let home = Home::new(&self.settings.home);
        for process in there.iter().filter(|process| !self.processes.contains_key(process)).copied().collect::<Vec<_>>() {
            if MirrorState::read(&home.process(process)).is_some_and(|state| state.is_whole) {
                self.number(Numbered::Remove, SandboxRequest::Remove { process });
            }
        }
    }
}

/// The answer to an engine that waits for the sandbox.
pub(super) fn refusal(error: &TransportError) -> LinkReply {
    let code = match error.failure {
        TransportFailure::Unavailable | TransportFailure::Gone => code::UNREACHABLE,
        TransportFailure::Refused => code::BAD_ENVIRONMENT,
    };
    LinkReply::Refused { code: code.into(), error: error.what.clone(), hint: error.hint.clone() }
}
