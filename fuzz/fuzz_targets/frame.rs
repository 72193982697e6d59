//! Any bytes from a socket are frames or an error, and the result does not depend on the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_wire::frame::{Frame, Splitter};
use outlast_wire::v1::Message;

/// The frames up to the first that makes no sense, and whether there was one.
fn frames(pieces: &[&[u8]]) -> (Vec<String>, bool) {
    let (mut splitter, mut all) = (Splitter::default(), Vec::new());
    for piece in pieces {
        splitter.push(piece);
        loop {
            match splitter.next_frame() {
                Ok(Some(Frame::Json(text))) => {
                    // Understood or not, nothing breaks.
                    let known = serde_json::from_slice::<Message>(&text).is_ok();
                    all.push(format!("{known} {text:?}"));
                }
                Ok(Some(Frame::Raw { of, bytes })) => all.push(format!("{of} {bytes:?}")),
                Ok(None) => break,
                Err(_) => return (all, true),
            }
        }
    }
    (all, false)
}

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let cut = usize::from(cut).min(bytes.len());
    assert_eq!(frames(&[bytes]), frames(&[&bytes[..cut], &bytes[cut..]]));
});
