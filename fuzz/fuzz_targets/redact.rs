//! Masking what is masked changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_text::Redactor;
use std::borrow::Cow;

fuzz_target!(|input: (&str, &str)| {
    let (command, text) = input;
    let redactor = Redactor::new(true);
    let once = redactor.command(text);
    assert_eq!(redactor.command(&once), once);
    let once = redactor.full(text);
    assert_eq!(redactor.full(&once), once);
    let once = redactor.command_line(text);
    assert_eq!(redactor.command_line(&once), once);
    let arguments: Vec<Cow<str>> = text.split('\0').map(Cow::Borrowed).collect();
    let once = redactor.arguments(&arguments);
    assert_eq!(redactor.arguments(&once), once);
    redactor.output(command, text);
});
