//! Stable names of errors. They are part of the interface: never renamed, only added.

/// There is no process of that name.
pub const NOT_FOUND: &str = "not_found";
/// A prefix names more than one process.
pub const AMBIGUOUS_ID: &str = "ambiguous_id";
/// A text cannot name a process.
pub const BAD_ID: &str = "bad_id";
/// The process is over.
pub const ALREADY_EXITED: &str = "already_exited";
/// The process takes no input.
pub const NO_INPUT: &str = "no_input";
/// Input was given at an offset that leaves a hole.
pub const BAD_OFFSET: &str = "bad_offset";
/// The process does not read its input, and there is no more room.
pub const INPUT_FULL: &str = "input_full";
/// It is not known whether input reached the process.
pub const MAYBE_WRITTEN: &str = "maybe_written";
/// Nobody looks at the process.
pub const NO_VIEW: &str = "no_view";
/// What was asked needs an ended process.
pub const STILL_RUNNING: &str = "still_running";
/// The request cannot be run as it is.
pub const BAD_SPEC: &str = "bad_spec";
/// An id was used again for something else.
pub const ID_TAKEN: &str = "id_taken";
/// Too many are running.
pub const TOO_MANY: &str = "too_many_running";
/// The process belongs to another conversation.
pub const NOT_YOURS: &str = "not_yours";
/// A value that had to be removed is needed.
pub const SCRUBBED: &str = "scrubbed";
/// The pid is not alive, or not the one that was meant.
pub const NOT_THAT_PROCESS: &str = "not_that_process";
/// A message was not understood.
pub const BAD_REQUEST: &str = "bad_request";
/// The other side speaks no version we know.
pub const BAD_VERSION: &str = "bad_version";
/// The stop left something alive.
pub const SURVIVORS: &str = "survivors";
/// Ask again.
pub const UNAVAILABLE: &str = "unavailable";
/// The engine's home was removed or replaced. A repeated request is answered by another engine.
pub const HOME_GONE: &str = "home_gone";
/// The engine is about to end, and did nothing: ask again, and another engine answers.
pub const STOPPING: &str = "stopping";
/// The fault is ours, or the machine's.
pub const FAULT: &str = "fault";
/// The caller's words make no sense, and were not sent.
pub const USAGE: &str = "usage";
/// No engine runs, and none was to be started.
pub const NOT_RUNNING: &str = "engine_not_running";
/// The engine's socket cannot be used.
pub const CANNOT_CONNECT: &str = "engine_cannot_connect";
/// No engine could be started.
pub const CANNOT_START: &str = "engine_cannot_start";
/// The system refuses a call that every start needs.
pub const REFUSED_CALL: &str = "refused_call";
/// The other side said what it cannot mean.
pub const PROTOCOL: &str = "protocol";
/// There is no conversation of that key, or no such turn in it.
pub const NO_CONVERSATION: &str = "no_conversation";
/// No gateway runs, and none was to be started.
pub const GATEWAY_NOT_RUNNING: &str = "gateway_not_running";
/// The gateway's socket cannot be used.
pub const GATEWAY_CANNOT_CONNECT: &str = "gateway_cannot_connect";
/// No gateway could be started.
pub const GATEWAY_CANNOT_START: &str = "gateway_cannot_start";
/// A reader of a conversation did not keep up, and events were left out: it follows again behind the last part that it has.
pub const TOO_SLOW: &str = "too_slow";
