//! The loop of an agent: it starts something that takes a while, goes on with other work, and is told once when there is news. Called again after a crash, at
//! whatever point, it goes on where it was: what was told is not told again, what was not is.
//!
//! ```text
//! cargo run -p outlast-client --example agent -- 'sleep 5; echo ERROR: it broke; exit 1'
//! cargo run -p outlast-client --example agent          # again, without a new command
//! ```

use outlast_client::{Client, Connect, Owner, Run, Scope, Spec, Take, Tell, Verdict, caller};
use std::error::Error;
use std::time::Duration;

/// The conversation that the agent leads.
const CONVERSATION: &str = "example:agent";
/// How long one turn of other work takes.
const TURN: Duration = Duration::from_millis(500);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let to = Connect::of_env(std::env::vars_os()).ok_or("set OUTLAST_HOME, or HOME")?.starting("outlast");
    let agent = Client::connect(&to.speaking_for(Owner::session(CONVERSATION))).await?;
    if let Some(command) = std::env::args_os().nth(1) {
        let here = caller(std::env::vars_os(), &std::env::current_dir()?);
        // On record before the command may run: from here on nothing is forgotten, whoever dies.
        let spec = Spec::shell(command).telling(Tell::end().line("ERROR"));
        println!("started {}", agent.run(Run::new(spec, here)).await?.id());
    }
    for turn in 1.. {
        // Asked before the notices are, so that nothing ends unheard between the two.
        let busy = !agent.list(&Scope::session(CONVERSATION), false).await?.is_empty();
        let take = Take::default().limit(10).wait_at_most(TURN);
        let given = agent.take(&take).await?;
        if given.notices.is_empty() && !busy {
            break;
        }
        if given.notices.is_empty() {
            println!("turn {turn}: other work");
        }
        for told in given.notices {
            println!("turn {turn}: {}", told.text);
            // The model has it now. Killed before this line, the next call of this program is told again, marked as a repeat.
            agent.settle(&[&told.event.event_id], told.lease.as_deref(), Verdict::Delivered).await?;
        }
    }
    Ok(())
}
