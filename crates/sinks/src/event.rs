//! Notices as JSON, as hooks and receivers get them.

use outlast_client::{Delivery, Notice, Time};
use serde::Serialize;

/// One notice, for a hook.
#[derive(Serialize)]
struct NoticeInput<'a> {
    event: &'a Notice,
    text: &'a str,
    /// Counted from 1.
    attempt: u32,
    /// Whether the hook may have been run for it before.
    repeat: bool,
}

impl<'a> NoticeInput<'a> {
    fn new(delivery: &'a Delivery) -> Self {
        Self {
            event: &delivery.event,
            text: &delivery.text,
            attempt: delivery.attempts.saturating_add(1),
            // An earlier run may have done its work and died before it reported.
            repeat: delivery.attempts > 0 || delivery.event.repeat,
        }
    }
}

/// One line for the input of a hook that gets one notice at a time.
pub(crate) fn one(delivery: &Delivery) -> Vec<u8> {
    line(&NoticeInput::new(delivery))
}

/// One line for the input of a hook that gathers.
pub(crate) fn many(deliveries: &[Delivery]) -> Vec<u8> {
    #[derive(Serialize)]
    struct Many<'a> {
        events: Vec<NoticeInput<'a>>,
    }
    line(&Many { events: deliveries.iter().map(NoticeInput::new).collect() })
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = json(value);
    line.push(b'\n');
    line
}

/// The body of a webhook. It is the same for each attempt, as its id is.
pub(crate) fn body(delivery: &Delivery) -> Vec<u8> {
    #[derive(Serialize)]
    struct Body<'a> {
        r#type: String,
        timestamp: Time,
        data: Data<'a>,
    }
    #[derive(Serialize)]
    struct Data<'a> {
        event: &'a Notice,
        text: &'a str,
    }
    json(&Body {
        r#type: format!("outlast.{}", delivery.event.kind()),
        timestamp: delivery.event.created_at,
        data: Data { event: &delivery.event, text: &delivery.text },
    })
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("a notice has no map with keys that are no strings")
}
