//! Tools that the suite calls by name.

use crate::inputs::{accepted, ask, elicit, roots, sample};
use crate::resources::PNG;
use crate::{Change, Fixtures, is_new, read};
use rmcp::ServerHandler as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientCapabilities, ClientResult, CreateMessageRequestParams, ElicitRequest,
    ElicitRequestParams, ErrorData, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam, ServerRequest, Tool,
};
use rmcp::service::{RequestContext, RoleServer};
use serde_json::{Value, json};
use std::time::Duration;

/// A WAV file without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
/// The time between two progress reports. The suite asks for it.
const A_WHILE: Duration = Duration::from_millis(50);
/// How long the process behind a task runs: longer than the answer about its start takes.
const A_SECOND: &str = "1";

/// All tools of the suite.
pub(crate) fn list() -> Vec<Tool> {
    let none = || json!({});
    let text = |what: &str| json!({"type": "string", "description": what});
    let all = [
        ("test_simple_text", "Answers with a text", none()),
        ("test_image_content", "Answers with an image", none()),
        ("test_audio_content", "Answers with a sound", none()),
        ("test_embedded_resource", "Answers with a resource", none()),
        ("test_multiple_content_types", "Answers with several things", none()),
        ("test_tool_with_logging", "Logs while it runs", none()),
        ("test_logging_tool", "Logs if it was asked to", none()),
        ("test_error_handling", "Goes wrong", none()),
        ("test_tool_with_progress", "Says how far it is", none()),
        ("test_sampling", "Asks the client's model", json!({"prompt": text("What to ask")})),
        ("test_elicitation", "Asks the client's user", json!({"message": text("What to ask")})),
        ("test_elicitation_sep1034_defaults", "Asks the user, with answers filled in", none()),
        ("test_elicitation_sep1330_enums", "Asks the user to choose", none()),
        ("test_reconnection", "Answers after a while", none()),
        ("test_missing_capability", "Needs a client with a model", none()),
        ("test_streaming_elicitation", "Asks before it answers", none()),
        ("test_trigger_tool_change", "Says that the tools have changed", none()),
        ("test_trigger_prompt_change", "Says that the prompts have changed", none()),
        ("test_input_required_result_elicitation", "Asks for a name", none()),
        ("test_input_required_result_sampling", "Asks for a capital", none()),
        ("test_input_required_result_list_roots", "Asks for directories", none()),
        ("test_input_required_result_request_state", "Asks, and remembers", none()),
        ("test_input_required_result_multiple_inputs", "Asks for three things at once", none()),
        ("test_input_required_result_multi_round", "Asks twice", none()),
        ("test_input_required_result_tampered_state", "Asks, and checks what comes back", none()),
        ("test_input_required_result_capabilities", "Asks what the client can answer", none()),
        ("test_headers", "Takes an argument that a header repeats", json!({"region": {"type": "string", "x-mcp-header": "Region"}})),
        ("greet", "Greets at once", json!({"name": text("Whom")})),
        ("slow_compute", "A process that sleeps", json!({"seconds": {"type": "number"}, "label": text("What it prints")})),
        ("failing_job", "A process that fails, as a task", none()),
        ("protocol_error_job", "A task whose request fails", none()),
        ("confirm_delete", "A task that asks once", json!({"filename": text("What to delete")})),
        ("multi_input", "A task that asks for two things", none()),
        ("test_tool_with_task", "Asks for a name, and is a task then", none()),
    ];
    let plain = all.map(
        |(name, what, properties)| json!({"name": name, "description": what, "inputSchema": {"type": "object", "properties": properties}}),
    );
    plain.into_iter().chain([rich()]).filter_map(|tool| serde_json::from_value(tool).ok()).collect()
}

/// A tool whose schema uses every feature of the dialect.
fn rich() -> Value {
    json!({"name": "json_schema_2020_12_tool", "description": "Tool with JSON Schema 2020-12 features", "inputSchema": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    }})
}

type Answered = Result<CallToolResponse, ErrorData>;

