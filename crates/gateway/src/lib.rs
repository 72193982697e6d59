//! Conversations that survive restarts. For now the rules alone: no I/O, no clock, no tasks.
//!
//! A **conversation** has a key and generations. A **turn** answers one message or one notice. An **attempt** is one start of a turn. The
//! functions in [`rules`] decide; a coordinator, one task that owns all conversations, commits what they return and then acts.
//!
//! # One event
//!
//! 1. Look up the event's cause in the table `turn`. If it is known, put its row into `known_as`: finished turns are not kept in memory.
//! 2. Gather what the event carries: a new [`TurnId`](rules::conversation::TurnId), whether the agent has the prompt, the facts of a reset.
//! 3. Call [`conversation::apply`](rules::conversation::apply) with a clone. It cannot fail; an event that does not fit changes nothing.
//! 4. Commit the difference between the two conversations as one transaction: the row, and every turn that differs. A turn that is finished
//!    keeps its columns `attempt`, `interrupt_reason` and `interrupted_at`. Parts of a reply belong to the same transaction.
//! 5. Replace the conversation, and call [`forget_finished`](rules::conversation::Conversation::forget_finished). If the commit fails, keep
//!    the old conversation and carry out nothing.
//! 6. Carry out the effects, in their order. A crash may lose each of them; [`Effect`](rules::conversation::Effect) says what repairs it.
//! 7. Ask [`next`](rules::queue::next).
//!
//! Several events may share a commit, if their effects are carried out after it: a notice and its start do, and the marks of all
//! conversations when a drain times out. `Answer` and `Acknowledge` of an event that changed nothing need no commit.
//!
//! # What starts
//!
//! [`next`](rules::queue::next) is asked after each event, when an agent becomes free, when the engine reports notices, when a channel
//! connects or the owner's rights change, and at the time that `WaitUntil` named. `Start` is applied as
//! [`Event::Start`](rules::conversation::Event::Start) and committed before the prompt is sent. For `TakeNotices` each notice is applied,
//! then `next` is asked again, and all of that is one commit. `WaitForPerson` is shown once as
//! [`Line::Waiting`](rules::text::Line::Waiting); it does not keep the gateway alive, and neither does `Nothing`. `WaitUntil` becomes a
//! barrier in the engine when the gateway exits.
//!
//! # What the coordinator keeps in memory
//!
//! - **Whether the agent has the prompt.** From the moment in which the first byte of a prompt may have been written, it has. If in doubt,
//!   it has: a repeat with a note is better than one without.
//! - **Whether the agent is free.** After `Cancel` it is not, until it has answered or was stopped (10 s). A turn that goes back to the
//!   queue without a prompt uses the same attempt number again, so the coordinator drops what a driver reports about an attempt after
//!   that.
//! - **`has_person_written`**, in the conversation itself: false when it is loaded. A message that is sent again does not set it, because a
//!   client repeats it without a person.
//!
//! # Start and stop
//!
//! A start applies `GatewayStarted` to every conversation with a running turn, in one commit with the row in `run`, and judges the
//! [`breaker`](rules::breaker) from the last rows. A drain shows [`Line::Banner`](rules::text::Line::Banner) to chats with a running turn,
//! sets `is_draining`, and at its limit applies `DrainTimedOut` to all conversations in one commit; a `Completed` that arrives afterwards
//! for the same attempt still counts.

#![forbid(unsafe_code)]

pub mod rules;
