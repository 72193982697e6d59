//! A request is flattened into its message, so the two may not have a field of the same name.

use outlast_core::notice_state::TakerKind;
use outlast_core::{Owner, Route, Time};
use outlast_wire::v1::notice::{BarrierTarget, History, Lent, Push, Replay, Verdict};
use outlast_wire::v1::{Message, Request};

#[test]
fn every_request_about_notices_reads_back_from_its_message() {
    let name = || Some("name".to_owned());
    let event = serde_json::json!({"type": "custom"}).as_object().unwrap().clone();
    let requests = [
        Request::NoticeNext { taker: TakerKind::Gateway, limit: 1, lease_ms: 2, wait_ms: Some(3), asked: false },
        Request::NoticeSettle { ids: vec!["e".into()], lease: name(), verdict: Verdict::Dropped { reason: "r".into() } },
        Request::NoticeFollow { after: Some(1) },
        Request::NoticePost { name: name(), event: event.clone(), route: Route::default() },
        Request::NoticePost { name: None, event, route: Route::default() },
        Request::NoticeHistory(History::default().after(1)),
        Request::NoticeReplay(Replay::From { seq: 1 }),
        Request::NoticeReplay(Replay::Dead { notice: name(), sink: name() }),
        Request::NoticeDead { limit: Some(1) },
        Request::Consumed { process: "p".into(), mark: true },
        Request::Deliveries { sink: "s".into(), limit: 1, lease_ms: 2 },
        Request::Wake { sink: "s".into(), lent: vec![Lent::new(1, "l")] },
        Request::Pushed { sink: "s".into(), seq: 1, lease: "l".into(), how: Push::Delivered },
        Request::Pushed { sink: "s".into(), seq: 1, lease: "l".into(), how: Push::Again { after_ms: 1, reason: "r".into() } },
        Request::Pushed { sink: "s".into(), seq: 1, lease: "l".into(), how: Push::Dead { reason: "r".into() } },
        Request::Pushed { sink: "s".into(), seq: 1, lease: "l".into(), how: Push::Later { after_ms: 1 } },
        Request::Until { until: BarrierTarget::Process { process: "p".into(), or_match: true }, barrier: name(), no_wait: true },
        Request::Until { until: BarrierTarget::Pid { pid: 1 }, barrier: None, no_wait: false },
        Request::Until { until: BarrierTarget::Time { at: Time::from_micros(1) }, barrier: name(), no_wait: false },
        Request::Barriers { clear: true },
    ];
    for request in requests {
        let message =
            Message { id: 7, owner: Owner { session: name(), ..Owner::default() }, relay: false, instance: None, force: false, request };
        let text = serde_json::to_string(&message).unwrap();
        let back: Message = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(serde_json::to_string(&back).unwrap(), text);
    }
}