/// Calls a tool of the suite, or one of the product.
pub(crate) async fn call(fixtures: &Fixtures, request: CallToolRequestParams, context: RequestContext<RoleServer>) -> Answered {
    let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default();
    let image = json!({"type": "image", "data": PNG, "mimeType": "image/png"});
    match request.name.as_ref() {
        "test_simple_text" => text("This is a simple text response for testing."),
        "test_image_content" => content(json!([image])),
        "test_audio_content" => content(json!([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}])),
        "test_embedded_resource" => {
            let inner =
                json!({"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is an embedded resource content."});
            content(json!([{"type": "resource", "resource": inner}]))
        }
        "test_multiple_content_types" => {
            let inner =
                json!({"uri": "test://mixed-content-resource", "mimeType": "application/json", "text": r#"{"test":"data","value":123}"#});
            content(json!([{"type": "text", "text": "Multiple content types test:"}, image, {"type": "resource", "resource": inner}]))
        }
        "test_tool_with_logging" | "test_logging_tool" => logging(fixtures, &context).await,
        "test_error_handling" => {
            let said = [json!({"type": "text", "text": "This tool intentionally returns an error for testing"})];
            Ok(read::<CallToolResult>(json!({"resultType": "complete", "isError": true, "content": said}))?.into())
        }
        "test_tool_with_progress" => progress(&context).await,
        "test_sampling" => sampling(argument("prompt"), &context).await,
        "test_elicitation" => {
            let field = |what: &str| json!({"type": "string", "description": what});
            let properties = json!({"username": field("User's response"), "email": field("User's email address")});
            elicitation(argument("message"), properties, json!(["username", "email"]), &context).await
        }
        "test_elicitation_sep1034_defaults" => elicitation("Is that so?", defaults(), json!([]), &context).await,
        "test_elicitation_sep1330_enums" => elicitation("Which of these?", choices(), json!([]), &context).await,
        "test_reconnection" => {
            tokio::time::sleep(A_WHILE).await;
            text("It was not interrupted.")
        }
        "test_missing_capability" => match context.client_capabilities().and_then(|able| able.sampling) {
            Some(_) => text("The client has a model."),
            None => Err(ErrorData::missing_required_client_capability(ClientCapabilities::builder().enable_sampling().build())),
        },
        "test_trigger_tool_change" | "test_trigger_prompt_change" => {
            let change = if request.name == "test_trigger_tool_change" { Change::Tools } else { Change::Prompts };
            // It fails if no client listens.
            let _no_listener = fixtures.shared.changes.send(change);
            text("It was said that they have changed.")
        }
        "test_headers" => text(argument("region")),
        "greet" => text(&format!("Hello, {}!", argument("name"))),
        "json_schema_2020_12_tool" => text("It was called."),
        name if name.starts_with("test_input_required_result_") || name == "test_streaming_elicitation" => {
            asking(fixtures, &request, &context)
        }
        "slow_compute" | "failing_job" | "protocol_error_job" | "confirm_delete" | "multi_input" | "test_tool_with_task" => {
            task(fixtures, &request, context).await
        }
        _ => fixtures.ours.call_tool(request, context).await,
    }
}

fn content(content: Value) -> Answered {
    Ok(read::<CallToolResult>(json!({"resultType": "complete", "content": content}))?.into())
}

fn text(text: &str) -> Answered {
    content(json!([{"type": "text", "text": text}]))
}

/// Logs three lines, for a client that wants to read them.
async fn logging(fixtures: &Fixtures, context: &RequestContext<RoleServer>) -> Answered {
    let wanted = match is_new(context) {
        true => context.meta.log_level().is_some(),
        // Without a level, everything is logged.
        false => fixtures
            .level
            .lock()
            .expect("nothing panics while it is held")
            .as_ref()
            .is_none_or(|level| matches!(level, LoggingLevel::Debug | LoggingLevel::Info)),
    };
    for line in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
        if wanted {
            let message = LoggingMessageNotificationParam::new(LoggingLevel::Info, json!(line));
            context.peer.notify_logging_message(message).await.map_err(gone)?;
        }
        tokio::time::sleep(A_WHILE).await;
    }
    text("It was logged.")
}

