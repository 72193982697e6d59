//! Any line of an agent's is read without a panic: what is no JSON object is nonsense, and what is shown to people is on one short line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_agents::{Incoming, parse_line};

fn is_one_short_line(text: &str) -> bool {
    text.chars().count() <= 200 && !text.contains(char::is_control)
}

fuzz_target!(|line: &[u8]| {
    let is_object = serde_json::from_slice::<serde_json::Value>(line).is_ok_and(|value| value.is_object());
    match parse_line(line) {
        Ok(Incoming::Blank) => assert!(line.iter().all(u8::is_ascii_whitespace)),
        Ok(Incoming::Tool { tool, .. }) => assert!(is_one_short_line(&tool.id) && tool.title.as_deref().is_none_or(is_one_short_line)),
        Ok(Incoming::Permission { title, options, .. }) => {
            assert!(is_one_short_line(&title) && options.iter().all(|option| is_one_short_line(&option.name)));
        }
        Ok(_) => assert!(is_object),
        Err(nonsense) => assert!(is_one_short_line(&nonsense.start)),
    }
});
