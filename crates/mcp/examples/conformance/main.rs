//! The server that the official conformance suite runs against: ours, with the fixtures that the suite calls by name.
//!
//! `conformance PROGRAM` serves the home that `OUTLAST_HOME` names, starts engines with that `outlast`, and prints where it listens. All but
//! the fixtures is the product: transport, eras, tasks over processes, resources, owners. It has no token, because the suite cannot send one.

// Sampling, roots and logging are deprecated, and scored in the old era.
#![allow(deprecated)]

mod inputs;
mod prompts;
mod resources;
mod tasks;
mod tools;

use outlast_client::{Connect, Start, caller};
use outlast_mcp::{Http, Server, Settings};
use outlast_tools::Host;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult, ErrorData, GetPromptRequestParams,
    GetPromptResponse, GetTaskParams, GetTaskResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult, ListToolsResult,
    LoggingLevel, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ServerConfig,
    SetLevelRequestMethod, SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{RequestContext, RoleServer, SubscriptionContext};
use rmcp::{ServerHandler, model};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::error::Error;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use tokio::sync::broadcast;

/// How many changes may wait for a listener.
const CHANGES: usize = 16;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let program = PathBuf::from(std::env::args_os().nth(1).ok_or("usage: conformance PROGRAM, with OUTLAST_HOME set")?);
    let home = PathBuf::from(std::env::var_os("OUTLAST_HOME").ok_or("OUTLAST_HOME is not set")?);
    let dir = std::env::current_dir()?;
    let mut connect = Connect::to(&home);
    connect.start = Start::OnDemand { program };
    let mut settings = Settings::new(connect, Host::new(caller(std::env::vars_os(), &dir)), dir);
    settings.shared = true;
    let ours = Server::new(settings);
    let shared = Arc::new(Shared::new());
    let make = move || Fixtures { ours: ours.for_another(), shared: shared.clone(), level: Arc::default(), changes: Arc::default() };
    let http = Http::listen_for("127.0.0.1:0".parse()?, make, None).await?;
    println!("{}", http.url());
    http.serve().await;
    Ok(())
}

/// State that all connections share.
struct Shared {
    states: inputs::States,
    tasks: tasks::Tasks,
    changes: broadcast::Sender<Change>,
}

impl Shared {
    fn new() -> Self {
        Self { states: inputs::States::default(), tasks: tasks::Tasks::default(), changes: broadcast::channel(CHANGES).0 }
    }
}

/// What a fixture pretends to have changed.
#[derive(Debug, Clone, Copy)]
enum Change {
    Tools,
    Prompts,
}

/// Our server, and the fixtures.
#[derive(Clone)]
struct Fixtures {
    ours: Server,
    shared: Arc<Shared>,
    /// The log level that a client of the old era asked for.
    level: Arc<Mutex<Option<LoggingLevel>>>,
    /// Subscribed before a subscription is acknowledged, so that a change right after it is not missed.
    changes: Arc<Mutex<Option<broadcast::Receiver<Change>>>>,
}

/// A value of the protocol, from its JSON.
fn read<T: DeserializeOwned>(value: Value) -> Result<T, ErrorData> {
    serde_json::from_value(value).map_err(|e| ErrorData::internal_error(format!("a fixture is not what the protocol has: {e}"), None))
}

/// Whether a request is of the new era.
fn is_new(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

impl ServerHandler for Fixtures {
    fn get_info(&self) -> ServerConfig {
        let mut info = self.ours.get_info();
        let able = &mut info.capabilities;
        able.logging = Some(model::JsonObject::new());
        able.completions = Some(model::JsonObject::new());
        able.prompts = serde_json::from_value(json!({"listChanged": true})).ok();
        able.tools = serde_json::from_value(json!({"listChanged": true})).ok();
        info
    }

    async fn set_level(&self, request: SetLevelRequestParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        if is_new(&context) {
            return Err(ErrorData::method_not_found::<SetLevelRequestMethod>());
        }
        *self.level.lock().expect("nothing panics while it is held") = Some(request.level);
        Ok(())
    }

    async fn complete(&self, request: CompleteRequestParams, _context: RequestContext<RoleServer>) -> Result<CompleteResult, ErrorData> {
        let begun = &request.argument.value;
        let known = ["paris", "park", "party", "test"];
        let values: Vec<&str> = known.into_iter().filter(|value| value.starts_with(begun.as_str())).collect();
        read(json!({"resultType": "complete", "completion": {"total": values.len(), "hasMore": false, "values": values}}))
    }

    async fn list_prompts(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        prompts::list()
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list().into_iter().find(|tool| tool.name == name).or_else(|| self.ours.get_tool(name))
    }

    async fn list_tools(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let mut all = self.ours.list_tools(page, context).await?;
        all.tools.splice(0..0, tools::list());
        Ok(all)
    }

    async fn call_tool(&self, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        tools::call(self, request, context).await
    }

    async fn list_resources(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let mut all = self.ours.list_resources(page, context).await?;
        all.resources.splice(0..0, resources::list()?);
        Ok(all)
    }

    async fn list_resource_templates(
        &self,
        page: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let mut all = self.ours.list_resource_templates(page, context).await?;
        all.resource_templates.splice(0..0, resources::templates()?);
        Ok(all)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        match resources::read(&request.uri)? {
            Some(found) => Ok(found.into()),
            None => self.ours.read_resource(request, context).await,
        }
    }

    async fn subscribe(&self, request: SubscribeRequestParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        // It never changes.
        if request.uri == resources::WATCHED { Ok(()) } else { self.ours.subscribe(request, context).await }
    }

    async fn unsubscribe(&self, request: UnsubscribeRequestParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.ours.unsubscribe(request, context).await
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        *self.changes.lock().expect("nothing panics while it is held") = Some(self.shared.changes.subscribe());
        let mut accepted = self.ours.accepted_subscription_filter(requested)?;
        accepted.tools_list_changed = Some(true);
        accepted.prompts_list_changed = Some(true);
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let begun = self.changes.lock().expect("nothing panics while it is held").take();
        let mut changes = begun.unwrap_or_else(|| self.shared.changes.subscribe());
        let sink = context.sink().clone();
        let tell = async {
            while let Ok(change) = changes.recv().await {
                // The library refuses a notification that the client did not ask for.
                let _unwanted = match change {
                    Change::Tools => sink.notify_tool_list_changed().await,
                    Change::Prompts => sink.notify_prompt_list_changed().await,
                };
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            done = self.ours.listen(context) => done,
            () = tell => Ok(()),
        }
    }

    async fn get_task(&self, request: GetTaskParams, context: RequestContext<RoleServer>) -> Result<GetTaskResult, ErrorData> {
        match self.shared.tasks.get(&request.task_id) {
            Some(held) => Ok(held),
            None => self.ours.get_task(request, context).await,
        }
    }

    async fn update_task(&self, request: UpdateTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        match self.shared.tasks.update(&request.task_id, &request.input_responses) {
            true => Ok(()),
            false => self.ours.update_task(request, context).await,
        }
    }

    async fn cancel_task(&self, request: CancelTaskParams, context: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        match self.shared.tasks.cancel(&request.task_id) {
            true => Ok(()),
            false => self.ours.cancel_task(request, context).await,
        }
    }
}