async fn progress(context: &RequestContext<RoleServer>) -> Answered {
    for done in [0.0, 50.0, 100.0] {
        if let Some(token) = context.meta.get_progress_token() {
            context.peer.notify_progress(ProgressNotificationParam::new(token, done).with_total(100.0)).await.map_err(gone)?;
        }
        tokio::time::sleep(A_WHILE).await;
    }
    text("It is done.")
}

/// Asks the client's model, in the old era.
async fn sampling(prompt: &str, context: &RequestContext<RoleServer>) -> Answered {
    let params = read::<CreateMessageRequestParams>(sample(prompt)["params"].clone())?;
    let said = context.peer.create_message(params).await.map_err(gone)?;
    let words = json!(said)["content"]["text"].as_str().unwrap_or("nothing to read").to_owned();
    text(&format!("LLM response: {words}"))
}

/// Asks the client's user, in the old era.
async fn elicitation(message: &str, properties: Value, required: Value, context: &RequestContext<RoleServer>) -> Answered {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    let params = read::<ElicitRequestParams>(json!({"mode": "form", "message": message, "requestedSchema": schema}))?;
    match context.peer.send_request(ServerRequest::ElicitRequest(ElicitRequest::new(params))).await.map_err(gone)? {
        ClientResult::ElicitResult(said) => {
            let answer = json!(said);
            text(&format!("Elicitation completed: action={}, content={}", answer["action"], answer["content"]))
        }
        _ => Err(ErrorData::internal_error("the client answered something else", None)),
    }
}

fn defaults() -> Value {
    json!({
        "name": {"type": "string", "default": "John Doe"},
        "age": {"type": "integer", "default": 30},
        "score": {"type": "number", "default": 95.5},
        "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        "verified": {"type": "boolean", "default": true},
    })
}

fn choices() -> Value {
    let options = ["option1", "option2", "option3"];
    let titled = |kind: &str| json!([{"const": "value1", "title": format!("First {kind}")}, {"const": "value2", "title": format!("Second {kind}")}, {"const": "value3", "title": format!("Third {kind}")}]);
    json!({
        "untitledSingle": {"type": "string", "enum": options},
        "titledSingle": {"type": "string", "oneOf": titled("Option")},
        "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]},
        "untitledMulti": {"type": "array", "items": {"type": "string", "enum": options}},
        "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
    })
}

/// Tools that ask before they answer, in the new era.
fn asking(fixtures: &Fixtures, request: &CallToolRequestParams, context: &RequestContext<RoleServer>) -> Answered {
    let states = &fixtures.shared.states;
    let responses = request.input_responses.as_ref();
    let step = request.request_state.as_deref().map(|state| states.step(state)).transpose()?;
    let question = |message: &str, field: &str, kind: &str| elicit(message, field, kind);
    let said = |key: &str| responses.and_then(|all| all.get(key)).filter(|value| value.is_object());
    let asked = match request.name.as_ref() {
        "test_input_required_result_elicitation" | "test_streaming_elicitation" => match accepted(responses, "user_name", "name") {
            Some(Value::String(name)) => return text(&format!("Hello, {name}!")),
            _ => ask(json!({"user_name": question("What is your name?", "name", "string")}), None)?,
        },
        "test_input_required_result_sampling" => match said("capital_question") {
            Some(answer) => return text(&format!("The model says {}", answer["content"]["text"])),
            None => ask(json!({"capital_question": sample("What is the capital of France?")}), None)?,
        },
        "test_input_required_result_list_roots" => match said("client_roots") {
            Some(answer) => return text(&format!("The directories are {}", answer["roots"])),
            None => ask(json!({"client_roots": roots()}), None)?,
        },
        "test_input_required_result_request_state" | "test_input_required_result_tampered_state" => {
            match (step.as_deref(), accepted(responses, "confirm", "ok")) {
                (Some("confirm"), Some(_)) => return text("state-ok"),
                _ => ask(json!({"confirm": question("Please confirm", "ok", "boolean")}), Some(states.give("confirm")?))?,
            }
        }
        "test_input_required_result_multiple_inputs" => {
            match (accepted(responses, "user_name", "name"), said("greeting"), said("client_roots")) {
                (Some(name), Some(greeting), Some(_)) if step.as_deref() == Some("three") => {
                    return text(&format!("{} {name}", greeting["content"]["text"]));
                }
                _ => {
                    let three = json!({
                        "user_name": question("What is your name?", "name", "string"),
                        "greeting": sample("Generate a greeting"),
                        "client_roots": roots(),
                    });
                    ask(three, Some(states.give("three")?))?
                }
            }
        }
        "test_input_required_result_multi_round" => match step.as_deref() {
            Some("second") if said("step2").is_some() => return text("Both were answered."),
            Some("first") if said("step1").is_some() => {
                ask(json!({"step2": question("Step 2: What is your favorite color?", "color", "string")}), Some(states.give("second")?))?
            }
            _ => ask(json!({"step1": question("Step 1: What is your name?", "name", "string")}), Some(states.give("first")?))?,
        },
        "test_input_required_result_capabilities" => {
            let able = context.client_capabilities().unwrap_or_default();
            let mut questions = serde_json::Map::new();
            if able.sampling.is_some() {
                questions.insert("capital_question".into(), sample("What is the capital of France?"));
            }
            if able.elicitation.is_some() {
                questions.insert("user_name".into(), question("What is your name?", "name", "string"));
            }
            if questions.is_empty() || !responses.is_none_or(|all| all.is_empty()) {
                return text("There is nothing to ask.");
            }
            ask(questions.into(), None)?
        }
        other => return Err(ErrorData::invalid_params(format!("Unknown tool: {other}"), None)),
    };
    Ok(asked.into())
}

