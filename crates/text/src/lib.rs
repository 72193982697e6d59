//! What readers and models see: decoding, stripping, redaction, cutting.
//!
//! The log holds what a command wrote, byte for byte. Nobody wants to read that: it has colour
//! codes, a progress bar drawn two hundred times, a character that two reads tore apart, and now
//! and then a password. This crate makes text of it, in one fixed order:
//!
//! ```text
//! bytes ─ decode ─ collapse ─ strip ─ redact ─ cut ─► View
//! ```
//!
//! The order matters. A cut before the redaction can remove the part of a token that gives it
//! away, and a cut before the stripping can show half an escape sequence. [`render`] does all of
//! it, so that no caller has to remember. The steps are public for those who follow a stream:
//! [`Decoder`] and [`Stripper`] take it in pieces and hold back only what they cannot judge yet.
//!
//! Such a view inside a notice is in other hands than ours: [`announce()`] makes the notice's text, and sees that nothing in it
//! passes for another notice.
//!
//! A model pays for what it reads: [`brief()`] takes what was rendered and keeps the lines that matter, within a number of tokens.

mod announce;
mod brief;
mod collapse;
mod colours;
mod cut;
mod decode;
mod escape;
mod lines;
mod noise;
mod redact;
mod strip;
mod tokens;
mod view;
pub mod watch;
mod width;

pub use announce::{announce, announce_all, announce_header};
pub use brief::{Brief, DEFAULT_TOKENS, Hole, LeftOut, Log, SMALL_TOKENS, Why, brief};
pub use collapse::collapse;
pub use colours::{Coloured, RESET};
pub use cut::{Cut, CutAt, Piece, head_chars, tail_chars};
pub use decode::{Decoder, decode_lossy};
pub use lines::{Line, Lines, count_lines, lines, lines_from};
pub use noise::drop_shell_noise;
pub use redact::{Redactor, secret_name};
pub use strip::{Stripper, strip};
pub use tokens::count_tokens;
pub use view::{DEFAULT_VIEW, FINAL_OUTPUT, LIST_PREVIEW, Options, POLL_PREVIEW, View, render, window_bytes};
