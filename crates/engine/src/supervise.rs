//! One task for each process that is not over. It connects to the keeper and waits for news. If there was no keeper it starts one, and if
//! the keepers are dead it finds out what became of the command.

use crate::disk::{AGAIN, blocking};
use crate::facts::{self, Facts, FolderLook, LocalFacts, Whereabouts};
use crate::final_record::{self, FinalRecord};
use crate::launch::KeeperSource;
use crate::link::Link;
use crate::os::ProcessHandle;
use crate::parts::Parts;
use crate::{keepers, orphan};
use outlast_core::{EnvironmentName, Incarnation, Phase, ProcessId, StartFailure};
use outlast_store::dir::ProcessDir;
use outlast_store::meta::{Found, Image};
use outlast_store::mirror::MirrorState;
use outlast_store::spec::SpecFile;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// How many keepers are started for one command, if each leaves before it has started it.
const LAUNCHES: u32 = 3;
/// How long a keeper may take to report whether it has started its command.
const STARTING: Duration = Duration::from_secs(10);
/// After this many failed connects a keeper counts as unreachable.
const UNREACHABLE_AFTER: u32 = 3;
/// How long to wait before a link that cannot be used is tried again: this long for each failure, up to a limit.
const LINK_AGAIN: Duration = Duration::from_millis(100);
/// How long a new engine only answers clients before it connects to the keepers that it found.
const ANSWERS_FIRST: Duration = Duration::from_millis(200);

/// What is known of a process when its supervision begins.
pub(crate) enum Known {
    /// Nothing new: its folder has to be read.
    ReadFolder,
    /// Recovery has just read its folder.
    FromRecovery,
    /// It is being started by a keeper that reports on this connection.
    StartedBy(Link),
}

/// Supervises one process until its facts are final.
pub(crate) async fn supervise(parts: Arc<Parts>, id: ProcessId, known: Known) {
    let dir = parts.home.process(id);
    let on = parts.table.facts(id).await.and_then(|facts| facts.kept.spec.on.clone());
    if !matches!(known, Known::StartedBy(_)) && on.is_none() {
        // Without it the file says nearly the same, and it is tried again with the keepers.
        let _found = hold_image(&dir).await;
    }
    let (do_look, recovered) = (matches!(known, Known::ReadFolder), matches!(known, Known::FromRecovery));
    let link = if let Known::StartedBy(link) = known { Some(link) } else { None };
    let launches = u32::from(link.is_some());
    let mut supervisor = Supervisor { parts, id, dir, link, launches, tries: 0, recovered };
    let mut facts = if do_look { supervisor.look().await } else { supervisor.parts.table.facts(id).await };
    if recovered && facts.as_ref().is_some_and(|facts| facts.phase.is_kept_alive()) {
        // The facts are true, and clients are answered first; the keeper keeps what is new.
        tokio::time::sleep(ANSWERS_FIRST).await;
        facts = supervisor.look().await;
    }
    while let Some(known) = &facts {
        if known.phase.is_final() {
            break;
        }
        if let Err(error) = supervisor.step(known).await {
            tracing::error!(%id, %error, "cannot supervise a process");
            tokio::time::sleep(AGAIN).await;
        }
        facts = supervisor.look().await;
    }
    if facts.is_some() {
        supervisor.leave_file_whole().await;
    }
}

/// Holds the live copy of `meta` of a process that an earlier engine started, so that its content outlives the keepers.
async fn hold_image(dir: &ProcessDir) -> io::Result<Found> {
    let dir = dir.clone();
    blocking(move || Image::find_and_hold(&dir)).await
}

struct Supervisor {
    parts: Arc<Parts>,
    id: ProcessId,
    dir: ProcessDir,
    link: Option<Link>,
    launches: u32,
    tries: u32,
    /// Whether an earlier engine may have left a stop undone.
    recovered: bool,
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        Image::forget(&self.dir);
    }
}