/// Tools that are tasks. Where possible they are processes of the engine, started by the tool `run`.
async fn task(fixtures: &Fixtures, request: &CallToolRequestParams, context: RequestContext<RoleServer>) -> Answered {
    let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name));
    let understood = context.client_capabilities().is_some_and(|able| able.supports_tasks());
    if !understood && request.name != "slow_compute" {
        return Err(ErrorData::missing_required_client_capability(ClientCapabilities::builder().enable_tasks().build()));
    }
    let tasks = &fixtures.shared.tasks;
    let line = match request.name.as_ref() {
        "protocol_error_job" => return Ok(CallToolResponse::Task(tasks.failed()?)),
        "confirm_delete" => {
            let question = elicit(&format!("Delete {}?", argument("filename").unwrap_or(&Value::Null)), "confirm", "boolean");
            return Ok(CallToolResponse::Task(tasks.asking(json!({"confirm": question}))?));
        }
        "multi_input" => {
            let both = json!({"first": elicit("The first?", "confirm", "boolean"), "second": elicit("The second?", "confirm", "boolean")});
            return Ok(CallToolResponse::Task(tasks.asking(both)?));
        }
        "failing_job" => vec!["sh".into(), "-c".into(), format!("sleep {A_SECOND}; echo 'It failed, as it should.'; exit 1")],
        "test_tool_with_task" => match accepted(request.input_responses.as_ref(), "user_name", "name").and_then(Value::as_str) {
            Some(name) => slowly(A_SECOND, &format!("Hello, {name}!")),
            None => return Ok(ask(json!({"user_name": elicit("What is your name?", "name", "string")}), None)?.into()),
        },
        _ => {
            let seconds = argument("seconds").and_then(Value::as_f64).unwrap_or_default();
            slowly(&seconds.to_string(), argument("label").and_then(Value::as_str).unwrap_or("done"))
        }
    };
    // A call that does not wait at all is answered without a task.
    let wait = if understood { 0.05 } else { 60.0 };
    let arguments = json!({"command": line, "wait_seconds": wait});
    let run = CallToolRequestParams::new("run").with_arguments(arguments.as_object().cloned().unwrap_or_default());
    fixtures.ours.call_tool(run, context).await
}

/// A command that prints a text after some seconds. The text is an argument, so that the shell does not interpret it.
fn slowly(seconds: &str, words: &str) -> Vec<String> {
    ["sh", "-c", r#"sleep "$1"; printf '%s\n' "$2""#, "sh", seconds, words].map(str::to_owned).to_vec()
}

fn gone(e: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(format!("the client could not be asked or told: {e}"), None)
}
