//! Constants of the contract, in one place.
//!
//! Decision 3: docs/decisions/build.md.

use std::time::Duration;

/// Characters of output in a poll.
pub const POLL_PREVIEW_CHARS: usize = 1_000;
/// Characters of output and of the command in a list entry.
pub const LIST_PREVIEW_CHARS: usize = 200;
/// Characters of output when a wait sees the end.
pub const WAIT_EXIT_CHARS: usize = 2_000;
/// Characters of output when a wait runs out or is interrupted.
pub const WAIT_TIMEOUT_CHARS: usize = 1_000;
/// The most characters of output that a log view shows.
pub const LOG_VIEW_CHARS: usize = 200_000;
/// Lines of a log page if the caller names no number.
pub const LOG_DEFAULT_LINES: u64 = 200;
/// How long a stop waits between TERM and KILL.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(2);
/// The longest wait of the `process` tool.
pub const DEFAULT_WAIT_LIMIT: Duration = Duration::from_secs(180);
/// The longest time for which a call of the `terminal` tool may stay in the foreground.
pub const FOREGROUND_LIMIT: Duration = Duration::from_secs(600);
/// Characters of output in the answer of a foreground `terminal` call: two fifths from its beginning, three fifths from its end.
pub const FOREGROUND_CHARS: usize = 50_000;
/// The most characters in a tool's answer.
pub const RESULT_CHARS: usize = 100_000;
/// How many finished processes the `process` tool lists.
pub const LIST_FINISHED: usize = 64;
/// After this age a running process no longer prevents a reset of its session.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(86_400);
/// Rows and columns of a terminal.
pub const PTY_SIZE: (u16, u16) = (30, 120);
/// How many processes may run in one home.
pub const DEFAULT_MAX_RUNNING: usize = 1_024;
/// How long a process is kept after its end.
pub const DEFAULT_KEEP_FOR: Duration = Duration::from_secs(7 * 86_400);
/// How many bytes a home may hold.
pub const DEFAULT_KEEP_BYTES: u64 = 5 << 30;
/// The first part of a log. It is never dropped.
pub const LOG_HEAD_BYTES: u64 = 1 << 20;
/// The size of a log segment after the head.
pub const LOG_SEGMENT_BYTES: u64 = 4 << 20;
/// How many bytes are kept at the end of a log.
pub const LOG_TAIL_BYTES: u64 = 64 << 20;
/// The size at which the engine's own log is rotated. One older file is kept.
pub const ENGINE_LOG_BYTES: u64 = 1 << 20;
/// How many patterns a process may be watched for.
pub const MAX_PATTERNS: usize = 256;
/// The longest pattern.
pub const MAX_PATTERN_BYTES: usize = 1_024;
/// How many labels a process may have.
pub const MAX_LABELS: usize = 32;
/// The longest key of a label.
pub const MAX_LABEL_KEY_BYTES: usize = 64;
/// The longest value of a label. The path of a file fits.
pub const MAX_LABEL_VALUE_BYTES: usize = 4_096;
/// The longest single argument or `NAME=value` that the kernel accepts, without its NUL.
pub const MAX_ARG_BYTES: usize = 131_071;
/// The most bytes that all arguments and variables may have together.
pub const MAX_ARGS_BYTES: usize = (2 << 20) - (128 << 10);
