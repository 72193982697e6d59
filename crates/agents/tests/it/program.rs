use crate::support::*;
use outlast_agents::{AgentNews, running_agents};
use serde_json::json;

#[tokio::test]
async fn an_agent_of_an_earlier_gateway_is_found_and_the_next_start_stops_it() {
    let world = World::new().await;
    let script = json!({"turns": [[{"text": "begun"}, {"deaf": null}], [{"text": "x"}]]});
    let mut chat = world.start(&script);
    chat.prompt(1, "hello");
    chat.until(|news| matches!(news, AgentNews::Draft(_))).await;
    drop(chat);
    let left = running_agents(&world.client).await.unwrap();
    assert_eq!((left.len(), left[0].key.as_str()), (1, KEY));
    let mut chat = world.start(&script);
    chat.until(|news| matches!(news, AgentNews::Ready { .. })).await;
    let now = running_agents(&world.client).await.unwrap();
    assert_eq!(now.len(), 1);
    assert_ne!(now[0].process, left[0].process);
    chat.stop().await;
}
