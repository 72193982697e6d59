//! What can happen in a history, drawn at random. Plain numbers, so that a failure shrinks to something readable.

use proptest::prelude::*;

#[derive(Debug, Clone)]
pub(super) enum Act {
    /// A person writes. `again`: one of the earlier messages.
    Message {
        again: Option<u8>,
        has_prompt: bool,
        draining: u8,
        reset: ResetDraw,
        window: u8,
    },
    /// The engine leases a notice. `again`: one of the earlier ones. `generation`: 0 to 3 this one, 4 another, 5 none.
    Notice {
        again: Option<u8>,
        generation: u8,
        leases: u8,
    },
    /// `next` is asked, and what it says is started.
    Next(GateDraw),
    /// `next` is asked with all gates open.
    NextOpen,
    /// The driver reports about the running turn (`of` 0 to 5) or about any row.
    Agent {
        of: u8,
        attempt_off: i8,
        report: u8,
    },
    Stop,
    New,
    Resume,
    /// `/resume N`, N being any number.
    Return(u8),
    DrainTimedOut {
        is_restart: bool,
        has_prompt: bool,
    },
    GatewayStarted {
        is_held: bool,
    },
    /// Time passes.
    Pass(u8),
}

/// Stands for processes of unknown age.
pub(super) const UNKNOWN_AGE: u8 = u8::MAX;

#[derive(Debug, Clone)]
pub(super) struct ResetDraw {
    pub(super) mode: u8,
    pub(super) hour: u8,
    pub(super) offset_minutes: i32,
    pub(super) youngest_hours: Option<u8>,
    pub(super) is_any_age: bool,
    pub(super) has_history: bool,
    pub(super) should_notify: bool,
}

#[derive(Debug, Clone)]
pub(super) struct GateDraw {
    pub(super) is_draining: bool,
    pub(super) is_agent_free: bool,
    pub(super) has_notices_due: bool,
    pub(super) is_breaker_open: bool,
    pub(super) owner: u8,
    pub(super) is_connected: bool,
    pub(super) window: u8,
    /// How many starts, and how many seconds ago.
    pub(super) starts: Vec<(u8, i32)>,
    /// Age in seconds; `None` inside: unknown.
    pub(super) tail: Option<Option<i32>>,
}

pub(super) fn act() -> impl Strategy<Value = Act> {
    let any_bool = any::<bool>;
    let mostly = || proptest::bool::weighted(0.85);
    let again = || prop_oneof![4 => Just(None), 1 => any::<u8>().prop_map(Some)];
    let message = (again(), mostly(), 0..8_u8, reset(), 0..6_u8).prop_map(|(again, has_prompt, draining, reset, window)| Act::Message {
        again,
        has_prompt,
        draining,
        reset,
        window,
    });
    let notice = (again(), 0..6_u8, 1..7_u8).prop_map(|(again, generation, leases)| Act::Notice { again, generation, leases });
    let agent = (0..8_u8, prop_oneof![6 => Just(0_i8), 1 => Just(-1), 1 => Just(1)], 0..10_u8)
        .prop_map(|(of, attempt_off, report)| Act::Agent { of, attempt_off, report });
    prop_oneof![
        6 => message,
        4 => notice,
        8 => Just(Act::NextOpen),
        5 => gates().prop_map(Act::Next),
        6 => agent,
        1 => Just(Act::Stop),
        1 => Just(Act::New),
        1 => Just(Act::Resume),
        1 => (1..4_u8).prop_map(Act::Return),
        3 => (any_bool(), mostly()).prop_map(|(is_restart, has_prompt)| Act::DrainTimedOut { is_restart, has_prompt }),
        3 => proptest::bool::weighted(0.2).prop_map(|is_held| Act::GatewayStarted { is_held }),
        3 => (0..9_u8).prop_map(Act::Pass),
    ]
}

fn reset() -> impl Strategy<Value = ResetDraw> {
    let ages = prop_oneof![Just(1_u8), Just(23), Just(24), Just(25), Just(UNKNOWN_AGE)];
    let youngest = prop_oneof![3 => Just(None), 1 => ages.prop_map(Some)];
    (0..4_u8, 0..24_u8, -840..840_i32, youngest, any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(mode, hour, offset_minutes, youngest_hours, is_any_age, has_history, should_notify)| ResetDraw {
            mode,
            hour,
            offset_minutes,
            youngest_hours,
            is_any_age,
            has_history,
            should_notify,
        },
    )
}

fn gates() -> impl Strategy<Value = GateDraw> {
    let mostly = || proptest::bool::weighted(0.85);
    let rarely = || proptest::bool::weighted(0.2);
    let ages = prop_oneof![Just(-5), Just(0), Just(1), Just(59), Just(60), Just(61), Just(86_399), Just(86_400), 0..90_000];
    let counts = prop_oneof![4 => 0..7_u8, 1 => 195..202_u8];
    let starts = prop_oneof![2 => Just(Vec::new()), 1 => proptest::collection::vec((counts, ages), 0..4)];
    let tail = proptest::option::of(proptest::option::of(prop_oneof![Just(0), Just(3600), Just(3601), -10..8000]));
    (rarely(), mostly(), any::<bool>(), rarely(), 0..6_u8, mostly(), 0..6_u8, starts, tail).prop_map(
        |(is_draining, is_agent_free, has_notices_due, is_breaker_open, owner, is_connected, window, starts, tail)| GateDraw {
            is_draining,
            is_agent_free,
            has_notices_due,
            is_breaker_open,
            owner,
            is_connected,
            window,
            starts,
            tail,
        },
    )
}
