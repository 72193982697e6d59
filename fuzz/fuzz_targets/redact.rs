//! Masking what is masked changes nothing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_text::Redactor;

fuzz_target!(|input: (&str, &str)| {
    let (command, text) = input;
    let redactor = Redactor::new(true);
    let once = redactor.command(text);
    assert_eq!(redactor.command(&once), once);
    let once = redactor.full(text);
    assert_eq!(redactor.full(&once), once);
    let once = redactor.command_line(text);
    assert_eq!(redactor.command_line(&once), once);
    redactor.output(command, text);
});
