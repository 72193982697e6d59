//! Stable error codes. They are part of the interface: a code may be added, never renamed.

/// No process has this name.
pub const NOT_FOUND: &str = "not_found";
/// A prefix names more than one process.
pub const AMBIGUOUS_ID: &str = "ambiguous_id";
/// A text cannot name a process.
pub const BAD_ID: &str = "bad_id";
/// The process has ended.
pub const ALREADY_EXITED: &str = "already_exited";
/// The process has no open input.
pub const NO_INPUT: &str = "no_input";
/// Input was sent at an offset that would leave a hole.
pub const BAD_OFFSET: &str = "bad_offset";
/// The process does not read its input, and the buffer is full.
pub const INPUT_FULL: &str = "input_full";
/// It is unknown whether the input reached the process.
pub const MAYBE_WRITTEN: &str = "maybe_written";
/// No terminal is attached to the process.
pub const NO_VIEW: &str = "no_view";
/// The request needs a process that has ended.
pub const STILL_RUNNING: &str = "still_running";
/// The spec cannot be run.
pub const BAD_SPEC: &str = "bad_spec";
/// The command could not be started.
pub const FAILED_START: &str = "failed_start";
/// The id belongs to a process with another spec.
pub const ID_TAKEN: &str = "id_taken";
/// The home has as many running processes as it allows.
pub const TOO_MANY: &str = "too_many_running";
/// The process belongs to another session.
pub const NOT_YOURS: &str = "not_yours";
/// The process belongs to another conversation of the session, which is still open.
pub const OTHER_CONVERSATION: &str = "other_conversation";
/// A value is needed that was not kept, because it was secret.
pub const SCRUBBED: &str = "scrubbed";
/// The pid is dead, or belongs to another process than the expected one.
pub const NOT_THAT_PROCESS: &str = "not_that_process";
/// The message was not understood.
pub const BAD_REQUEST: &str = "bad_request";
/// The peer speaks no version that this build knows.
pub const BAD_VERSION: &str = "bad_version";
/// Some processes survived the stop.
pub const SURVIVORS: &str = "survivors";
/// Try again later.
pub const UNAVAILABLE: &str = "unavailable";
/// The sandbox of the process cannot be reached now.
pub const UNREACHABLE: &str = "unreachable";
/// No environment has this name, or its settings are not valid.
pub const BAD_ENVIRONMENT: &str = "bad_environment";
/// The engine's home was removed or replaced. If the request is repeated, another engine answers it.
pub const HOME_GONE: &str = "home_gone";
/// The engine is shutting down and did nothing. If the request is repeated, another engine answers it.
pub const STOPPING: &str = "stopping";
/// A bug in Outlast, or an error of the machine.
pub const FAULT: &str = "fault";
/// The caller's arguments are invalid; nothing was sent.
pub const USAGE: &str = "usage";
/// No engine runs, and the client must not start one.
pub const NOT_RUNNING: &str = "engine_not_running";
/// The engine's socket cannot be used.
pub const CANNOT_CONNECT: &str = "engine_cannot_connect";
/// No engine could be started.
pub const CANNOT_START: &str = "engine_cannot_start";
/// The system refuses a call that every start of a process needs.
pub const REFUSED_CALL: &str = "refused_call";
/// The peer violated the protocol.
pub const PROTOCOL: &str = "protocol";
/// No session has this key, or the session has no such turn.
pub const NO_CONVERSATION: &str = "no_conversation";
/// No gateway runs, and the client must not start one.
pub const GATEWAY_NOT_RUNNING: &str = "gateway_not_running";
/// The gateway's socket cannot be used.
pub const GATEWAY_CANNOT_CONNECT: &str = "gateway_cannot_connect";
/// No gateway could be started.
pub const GATEWAY_CANNOT_START: &str = "gateway_cannot_start";
/// A client that follows a session was too slow, and events were dropped. It follows again after the last part that it received.
pub const TOO_SLOW: &str = "too_slow";
