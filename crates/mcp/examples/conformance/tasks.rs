//! Tasks that cannot be processes: one asks the client for input while it runs, and one has a request that fails. They are held in memory,
//! since the product does not have such tasks. All other tasks of the suite are processes.

use crate::inputs;
use outlast_client::Time;
use outlast_mcp::Token;
use rmcp::model::{
    CreateTaskResult, DetailedTask, ErrorData, GetTaskResult, InputRequests, InputResponses, JsonObject, Task, TaskPayload, TaskStatus,
};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard};
use std::time::SystemTime;

/// The most tasks that are held. The oldest is forgotten first.
const MAX_TASKS: usize = 256;
const TTL_MS: u64 = 3_600_000;
const POLL_MS: u64 = 100;

#[derive(Debug, Default)]
pub(crate) struct Tasks(Mutex<VecDeque<Held>>);

#[derive(Debug)]
struct Held {
    id: String,
    created: String,
    payload: TaskPayload,
}

impl Tasks {
    /// A task that waits for answers to these requests.
    pub(crate) fn asking(&self, requests: Value) -> Result<CreateTaskResult, ErrorData> {
        self.hold(TaskPayload::InputRequired { input_requests: crate::read::<InputRequests>(requests)? })
    }

    /// A task whose request has failed.
    pub(crate) fn failed(&self) -> Result<CreateTaskResult, ErrorData> {
        let error = object(json!({"code": -32603, "message": "This request fails on purpose."}));
        self.hold(TaskPayload::Failed { error })
    }

    fn hold(&self, payload: TaskPayload) -> Result<CreateTaskResult, ErrorData> {
        let id = Token::draw().map_err(|e| ErrorData::internal_error(format!("no randomness: {e}"), None))?;
        let held = Held { id: id.reveal().to_owned(), created: now(), payload };
        let task = held.task();
        let mut all = self.lock();
        if all.len() == MAX_TASKS {
            all.pop_front();
        }
        all.push_back(held);
        Ok(CreateTaskResult::new(task))
    }

    pub(crate) fn get(&self, id: &str) -> Option<GetTaskResult> {
        let all = self.lock();
        let held = all.iter().find(|held| held.id == id)?;
        Some(GetTaskResult::new(DetailedTask::new(held.task(), held.payload.clone())))
    }

    /// Takes answers. False if there is no such task.
    pub(crate) fn update(&self, id: &str, responses: &InputResponses) -> bool {
        let mut all = self.lock();
        let Some(held) = all.iter_mut().find(|held| held.id == id) else { return false };
        if let TaskPayload::InputRequired { input_requests } = &mut held.payload {
            input_requests.retain(|key, _| inputs::accepted(Some(responses), key, "confirm").is_none());
            if input_requests.is_empty() {
                let result = object(json!({"content": [{"type": "text", "text": "All was confirmed."}], "isError": false}));
                held.payload = TaskPayload::Completed { result };
            }
        }
        true
    }

    /// Ends a task. False if there is no such task.
    pub(crate) fn cancel(&self, id: &str) -> bool {
        let mut all = self.lock();
        let Some(held) = all.iter_mut().find(|held| held.id == id) else { return false };
        if !held.payload.status().is_terminal() {
            held.payload = TaskPayload::Cancelled;
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Held>> {
        self.0.lock().expect("nothing panics while it is held")
    }
}

impl Held {
    fn task(&self) -> Task {
        // The first answer is always "working": the client learns of the failure by asking.
        let status = if self.payload.status() == TaskStatus::Failed { TaskStatus::Working } else { self.payload.status() };
        Task::new(self.id.clone(), status, self.created.clone(), now()).with_ttl_ms(TTL_MS).with_poll_interval_ms(POLL_MS)
    }
}

fn object(value: Value) -> JsonObject {
    value.as_object().cloned().unwrap_or_default()
}

fn now() -> String {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX)).to_string()
}
