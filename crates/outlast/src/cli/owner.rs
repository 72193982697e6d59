//! For whom a call is made.

use clap::Args;
use outlast_client::Owner;

/// For whom.
#[derive(Debug, Args)]
pub(crate) struct Whose {
    /// Whose conversation [default: OUTLAST_SESSION]
    #[arg(long, value_name = "KEY", global = true)]
    session: Option<String>,
    /// Which task [default: OUTLAST_TASK]
    #[arg(long, value_name = "T", global = true)]
    task: Option<String>,
    /// Which life of the conversation; notices for an earlier one are dropped [default: OUTLAST_GENERATION]
    #[arg(long, value_name = "G", global = true)]
    generation: Option<String>,
}

impl Whose {
    /// What the flags say; where they say nothing, what the environment says.
    pub(crate) fn or(self, here: Owner) -> Owner {
        Owner { session: self.session.or(here.session), task: self.task.or(here.task), generation: self.generation.or(here.generation) }
    }
}
