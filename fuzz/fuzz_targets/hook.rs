//! Any input of a hook is parsed, or refused with an error that does not quote it. A parsed input has an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_tools::HookInput;

fuzz_target!(|input: &[u8]| {
    match HookInput::parse(input) {
        Ok(HookInput::Called(called)) => {
            let _where_it_can = called.can_be_told();
            assert!(called.answer("text").is_object());
        }
        Ok(HookInput::Told(told)) => {
            assert!(!told.notices.is_empty() && !told.text().is_empty());
            let first = told.ids().next().map(str::to_owned);
            assert!(told.without(|id| Some(id) == first.as_deref()).ids().all(|id| Some(id) != first.as_deref()));
        }
        Ok(_) => {}
        Err(why) => assert!(!why.is_empty() && why.len() < 400),
    }
});
