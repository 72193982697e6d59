//! Any call of a model, in any profile, is accepted or gets an error as an answer.
#![no_main]

use libfuzzer_sys::fuzz_target;
use outlast_tools::{Host, Profile, Tools, understood};
use serde_json::Value;

fuzz_target!(|text: &str| {
    let Ok(arguments) = serde_json::from_str::<Value>(text) else { return };
    for profile in Profile::ALL {
        let mut host = Host::new(outlast_client::caller([], std::path::Path::new("/work")));
        host.profile = profile;
        for schema in Tools::schemas_of(&host) {
            if let Err(refusal) = understood(schema.name, &arguments, &host) {
                assert!(refusal["error"].is_string(), "{refusal:?}");
            }
        }
    }
});
