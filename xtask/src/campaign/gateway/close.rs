//! The end of a home: the records of all processes are compared, and no process is left.

use super::super::report::Report;
use super::books::{Books, ConversationRow};
use super::eyes;
use super::scene::Scene;
use super::stage::Stage;
use anyhow::{Context, Result, ensure};
use outlast_client::Part;
use serde_json::Value;
use std::path::PathBuf;

impl Stage {
    /// Closes the home, and checks its books.
    pub(super) fn close(self, report: &Report) -> Result<()> {
        let wrong = self.audit(report);
        let wrong = wrong.unwrap_or_else(|e| vec![format!("a home cannot be closed: {e:#}")]);
        report.add("homes", 1);
        if wrong.is_empty() {
            // It has let go of everything, and may need a moment to be gone.
            self.scene.until("the end of the gateway", || Ok(eyes::gateways(&self.scene.product).is_empty().then_some(())))?;
            return self.scene.product.shut_down().context("left over at the end");
        }
        let kept = self.give_up()?;
        wrong.into_iter().for_each(|what| report.bad(format!("{what}; kept: {}", kept.display())));
        Ok(())
    }

    /// Everything that is wrong.
    fn audit(&self, report: &Report) -> Result<Vec<String>> {
        let Scene { product, dir, eyes } = &self.scene;
        let mut wrong = Vec::new();
        let mut shown = Vec::new();
        for chat in &self.chats {
            let exported = product.call(["chat", "export", "--json", &chat.name]).good().json();
            let turns = product.call(["chat", "show", "--json", &chat.name]).good().json()["turns"].take();
            let parts: Vec<Part> = serde_json::from_value(exported["parts"].clone()).context("the parts of an export")?;
            let last = parts.last().map(|part| part.id);
            // By now a follower must have seen the last part. No part comes after it.
            let followed = self.scene.until("the last part", || {
                let followed = eyes.parts(&chat.key)?;
                Ok((followed.last().map(|part| part.id) >= last).then_some(followed))
            })?;
            shown.push((chat, parts, followed, turns));
        }
        // A notice whose acknowledgement was lost is offered again when its lease is over, and recognised.
        let history = || -> Value { product.call(["events", "history", "--json", "--limit", "1000"]).good().json() };
        self.scene.until("the end of every lease", || {
            let told = history();
            let is_open = |told: &Value| told["state"] == "pending" || told["state"] == "leased";
            Ok((!told["notices"].as_array().context("a history")?.iter().any(is_open)).then_some(()))
        })?;
        let stopped = product.call(["gateway", "stop"]);
        ensure!(stopped.code == Some(0), "the gateway cannot be stopped: {stopped:?}");
        let history = history();
        let books = Books::read(&product.home().root, dir, &history)?;
        wrong.extend(books.check(&self.ledger));
        for (chat, exported, followed, turns) in shown {
            wrong.extend(
                books.differences(&turns).map(|turn| format!("{}: `chat show` says {turn}, and the table another thing", chat.key)),
            );
            let stored = books.parts_of(&chat.key);
            if !stored.iter().copied().eq(&exported) || !stored.iter().copied().eq(&followed) {
                wrong.push(format!(
                    "{}: {} parts are stored, {} exported, {} followed, and they differ",
                    chat.key,
                    stored.len(),
                    exported.len(),
                    followed.len()
                ));
            }
            report.add("parts that a follower saw once", followed.len() as u64);
        }
        let is_same = self.founds.len() == books.founds.len()
            && self.founds.iter().zip(&books.founds).all(|(planned, found)| planned.is_none_or(|planned| planned == *found));
        if !is_same {
            wrong.push(format!("starts of the gateway found interrupted turns: {:?}, and the plans say {:?}", books.founds, self.founds));
        }
        let is_suspended = |row: &&ConversationRow| !row.is_current && row.is_suspended;
        report.add("conversations suspended after three deaths", books.conversations.iter().filter(is_suspended).count() as u64);
        report.add("messages and notices", self.ledger.len() as u64);
        Ok(wrong)
    }

    /// Ends everything at once, and keeps what helps to find out what went wrong.
    pub(super) fn give_up(self) -> Result<PathBuf> {
        let Scene { product, dir, eyes } = self.scene;
        drop(eyes);
        let home = product.home().root;
        eyes::cut_power(&product, || None)?;
        // Otherwise the next engine would start a gateway. A gateway that was killed leaves its socket.
        std::fs::write(home.join("gateway.lock"), "stopped\n")?;
        if let Some(dir) = product.socket_dir() {
            let _absent = std::fs::remove_file(dir.join("gateway"));
        }
        let kept = tempfile::Builder::new().prefix("gateway-").tempdir()?.keep();
        let files = [&home, &dir].map(std::fs::read_dir).into_iter().flatten().flatten().flatten();
        for file in files.map(|entry| entry.path()).filter(|path| path.is_file()) {
            std::fs::copy(&file, kept.join(file.file_name().unwrap_or_default()))?;
        }
        Ok(kept)
    }
}
