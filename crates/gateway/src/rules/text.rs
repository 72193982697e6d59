//! What a person reads. Front ends print a line as it is; no line holds an id of ours.

use std::fmt;

use super::reset::ResetReason;
use super::turn::{DrainKind, FailureReason, InterruptReason, ObsoleteReason, WaitReason};

/// One line for the person of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// To each chat with a running turn, when a drain begins.
    Banner(DrainKind),
    /// The message is kept while the gateway drains.
    KeptWhileDraining(DrainKind),
    /// The message is kept while a person holds new turns back, for this many minutes at most.
    KeptWhileHeld(u64),
    /// An interrupted turn is started again.
    ResumedAfterRestart,
    /// A turn that was cut by a crash is started again.
    ResumedAfterInterruption,
    /// The agent died in the turn, which is tried again.
    AgentEndedRetrying,
    /// The turn failed.
    Failed(FailureReason),
    /// The turn was given up after its last attempt.
    GaveUp,
    /// The conversation is suspended.
    Suspended,
    /// A message started a new generation in place of this suspended one.
    StartedAnew(u32),
    /// A message started a new generation in place of this one, because of the reset policy.
    Reset(ResetReason, u32),
    /// A message started a new generation in place of this one, because an interrupted turn was too old to be continued.
    ResumeExpired(u32),
    /// A newer message replaced an interrupted one that is too old to be quoted.
    TooOldToQuote,
    /// A person asked for a new generation.
    NewConversation,
    /// `/stop` cancelled something.
    Stopped,
    /// This many messages that waited are cancelled.
    WaitingCancelled(usize),
    /// `/stop` found nothing to cancel.
    NothingToStop,
    /// `/resume` of a conversation that was suspended or held back.
    Continued,
    /// `/resume N` continued this earlier generation.
    Returned(u32),
    /// The same, and the agent's session also has what this later generation said, which continued it.
    ReturnedLater(u32, u32),
    /// `/resume` found nothing to continue.
    NothingToResume,
    /// This many notices are recorded and start no turn.
    NoticesObsolete(ObsoleteReason, usize),
    /// The turn that is first in the queue waits for a person.
    Waiting(WaitReason),
}

