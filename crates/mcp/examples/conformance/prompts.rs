//! Prompts, which the product has none of.

use crate::{inputs, read};
use rmcp::model::{ErrorData, GetPromptRequestParams, GetPromptResponse, GetPromptResult, ListPromptsResult};
use serde_json::{Value, json};

pub(crate) fn list() -> Result<ListPromptsResult, ErrorData> {
    let argument = |name: &str, what: &str| json!({"name": name, "description": what, "required": true});
    let prompt = |name: &str, what: &str, arguments: Vec<Value>| json!({"name": name, "description": what, "arguments": arguments});
    read(json!({"resultType": "complete", "prompts": [
        prompt("test_simple_prompt", "A prompt without arguments", vec![]),
        prompt("test_prompt_with_arguments", "A prompt with two arguments", vec![argument("arg1", "The first"), argument("arg2", "The second")]),
        prompt("test_prompt_with_embedded_resource", "A prompt with a resource in it", vec![argument("resourceUri", "Which resource")]),
        prompt("test_prompt_with_image", "A prompt with an image", vec![]),
        prompt("test_input_required_result_prompt", "A prompt that asks for its context first", vec![]),
    ]}))
}

pub(crate) fn get(request: &GetPromptRequestParams) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| request.arguments.as_ref().and_then(|all| all.get(name)).and_then(Value::as_str).unwrap_or_default();
    let text = |text: String| json!({"type": "text", "text": text});
    let contents = match request.name.as_str() {
        "test_simple_prompt" => vec![text("This is a simple prompt for testing.".into())],
        "test_prompt_with_arguments" => {
            vec![text(format!("Prompt with arguments: arg1='{}', arg2='{}'", argument("arg1"), argument("arg2")))]
        }
        "test_prompt_with_embedded_resource" => {
            let inner = json!({"uri": argument("resourceUri"), "mimeType": "text/plain", "text": "Embedded resource content for testing."});
            vec![json!({"type": "resource", "resource": inner}), text("Please process the embedded resource above.".into())]
        }
        "test_prompt_with_image" => vec![
            json!({"type": "image", "data": crate::resources::PNG, "mimeType": "image/png"}),
            text("Please analyze the image above.".into()),
        ],
        "test_input_required_result_prompt" => match inputs::accepted(request.input_responses.as_ref(), "user_context", "context") {
            Some(context) => vec![text(format!("Prompt with the context {context}"))],
            None => {
                let question = inputs::elicit("What context should the prompt use?", "context", "string");
                return Ok(inputs::ask(json!({"user_context": question}), None)?.into());
            }
        },
        other => return Err(ErrorData::invalid_params(format!("Unknown prompt: {other}"), None)),
    };
    let messages: Vec<Value> = contents.into_iter().map(|content| json!({"role": "user", "content": content})).collect();
    Ok(read::<GetPromptResult>(json!({"resultType": "complete", "messages": messages}))?.into())
}