impl Supervisor {
    /// Waits until the file equals the live copy of `meta`. The keepers write it before they leave; if they are dead, the engine does.
    async fn leave_file_whole(&mut self) {
        loop {
            if let Some(link) = &mut self.link {
                // The keepers close it when they leave.
                let _left = tokio::time::timeout(AGAIN, link.closed()).await;
            }
            let dir = self.dir.clone();
            if matches!(blocking(move || final_record::is_retired(&dir)).await, Ok(Ok(true)) | Err(_)) || !self.dir.path.exists() {
                return;
            }
            // No descriptor reports that a disk has space again. The loop ends with the engine, or when the folder is removed.
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Reads the folder and returns what it shows. None if the process is not in the table any more.
    async fn look(&self) -> Option<Arc<Facts>> {
        let facts = self.parts.table.facts(self.id).await?;
        let (dir, cursor) = (self.dir.clone(), facts.cursor);
        let seen = self.parts.disk.at(move || FolderLook::look(&dir, cursor)).await.ok()?;
        self.parts.intake.apply_look(self.id, seen).await
    }

    /// Waits for the next fact. If the process has no keeper, starts one or writes the final record.
    async fn step(&mut self, facts: &Facts) -> io::Result<()> {
        if let Some(link) = &mut self.link {
            let news = async {
                match facts.phase {
                    // Its start may wait for its sandbox for as long as that takes.
                    Phase::Accepted if facts.local().is_none() => link.news().await,
                    // A keeper that hangs would block this start for ever. Giving it up is safe: no command is started twice.
                    Phase::Accepted => tokio::time::timeout(STARTING, link.news()).await.unwrap_or_else(|late| Err(late.into())),
                    _ => link.news().await,
                }
            };
            let news = news.await;
            if facts.local().is_none() {
                self.see_link().await;
            }
            if let Err(error) = news {
                self.link = None;
                if error.kind() == io::ErrorKind::TimedOut && self.launches == 1 {
                    tracing::warn!(id = %self.id, "the fork server does not answer: another is started");
                    self.parts.launcher.fork_server.give_up().await;
                }
            }
            return Ok(());
        }
        let here = match facts.place() {
            Whereabouts::Here(here) => here,
            Whereabouts::Sandbox(on) => return self.step_elsewhere(on).await,
        };
        if let Phase::Orphaned { of } = &facts.phase {
            return self.outlive(*of, here).await;
        }
        let dir = self.dir.clone();
        if blocking(move || facts::has_keeper(&dir)).await? {
            return self.connect().await;
        }
        self.settle(here).await
    }

    /// The same for a process in a sandbox: its link is what a keeper is here.
    async fn step_elsewhere(&mut self, on: &EnvironmentName) -> io::Result<()> {
        let parts = Arc::clone(&self.parts);
        let connected = match parts.links.take(on, self.id).await {
            Ok(()) => Link::connect(&parts.sockets.of(self.id), true).await.map_err(|e| e.to_string()),
            Err(error) => Err(error.error),
        };
        match connected {
            Ok(link) => {
                (self.link, self.tries) = (Some(link), 0);
                self.see_link().await;
            }
            Err(error) => {
                self.tries += 1;
                if self.tries == UNREACHABLE_AFTER {
                    tracing::warn!(id = %self.id, %on, error, "the link cannot be used");
                    parts.table.reachable(self.id, false).await;
                }
                // No descriptor tells when a link can be started again.
                tokio::time::sleep(AGAIN.min(LINK_AGAIN * self.tries)).await;
            }
        }
        Ok(())
    }

    /// The link has written down whether the sandbox can be reached.
    async fn see_link(&self) {
        let is_reachable = MirrorState::read(&self.dir).is_none_or(|state| state.unreachable.is_none());
        self.parts.table.reachable(self.id, is_reachable).await;
    }

    async fn settle(&mut self, facts: LocalFacts<'_>) -> io::Result<()> {
        let (dir, facts, now) = (self.dir.clone(), Facts::clone(&facts), self.parts.now());
        let (accepted_at, was) = (facts.kept.accepted_at, facts.phase.clone());
        let unsaved = self.parts.unsaved_stops.of(self.id);
        let write = move || facts.local().map_or(Ok(FinalRecord::Kept), |here| final_record::write(&dir, here, unsaved, now));
        match blocking(write).await?? {
            FinalRecord::Kept => Ok(()),
            FinalRecord::Refused { seen, error } => {
                // The engine shows what it knows at once, and reports it when the index accepts it. The folder gets it when the disk
                // accepts writes again.
                tracing::error!(id = %self.id, %error, "cannot record in its folder what happened to a process");
                if self.parts.intake.apply_look(self.id, *seen).await.is_some_and(|now| now.phase == was) {
                    // No descriptor reports that a disk has space again. The supervising loop calls this until the process is over.
                    tokio::time::sleep(AGAIN).await;
                }
                Ok(())
            }
            FinalRecord::Written => {
                // Its keepers removed it themselves, unless they were killed.
                let _gone = std::fs::remove_file(self.parts.sockets.of(self.id));
                Ok(())
            }
            FinalRecord::NotStarted if accepted_at < final_record::booted_at(now) => {
                self.never("the machine was restarted before the command could be started", 0).await
            }
            FinalRecord::NotStarted => self.launch().await,
        }
    }

    async fn launch(&mut self) -> io::Result<()> {
        let dir = self.dir.clone();
        match blocking(move || SpecFile::read_launch(&dir)).await? {
            Ok(Some(_)) => {}
            Ok(None) => return self.never("what is needed to start the command is gone", 0).await,
            Err(error) => return self.never(&error.to_string(), 0).await,
        }
        if self.launches == LAUNCHES {
            return self.never("three keepers exited before they could start the command; engine.log says why", 0).await;
        }
        self.launches += 1;
        // The fork server may be at fault or hang. So it is asked once, and the program is executed after that.
        let source = if self.launches == 1 { KeeperSource::ForkServer } else { KeeperSource::Program };
        let started = match self.parts.launcher.ask(self.id, source).await {
            Ok(keeper) => keeper.go().await,
            Err(error) => Err(error),
        };
        match started {
            Ok(link) => {
                self.link = Some(link);
                Ok(())
            }
            Err(e) if self.launches == LAUNCHES => {
                self.never(&format!("the keeper could not be started: {e}"), e.raw_os_error().unwrap_or(0)).await
            }
            Err(e) => Err(e),
        }
    }

    /// Records that the command never ran, unless a keeper has started it after all.
    async fn never(&self, what: &str, errno: i32) -> io::Result<()> {
        let (dir, id, now) = (self.dir.clone(), self.id, self.parts.now());
        let failure = StartFailure { errno, what: what.to_owned() };
        let said = failure.clone();
        if let Err(error) = blocking(move || final_record::never_started(&dir, id, failure, now)).await? {
            tracing::error!(%id, %error, "cannot record in its folder that a process was never started");
            let (dir, cursor) = (self.dir.clone(), self.parts.table.facts(id).await.map_or(0, |facts| facts.cursor));
            let seen = blocking(move || final_record::seen_never_started(&dir, cursor, said, now)).await?;
            self.parts.intake.apply_look(id, seen).await;
        }
        Ok(())
    }

    /// Waits for the end of a command that has no keeper.
    async fn outlive(&mut self, of: Incarnation, facts: LocalFacts<'_>) -> io::Result<()> {
        if self.recovered {
            self.finish_stop(of, &facts).await?;
            self.recovered = false;
        }
        match ProcessHandle::of(&of) {
            Ok(life) => life.exited().await?,
            Err(e) if e.raw_os_error() == Some(libc::ESRCH) || e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
        self.settle(facts).await
    }

    /// Continues a stop that an earlier engine began and did not finish.
    async fn finish_stop(&self, of: Incarnation, facts: &Facts) -> io::Result<()> {
        let (dir, now) = (self.dir.clone(), self.parts.now());
        let Some(way) = blocking(move || final_record::unfinished(&dir, now)).await? else { return Ok(()) };
        let tree = orphan::Tree::new(&self.parts.leftovers.own, self.id, of, facts.detached);
        let ended = orphan::stop(tree, way).await?;
        if !ended.survivors.is_empty() {
            tracing::warn!(id = %self.id, survivors = ?ended.survivors, "not stopped");
        }
        if let Some(warning) = ended.unexamined.warning() {
            tracing::warn!(id = %self.id, "{warning}");
        }
        Ok(())
    }

    /// Asks the pump for the live copy of `meta`, which this engine may not open through `/proc`: the keepers may do more than it may. It
    /// asks on a connection of its own, so that no news is lost while it reads the answer. Without the live copy the file says the same, up
    /// to a second later.
    async fn ask_for_image(&self) {
        let parts = &self.parts;
        let passed = async {
            let _turn = parts.sockets.turn().await;
            Link::connect(&parts.sockets.of(self.id), false).await?.share_meta().await
        };
        let (id, dir) = (self.id, self.dir.clone());
        match passed.await {
            Ok(fd) => {
                if !blocking(move || Image::hold_passed(&dir, fd)).await.unwrap_or(false) {
                    tracing::warn!(%id, "the keeper passed something else than the live copy of meta");
                }
            }
            Err(error) => tracing::warn!(%id, %error, "the live copy of meta is not available: output is shown up to a second late"),
        }
    }

    async fn connect(&mut self) -> io::Result<()> {
        let parts = &self.parts;
        let connected = {
            let _turn = parts.sockets.turn().await;
            Link::connect(&parts.sockets.of(self.id), true).await
        };
        match connected {
            Ok(link) => {
                self.link = Some(link);
                self.tries = 0;
                if hold_image(&self.dir).await.is_ok_and(|found| found == Found::Unreadable) {
                    self.ask_for_image().await;
                }
                self.parts.table.reachable(self.id, true).await;
            }
            Err(error) => {
                self.tries += 1;
                // One failed connect is normal: the keeper may just be leaving.
                tracing::debug!(id = %self.id, %error, tries = self.tries, "cannot connect to the keeper");
                if self.tries == UNREACHABLE_AFTER {
                    tracing::warn!(id = %self.id, %error, "the keeper holds its lock and cannot be reached");
                    self.parts.table.reachable(self.id, false).await;
                }
                keepers::wait(&parts.sockets, self.id, &self.dir, AGAIN).await?;
            }
        }
        Ok(())
    }
}
