//! The loop of an agent. It starts a command that takes a while, continues with other work, and gets each notice once. If it
//! crashes at any point and is started again, it continues there: a notice that was delivered is not repeated, and no other is
//! lost.
//!
//! ```text
//! cargo run -p outlast-client --example agent -- 'sleep 5; echo ERROR: it broke; exit 1'
//! cargo run -p outlast-client --example agent          # again, without a new command
//! ```

use outlast_client::{Client, Connect, Owner, Run, Scope, Spec, Take, Tell, Verdict, caller};
use std::error::Error;
use std::time::Duration;

/// The session of the agent.
const SESSION: &str = "example:agent";
/// How long one turn of other work takes.
const TURN: Duration = Duration::from_millis(500);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let to = Connect::of_env(std::env::vars_os()).ok_or("set OUTLAST_HOME, or HOME")?.starting("outlast");
    let agent = Client::connect(&to.speaking_for(Owner::session(SESSION))).await?;
    if let Some(command) = std::env::args_os().nth(1) {
        let here = caller(std::env::vars_os(), &std::env::current_dir()?);
        // The request is on disk before the command runs. From here on no crash loses it.
        let spec = Spec::shell(command).telling(Tell::end().line("ERROR"));
        println!("started {}", agent.run(Run::new(spec, here)).await?.id());
    }
    for turn in 1.. {
        // Asked before the notices are taken, so that no end is missed between the two.
        let busy = !agent.list(&Scope::session(SESSION), false).await?.is_empty();
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
            // The model has the notice now. If this program is killed before this line, its next run gets the notice again, marked
            // as a repeat.
            agent.settle(&[&told.event.event_id], told.lease.as_deref(), Verdict::Delivered).await?;
        }
    }
    Ok(())
}
