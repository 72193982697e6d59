//! The real agents, and how each is configured for the model.

use super::super::super::agents;
use anyhow::{Context, Result, bail};
use outlast_testkit::product::Product;
use serde_json::json;
use std::path::PathBuf;
use std::process::Command;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Hermes,
    Opencode,
    Kimi,
}

/// An agent that is installed.
pub(super) struct RealAgent {
    name: Name,
    root: PathBuf,
}

impl RealAgent {
    pub(super) fn named(name: &str, root: PathBuf) -> Result<Self> {
        let name = match name {
            "hermes" => Name::Hermes,
            "opencode" => Name::Opencode,
            "kimi" => Name::Kimi,
            other => bail!("rounds are played with hermes, opencode and kimi, and not with {other}"),
        };
        Ok(Self { name, root })
    }

    /// As `--agent` has it.
    pub(super) fn name(&self) -> &'static str {
        match self.name {
            Name::Hermes => "hermes",
            Name::Opencode => "opencode",
            Name::Kimi => "kimi",
        }
    }

    /// Its version, as it prints it.
    pub(super) fn version(&self) -> String {
        let said = Command::new(self.name()).arg("--version").env("PATH", self.path()).output();
        let said = said.map(|said| String::from_utf8_lossy(&said.stdout).into_owned()).unwrap_or_default();
        said.lines().next().unwrap_or("of an unknown version").to_owned()
    }

    /// A PATH with its program, and with a Node that can run it.
    pub(super) fn path(&self) -> String {
        let [npm, venv] = agents::bins(&self.root);
        format!("{}:{}:/usr/local/bin:/usr/bin:/bin", npm.display(), venv.display())
    }

    /// Writes its own configuration, and ours: everything is allowed, and what it has in its environment beside the login's is in a file.
    pub(super) fn configure(&self, product: &Product, model: &str) -> Result<()> {
        let (file, text) = match self.name {
            Name::Hermes => (
                ".hermes/config.yaml",
                format!("model:\n  default: mock\n  provider: custom\n  base_url: {model}\n  api_key: none\n  context_length: 128000\n"),
            ),
            Name::Opencode => {
                let options = json!({"baseURL": model, "apiKey": "none"});
                let provider =
                    json!({"npm": "@ai-sdk/openai-compatible", "name": "mock", "options": options, "models": {"mock": {"name": "mock"}}});
                let config = json!({"provider": {"mock": provider}, "model": "mock/mock", "small_model": "mock/mock", "autoupdate": false});
                (".config/opencode/opencode.json", config.to_string())
            }
            Name::Kimi => (
                ".kimi-code/config.toml",
                format!(
                    "default_model = \"mock\"\ntelemetry = false\n\n[models.mock]\nprovider = \"mock\"\nmodel = \"mock\"\n\
                     max_context_size = 100000\n\n[providers.mock]\ntype = \"openai\"\nbase_url = \"{model}\"\napi_key = \"none\"\n"
                ),
            ),
        };
        let file = product.user().join(file);
        std::fs::create_dir_all(file.parent().context("a directory")?)?;
        std::fs::write(&file, text)?;
        let name = self.name();
        product.configure(&format!("[gateway.agents.{name}]\npermission = \"always\"\nenv_file = \"agent.env\"\n"));
        let env = product.user().join(".config/outlast/agent.env");
        std::fs::write(env, "OPENCODE_DISABLE_MODELS_FETCH=1\nNO_PROXY=127.0.0.1\n")?;
        Ok(())
    }
}