impl Line {
    /// The line for a turn with this mark that is started again. The death of an agent had its line when it happened.
    pub fn resumed(reason: InterruptReason) -> Option<Self> {
        match reason {
            InterruptReason::RestartTimeout | InterruptReason::ShutdownTimeout => Some(Self::ResumedAfterRestart),
            InterruptReason::RestartInterrupted => Some(Self::ResumedAfterInterruption),
            InterruptReason::AgentEnded => None,
        }
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Banner(DrainKind::Restart) => {
                "The gateway is restarting. If your task is not finished in time it is interrupted, and I'll try to resume it afterwards."
            }
            Self::Banner(DrainKind::Shutdown) => {
                "The gateway is shutting down. If your task is not finished in time it is interrupted, and I'll try to resume it when the \
                 gateway is started again."
            }
            Self::KeptWhileDraining(DrainKind::Restart) => {
                "The gateway is restarting. Your message is kept and will be answered after the restart."
            }
            Self::KeptWhileDraining(DrainKind::Shutdown) => {
                "The gateway is shutting down. Your message is kept and will be answered when the gateway is started again."
            }
            Self::KeptWhileHeld(minutes) => {
                let span = if *minutes == 1 { "1 minute".to_owned() } else { format!("{minutes} minutes") };
                return write!(
                    f,
                    "The gateway is drained and starts no new turns. Your message is kept and waits for {span} at most, or until \
                     `outlast gateway drain --off`."
                );
            }
            Self::ResumedAfterRestart => "Resumed after a restart of the gateway.",
            Self::ResumedAfterInterruption => "Resumed after an interruption of the gateway.",
            Self::AgentEndedRetrying => "The agent ended in the middle of its turn. Trying again.",
            Self::Failed(FailureReason::Reported) => "Failed: the agent reported an error.",
            Self::Failed(FailureReason::CancelledItself) => "Failed: the agent cancelled its turn.",
            Self::Failed(FailureReason::TimedOut) => "Failed: the agent was silent for too long and was stopped.",
            Self::Failed(FailureReason::Garbled) => "Failed: the agent violated its protocol and was stopped.",
            Self::Failed(FailureReason::CannotStart) => "Failed: the agent cannot be started.",
            Self::Failed(FailureReason::KilledAtStart) => "Failed: the agent was killed while it started.",
            Self::Failed(FailureReason::AgentEnded) => "Failed: the agent ended again in the middle of this turn.",
            Self::GaveUp => "Given up: this turn was interrupted in each of its three attempts.",
            Self::Suspended => {
                "Suspended: the last 3 attempts did not finish. Write to start a new generation, or use /resume to continue this one."
            }
            Self::StartedAnew(earlier) => {
                return write!(f, "This conversation was suspended, so your message starts a new generation. {}", GoBack(*earlier));
            }
            Self::Reset(ResetReason::Idle, earlier) => {
                return write!(f, "This conversation was idle for too long, so your message starts a new generation. {}", GoBack(*earlier));
            }
            Self::Reset(ResetReason::Daily, earlier) => {
                return write!(f, "Conversations are reset daily, so your message starts a new generation. {}", GoBack(*earlier));
            }
            Self::ResumeExpired(earlier) => {
                let why = "An interrupted turn was too old to be continued, so your message starts a new generation.";
                return write!(f, "{why} {}", GoBack(*earlier));
            }
            Self::TooOldToQuote => {
                "Your earlier message was interrupted too long ago and is not answered. Send it again if you still need it."
            }
            Self::NewConversation => "Started a new generation: the agent forgets what was said.",
            Self::Stopped => "Stopped.",
            Self::WaitingCancelled(1) => "1 message that waited is cancelled.",
            Self::WaitingCancelled(count) => return write!(f, "{count} messages that waited are cancelled."),
            Self::NothingToStop => "Nothing is running.",
            Self::Continued => "Continuing this conversation.",
            Self::Returned(earlier) => return write!(f, "Continuing where generation {earlier} ended."),
            Self::ReturnedLater(earlier, later) => {
                return write!(
                    f,
                    "Continuing generation {earlier}. The agent also knows what was said in generation {later}, which continued it."
                );
            }
            Self::NothingToResume => "Nothing is interrupted or suspended.",
            Self::NoticesObsolete(ObsoleteReason::EarlierGeneration | ObsoleteReason::GenerationEnded, count) => {
                return write!(f, "Recorded {} from processes of an earlier generation; no turn is started.", notices(*count));
            }
            Self::NoticesObsolete(ObsoleteReason::LeasedTooOften, count) => {
                return write!(f, "Recorded {} that could not be processed after several attempts; no turn is started.", notices(*count));
            }
            Self::Waiting(WaitReason::Suspended) => "Suspended. Write to start a new generation, or use /resume to continue this one.",
            Self::Waiting(WaitReason::Age) => "A turn was interrupted long ago. Write, or use /resume to continue it.",
            Self::Waiting(WaitReason::Breaker) => {
                "The gateway was interrupted several times in a row, so it resumes nothing by itself. A message or /resume continues."
            }
            Self::Waiting(WaitReason::Owner) => {
                "The owner of this conversation may no longer speak here, so nothing is started without a message."
            }
            Self::Waiting(WaitReason::Channel) => "The chat is disconnected. Work continues when it is connected again.",
        })
    }
}

/// How a person gets back to a generation that was left without their asking for it.
struct GoBack(u32);

impl fmt::Display for GoBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/resume {} goes back.", self.0)
    }
}

fn notices(count: usize) -> String {
    if count == 1 { "1 notice".to_owned() } else { format!("{count} notices") }
}
