//! The flags that name the owner of a request.

use clap::Args;
use outlast_client::{Client, Owner, Scope};
use outlast_core::nearest;
use std::collections::BTreeSet;

/// The owner of a request.
#[derive(Debug, Args)]
pub(crate) struct Whose {
    /// The session [default: OUTLAST_SESSION]
    #[arg(long, value_name = "KEY", global = true)]
    session: Option<String>,
    /// The task [default: OUTLAST_TASK]
    #[arg(long, value_name = "TASK", global = true)]
    task: Option<String>,
    /// Generation of the session; notices for older ones are dropped [default: OUTLAST_GENERATION]
    #[arg(long, value_name = "GENERATION", global = true)]
    generation: Option<String>,
}

impl Whose {
    /// What the flags say; where they say nothing, what the environment says.
    pub(crate) fn or(self, here: Owner) -> Owner {
        Owner { session: self.session.or(here.session), task: self.task.or(here.task), generation: self.generation.or(here.generation) }
    }
}

/// A suggestion for a session that has no processes: the nearest known name. None if there are processes of it.
pub(crate) async fn meant(client: &Client, session: Option<&str>) -> Option<String> {
    let session = session?;
    // Where that cannot be looked up, what was found is all there is to say.
    let all = client.list(&Scope::default(), true).await.ok()?;
    let known: BTreeSet<&str> = all.iter().filter_map(|p| p.session_key.as_deref()).collect();
    if known.contains(session) {
        return None;
    }
    let near = nearest(session, known);
    let meant = if near.is_empty() { String::new() } else { format!("; did you mean {}?", near.join(" or ")) };
    Some(format!("no process is of the session {session}{meant}"))
}
