//! Any message of a terminal or a gateway about conversations is parsed or refused, and a parsed one can be written again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_wire::v1::chat::{ChatEvent, ChatMessage, ChatReply, Shown};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(message) = serde_json::from_slice::<ChatMessage>(bytes) {
        let text = serde_json::to_vec(&message).expect("it serialises");
        let again: ChatMessage = serde_json::from_slice(&text).expect("what was understood is understood");
        assert_eq!(again.request, message.request);
    }
    if let Ok(ChatReply { answer: Some(shown), .. }) = serde_json::from_slice::<ChatReply<Shown>>(bytes) {
        let text = serde_json::to_vec(&shown).expect("it serialises");
        assert_eq!(serde_json::from_slice::<Shown>(&text).expect("what was understood is understood"), shown);
    }
    if let Ok(ChatReply { event: Some(ChatEvent::Part { part }), .. }) = serde_json::from_slice::<ChatReply<serde_json::Value>>(bytes) {
        // Understood or not, nothing breaks.
        let _content = part.content();
    }
});
