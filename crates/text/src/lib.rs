//! What readers and models see: decoding, stripping, redaction, cutting.
//!
//! The log holds what a command wrote, byte for byte: with colour codes, a progress bar drawn two hundred times, a character that two reads
//! tore apart, and sometimes a password. This crate makes readable text from it, in one fixed order:
//!
//! ```text
//! bytes ─ decode ─ collapse ─ strip ─ redact ─ cut ─► View
//! ```
//!
//! The order matters. A cut before the redaction can remove the part of a token by which it is recognized, and a cut before the stripping
//! can show half an escape sequence. [`render`] does all steps in order. The steps are public for readers that follow a stream:
//! [`Decoder`] and [`Stripper`] take it in pieces, and hold back only the end that may still change.
//!
//! [`announce()`] makes the text of a notice, and quotes output so that no line of it looks like another notice.
//!
//! A model pays for what it reads: [`brief()`] keeps the lines of a rendered text that matter, within a number of tokens.

mod announce;
mod bash_startup;
mod brief;
mod collapse;
mod colours;
mod cut;
mod decode;
mod escape;
mod lines;
mod redact;
mod strip;
mod tokens;
mod view;
pub mod watch;
mod width;

pub use announce::{announce, announce_all, announce_earlier, announce_header};
pub use bash_startup::drop_shell_noise;
pub use brief::{Brief, DEFAULT_TOKENS, Hole, LeftOut, Log, SMALL_TOKENS, Why, brief};
pub use collapse::collapse;
pub use colours::{Coloured, RESET};
pub use cut::{Cut, CutAt, Piece, head_chars, tail_chars};
pub use decode::{Decoder, decode_lossy};
pub use lines::{Line, Lines, count_lines, lines, lines_from};
pub use redact::{Redactor, secret_name};
pub use strip::{Stripper, strip};
pub use tokens::count_tokens;
pub use view::{DEFAULT_VIEW, FINAL_OUTPUT, LIST_PREVIEW, Options, POLL_PREVIEW, View, render, window_bytes};
