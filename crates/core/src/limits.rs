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
/// Characters of output that a log shows at most.
pub const LOG_VIEW_CHARS: usize = 200_000;
/// Lines of a log page unless told.
pub const LOG_DEFAULT_LINES: u64 = 200;
/// How long a stop waits before the hard kill.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(2);
/// How long a wait of the `process` tool may last.
pub const DEFAULT_WAIT_LIMIT: Duration = Duration::from_secs(180);
/// How long a call of the `terminal` tool may ask to stay in the foreground.
pub const FOREGROUND_LIMIT: Duration = Duration::from_secs(600);
/// Characters of output that a foreground call of the `terminal` tool answers with: two fifths of its beginning, three of its end.
pub const FOREGROUND_CHARS: usize = 50_000;
/// Characters of what a tool answers in all.
pub const RESULT_CHARS: usize = 100_000;
/// Finished processes that the `process` tool lists.
pub const LIST_FINISHED: usize = 64;
/// After this age a running process no longer keeps a conversation from being reset.
pub const DEFAULT_MAX_AGE: Duration = Duration::from_secs(86_400);
/// Rows and columns of a terminal.
pub const PTY_SIZE: (u16, u16) = (30, 120);
/// How many may run in one home.
pub const DEFAULT_MAX_RUNNING: usize = 1_024;
/// How long a finished process is kept after its end.
pub const DEFAULT_KEEP_FOR: Duration = Duration::from_secs(7 * 86_400);
/// How much a home may hold.
pub const DEFAULT_KEEP_BYTES: u64 = 5 << 30;
/// The first part of a log, which is never dropped.
pub const LOG_HEAD_BYTES: u64 = 1 << 20;
/// One segment of a log behind its head.
pub const LOG_SEGMENT_BYTES: u64 = 4 << 20;
/// How much of a log's end is kept.
pub const LOG_TAIL_BYTES: u64 = 64 << 20;
/// An engine's own log is set aside once it is longer than this; one older is kept.
pub const ENGINE_LOG_BYTES: u64 = 1 << 20;
/// How many patterns a process may be watched for.
pub const MAX_PATTERNS: usize = 256;
/// The longest of them.
pub const MAX_PATTERN_BYTES: usize = 1_024;
/// How many labels a process may have.
pub const MAX_LABELS: usize = 32;
/// The longest key of a label.
pub const MAX_LABEL_KEY_BYTES: usize = 64;
/// The longest value of a label: the path of a file fits.
pub const MAX_LABEL_VALUE_BYTES: usize = 4_096;
/// The longest single argument or `NAME=value` the kernel takes, its NUL aside.
pub const MAX_ARG_BYTES: usize = 131_071;
/// The most that all arguments and variables may take together.
pub const MAX_ARGS_BYTES: usize = (2 << 20) - (128 << 10);
