//! The measured Outlast: the program in a home of its own, called over its socket.

use super::Settings;
use anyhow::{Context, Result};
use outlast_client::{Caller, Client, Connect, Owner, Run, Spec, Start, caller};
use outlast_testkit::product::Product;
use std::ffi::OsString;
use std::path::Path;

/// An engine in a home of its own. Dropping it stops all processes of the home.
pub(crate) struct Ours {
    pub(crate) product: Product,
}

impl Ours {
    /// An engine with these lines in its configuration, and these files in the user's home.
    pub(crate) fn new(settings: &Settings, config: &str, dotfiles: &[(&str, &str)]) -> Result<Self> {
        let product = Product::in_dir(&settings.program, &settings.disk);
        // The home has to last until the other programs were measured.
        product.configure(&format!("[engine]\nidle_exit_seconds = 0\n{config}"));
        for (name, text) in dotfiles {
            std::fs::write(product.user().join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        // The engine is started here, so that it has the product's environment.
        product.engine();
        Ok(Self { product })
    }

    /// A new connection that speaks for a session.
    pub(crate) async fn client(&self, session: &str) -> Result<Client> {
        let owner = Owner { session: Some(session.into()), ..Owner::default() };
        let mut to = Connect::to(self.product.home().root).speaking_for(owner);
        to.start = Start::Never;
        Client::connect(&to).await.context("cannot connect to the engine")
    }

    /// A request to run this in the user's environment, with a notice at its end.
    pub(crate) fn run(&self, spec: Spec) -> Run {
        let mut spec = spec;
        spec.tell.completion = true;
        Run::new(spec, self.caller())
    }

    /// The user's environment.
    pub(crate) fn caller(&self) -> Caller {
        caller(environment(&self.product.user()), &self.product.work())
    }

    /// Starts this many processes that sleep and print nothing.
    pub(crate) async fn start_sleepers(&self, client: &Client, many: usize) -> Result<()> {
        self.start_many(client, &Spec::argv(["/bin/sleep", "100000"]), many).await
    }

    /// Starts this many of the same, a few at a time.
    pub(crate) async fn start_many(&self, client: &Client, spec: &Spec, many: usize) -> Result<()> {
        const AT_ONCE: usize = 8;
        let mut starting = tokio::task::JoinSet::new();
        for first in 0..AT_ONCE {
            let (client, runs) = (client.clone(), (first..many).step_by(AT_ONCE).len());
            let run = Run::new(spec.clone(), self.caller());
            starting.spawn(async move {
                for _ in 0..runs {
                    client.run(run.clone()).await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(done) = starting.join_next().await {
            done??;
        }
        Ok(())
    }
}

/// The environment of measured programs: the same for all, and without our variables.
pub(crate) fn environment(home: &Path) -> Vec<(OsString, OsString)> {
    let fixed = [("USER", "tester"), ("PATH", "/usr/local/bin:/usr/bin:/bin"), ("LANG", "C.UTF-8")];
    let fixed = fixed.iter().map(|(name, value)| ((*name).into(), (*value).into()));
    [("HOME".into(), home.as_os_str().to_owned())].into_iter().chain(fixed).collect()
}
