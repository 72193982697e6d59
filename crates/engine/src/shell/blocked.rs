//! Names that a command does not inherit.
//!
//! There are two reasons. A command that a model was tricked into must not be able to leak the agent's own credentials. And a tool in a
//! user's project must not silently use the agent's endpoint, model or interpreter. `--env` passes one of these on explicitly.
//!
//! Inherited on purpose: the general AWS credentials, because the local terminal belongs to its operator, and `CLAUDE_CODE_OAUTH_TOKEN`,
//! because without it users are logged out of their own tool.

/// Why a name is not inherited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockReason {
    /// A credential, endpoint or model setting of a model provider or of a tool of the agent's.
    Provider,
    /// A bot token or setting of a messaging gateway.
    Messaging,
    /// A token for the infrastructure that agents run on.
    Infrastructure,
    /// A key of a side model or relay, matched by a rule instead of a list.
    SideModel,
    /// It selects an interpreter, which belongs to one project.
    Interpreter,
    /// Internal to Outlast.
    Ours,
}

/// Whether a name is kept out of a command's environment, and why. Case is ignored.
pub(crate) fn is_blocked(name: &[u8]) -> Option<BlockReason> {
    let folded = name.to_ascii_uppercase();
    let mut name = folded.as_slice();
    // Container runtimes pass on variables with their prefix, under the name after it.
    while let Some(rest) = TUNNELS.iter().find_map(|tunnel| name.strip_prefix(tunnel.as_bytes())) {
        name = rest;
    }
    let exact = EXACT.iter().find(|group| group.names.iter().any(|own| own.as_bytes() == name));
    if let Some(group) = exact {
        return Some(group.why);
    }
    FAMILIES
        .iter()
        .find(|family| {
            family.prefixes.iter().any(|prefix| name.starts_with(prefix.as_bytes()))
                && family.suffixes.iter().any(|suffix| name.ends_with(suffix.as_bytes()))
        })
        .map(|family| family.why)
}

/// The plain name after a force prefix, if the name has one.
///
/// Among explicit variables the prefix means "even if it is blocked". In an inherited environment such a name is dropped.
pub(crate) fn forced_name(name: &[u8]) -> Option<&[u8]> {
    FORCE_PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix.as_bytes()))
}

/// Whether a command may need this name that it does not get: a credential or endpoint. An interpreter is still found by PATH, and our own
/// variables are of no use to a command.
pub(crate) fn is_missed(name: &[u8]) -> bool {
    !matches!(is_blocked(name), None | Some(BlockReason::Interpreter | BlockReason::Ours))
}

/// Whether login files may set this name for commands. An interpreter that they select is the user's own choice, not one that leaked in.
pub(super) fn login_may_set(name: &[u8]) -> bool {
    forced_name(name).is_none() && !name.starts_with(b"OUTLAST_") && matches!(is_blocked(name), None | Some(BlockReason::Interpreter))
}

/// A bash fragment that unexports every exported name for which [`login_may_set`] is false by list or family, so that such values are not
/// even written to a pipe.
pub(super) fn unset_in_bash() -> String {
    const UNSET: &str = r#"builtin unset -v "$__outlast_n" || builtin export -n "$__outlast_n""#;
    let strip: String = TUNNELS.iter().map(|tunnel| format!("  __outlast_m=${{__outlast_m#{tunnel}}}\n")).collect();
    let exact: Vec<&str> =
        EXACT.iter().filter(|group| group.why != BlockReason::Interpreter).flat_map(|group| group.names.iter().copied()).collect();
    let mut cases = format!("  case $__outlast_m in ({}) {UNSET} ;; esac\n", exact.join("|"));
    for family in FAMILIES.iter().filter(|family| family.why != BlockReason::Interpreter) {
        let prefixes: Vec<String> = family.prefixes.iter().map(|prefix| format!("{prefix}*")).collect();
        let suffixes: Vec<String> = family.suffixes.iter().map(|suffix| format!("*{suffix}")).collect();
        cases += &format!(
            "  case $__outlast_m in ({}) case $__outlast_m in ({}) {UNSET} ;; esac ;; esac\n",
            prefixes.join("|"),
            suffixes.join("|"),
        );
    }
    format!(
        "while IFS= builtin read -r __outlast_n; do\n  __outlast_m=${{__outlast_n^^}}\n{strip}{cases}done <<< \"$(builtin compgen -e)\"\n"
    )
}

const FORCE_PREFIXES: [&str; 2] = ["_OUTLAST_FORCE_", "_HERMES_FORCE_"];

const TUNNELS: [&str; 2] = ["APPTAINERENV_", "SINGULARITYENV_"];

struct Group {
    why: BlockReason,
    names: &'static [&'static str],
}

/// A name belongs to a family if it begins with one of the prefixes and ends with one of the suffixes. They may share the underscore
/// between them.
struct Family {
    why: BlockReason,
    prefixes: &'static [&'static str],
    suffixes: &'static [&'static str],
}

const EXACT: &[Group] = &[
    Group {
        why: BlockReason::Provider,
        names: &[
            "AI_GATEWAY_API_KEY",
            "ANTHROPIC_CUSTOM_HEADERS",
            "ANTHROPIC_DEFAULT_HAIKU_MODEL",
            "ANTHROPIC_DEFAULT_OPUS_MODEL",
            "ANTHROPIC_DEFAULT_SONNET_MODEL",
            "ARK_API_KEY",
            "AWS_BEARER_TOKEN_BEDROCK",
            "BROWSERBASE_PROJECT_ID",
            "COPILOT_GITHUB_TOKEN",
            "CO_API_KEY",
            "CO_API_URL",
            "FAL_KEY",
            "FAL_KEY_ID",
            "FAL_KEY_SECRET",
            "GOOGLE_API_KEY",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "GOOGLE_APPLICATION_CREDENTIALS_JSON",
            "GOOGLE_BASE_URL",
            "GOOGLE_CLOUD_API_KEY",
            "GOOGLE_GENERATIVE_AI_API_KEY",
            "HF_API_KEY",
            "HF_BASE_URL",
            "HF_TOKEN",
            "HUGGING_FACE_HUB_TOKEN",
            "LLM_API_KEY",
            "LLM_BASE_URL",
            "LLM_MODEL",
            "OPENAI_ORG_ID",
            "OPENAI_ORGANIZATION",
            "OPENAI_PROJECT",
            "OPENAI_PROJECT_ID",
            "SEARXNG_URL",
            "TOOL_GATEWAY_DOMAIN",
            "TOOL_GATEWAY_SCHEME",
            "TOOL_GATEWAY_USER_TOKEN",
            "VERTEX_CREDENTIALS_PATH",
            "VOICE_TOOLS_OPENAI_KEY",
        ],
    },
    Group {
        why: BlockReason::Messaging,
        names: &[
            "EMAIL_ADDRESS",
            "EMAIL_HOME_ADDRESS",
            "EMAIL_HOME_ADDRESS_NAME",
            "EMAIL_IMAP_HOST",
            "EMAIL_IMAP_PORT",
            "EMAIL_PASSWORD",
            "EMAIL_SMTP_HOST",
            "EMAIL_SMTP_PORT",
            "GATEWAY_ALLOWED_USERS",
            "GATEWAY_ALLOW_ALL_USERS",
            "GATEWAY_RELAY_DELIVERY_KEY",
            "GATEWAY_RELAY_ID",
            "GATEWAY_RELAY_SECRET",
            "HASS_TOKEN",
            "HASS_URL",
            "HERMES_DASHBOARD_SESSION_TOKEN",
            "WHATSAPP_ENABLED",
            "WHATSAPP_MODE",
        ],
    },
    Group {
        why: BlockReason::Infrastructure,
        names: &[
            "BWS_ACCESS_TOKEN",
            "DAYTONA_API_KEY",
            "DAYTONA_API_URL",
            "DAYTONA_JWT_TOKEN",
            "DAYTONA_ORGANIZATION_ID",
            "E2B_API_KEY",
            "GH_ENTERPRISE_TOKEN",
            "GH_TOKEN",
            "GITHUB_APP_ID",
            "GITHUB_APP_INSTALLATION_ID",
            "GITHUB_APP_PRIVATE_KEY",
            "GITHUB_APP_PRIVATE_KEY_PATH",
            "GITHUB_ENTERPRISE_TOKEN",
            "GITHUB_PAT",
            "GITHUB_PERSONAL_ACCESS_TOKEN",
            "GITHUB_TOKEN",
            "MODAL_TOKEN_ID",
            "MODAL_TOKEN_SECRET",
            "SUDO_PASSWORD",
            "TERMINAL_SSH_HOST",
            "TERMINAL_SSH_KEY",
            "TERMINAL_SSH_USER",
            "VERCEL_API_KEY",
            "VERCEL_OIDC_TOKEN",
            "VERCEL_PROJECT_ID",
            "VERCEL_TEAM_ID",
            "VERCEL_TOKEN",
        ],
    },
    Group {
        why: BlockReason::Interpreter,
        // The variables that go with a prefix are useless or wrong without it.
        names: &[
            "CONDA_DEFAULT_ENV",
            "CONDA_PREFIX",
            "CONDA_PROMPT_MODIFIER",
            "CONDA_SHLVL",
            "PYTHONHOME",
            "VIRTUAL_ENV",
            "VIRTUAL_ENV_PROMPT",
        ],
    },
    Group { why: BlockReason::Ours, names: &["OUTLAST_LOGIN_SNAPSHOT", "OUTLAST_TEST_POINTS"] },
];

const FAMILIES: &[Family] = &[
    Family {
        why: BlockReason::Provider,
        prefixes: &[
            "AI21_",
            "ANTHROPIC_",
            "ANYSCALE_",
            "ASSEMBLYAI_",
            "AZURE_OPENAI_",
            "BRAVE_SEARCH_",
            "BROWSERBASE_",
            "BROWSER_USE_",
            "CARTESIA_",
            "CEREBRAS_",
            "CODESTRAL_",
            "COHERE_",
            "DASHSCOPE_",
            "DEEPGRAM_",
            "DEEPINFRA_",
            "DEEPSEEK_",
            "ELEVENLABS_",
            "EXA_",
            "FIRECRAWL_",
            "FIREWORKS_",
            "GEMINI_",
            "GLM_",
            "GOOGLE_GEMINI_",
            "GROK_",
            "GROQ_",
            "HELICONE_",
            "HUGGINGFACE_",
            "HUNYUAN_",
            "HYPERBOLIC_",
            "JINA_",
            "KILOCODE_",
            "KIMI_",
            "LITELLM_",
            "MINIMAX_",
            "MISTRAL_",
            "MOONSHOT_",
            "NOUS_",
            "NOVITA_",
            "NVIDIA_",
            "OLLAMA_",
            "OPENAI_",
            "OPENCODE_",
            "OPENROUTER_",
            "PARALLEL_",
            "PERPLEXITY_",
            "PPLX_",
            "QIANFAN_",
            "QWEN_",
            "REPLICATE_",
            "SAMBANOVA_",
            "SERPAPI_",
            "SILICONFLOW_",
            "STABILITY_",
            "STEPFUN_",
            "TAVILY_",
            "TOGETHERAI_",
            "TOGETHER_",
            "UPSTAGE_",
            "VLLM_",
            "VOLCENGINE_",
            "VOYAGE_",
            "XAI_",
            "XIAOMI_",
            "ZAI_",
            "ZHIPUAI_",
            "ZHIPU_",
            "Z_AI_",
        ],
        suffixes: &["_API_BASE", "_API_KEY", "_API_KEYS", "_API_URL", "_BASE_URL", "_ENDPOINT", "_GATEWAY_URL", "_MODEL", "_TOKEN"],
    },
    Family {
        why: BlockReason::Messaging,
        prefixes: &[
            "BLUEBUBBLES_",
            "DINGTALK_",
            "DISCORD_",
            "FEISHU_",
            "LARK_",
            "MATRIX_",
            "MATTERMOST_",
            "QQ_",
            "SIGNAL_",
            "SLACK_",
            "TELEGRAM_",
            "TWILIO_",
            "WECOM_",
            "WEIXIN_",
            "WHATSAPP_",
        ],
        suffixes: &[
            "_ACCOUNT",
            "_ACCOUNT_SID",
            "_ALLOWED_CHANNELS",
            "_ALLOWED_USERS",
            "_ALLOW_ALL_USERS",
            "_APP_ID",
            "_APP_SECRET",
            "_AUTO_THREAD",
            "_CLIENT_ID",
            "_CLIENT_SECRET",
            "_ENCRYPT_KEY",
            "_FREE_RESPONSE_CHANNELS",
            "_HOME_CHANNEL",
            "_HOME_CHANNEL_NAME",
            "_HTTP_URL",
            "_IGNORE_STORIES",
            "_PASSWORD",
            "_REQUIRE_MENTION",
            "_SECRET",
            "_TOKEN",
        ],
    },
    Family { why: BlockReason::SideModel, prefixes: &["AUXILIARY_"], suffixes: &["_API_KEY", "_BASE_URL"] },
    Family { why: BlockReason::SideModel, prefixes: &["GATEWAY_RELAY_"], suffixes: &["_KEY", "_SECRET", "_TOKEN"] },
    Family { why: BlockReason::Interpreter, prefixes: &["CONDA_PREFIX_"], suffixes: &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"] },
    Family { why: BlockReason::Ours, prefixes: &["OUTLAST_"], suffixes: &["_KEY", "_PASSWORD", "_SECRET", "_TOKEN"] },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_group_is_known_by_its_reason() {
        let expected = [
            (BlockReason::Provider, "OPENAI_API_KEY OPENAI_BASE_URL OPENAI_API_BASE OPENAI_ORGANIZATION"),
            (BlockReason::Provider, "ANTHROPIC_API_KEY ANTHROPIC_TOKEN ANTHROPIC_AUTH_TOKEN LLM_MODEL"),
            (BlockReason::Provider, "OPENROUTER_API_KEY GOOGLE_API_KEY GOOGLE_APPLICATION_CREDENTIALS"),
            (BlockReason::Provider, "DEEPSEEK_API_KEY MISTRAL_API_KEY GROQ_API_KEY TOGETHER_API_KEY"),
            (BlockReason::Provider, "PERPLEXITY_API_KEY COHERE_API_KEY FIREWORKS_API_KEY XAI_API_KEY"),
            (BlockReason::Provider, "HELICONE_API_KEY PARALLEL_API_KEY FIRECRAWL_API_URL GLM_API_KEY"),
            (BlockReason::Provider, "AZURE_OPENAI_GPT4_API_KEY MINIMAX_CN_API_KEY HF_TOKEN FAL_KEY"),
            (BlockReason::Messaging, "TELEGRAM_BOT_TOKEN DISCORD_BOT_TOKEN SLACK_APP_TOKEN HASS_TOKEN"),
            (BlockReason::Messaging, "SLACK_SIGNING_SECRET WHATSAPP_ENABLED SIGNAL_GROUP_ALLOWED_USERS"),
            (BlockReason::Messaging, "EMAIL_PASSWORD GATEWAY_ALLOWED_USERS GATEWAY_RELAY_SECRET"),
            (BlockReason::Infrastructure, "GH_TOKEN GITHUB_TOKEN GITHUB_APP_PRIVATE_KEY_PATH"),
            (BlockReason::Infrastructure, "MODAL_TOKEN_ID MODAL_TOKEN_SECRET DAYTONA_API_KEY VERCEL_TOKEN"),
            (BlockReason::SideModel, "AUXILIARY_VISION_API_KEY AUXILIARY_WEB_BASE_URL"),
            (BlockReason::SideModel, "GATEWAY_RELAY_EXTRA_TOKEN"),
            (BlockReason::Interpreter, "VIRTUAL_ENV CONDA_PREFIX PYTHONHOME CONDA_PREFIX_1"),
            (BlockReason::Ours, "OUTLAST_TEST_POINTS OUTLAST_HTTP_TOKEN"),
            (BlockReason::Provider, "openai_api_key APPTAINERENV_OPENAI_API_KEY"),
            (BlockReason::Infrastructure, "SINGULARITYENV_GH_TOKEN"),
        ];
        for (why, names) in expected {
            for name in names.split(' ') {
                assert_eq!(is_blocked(name.as_bytes()), Some(why), "{name}");
            }
        }
    }

    #[test]
    fn what_commands_need_stays() {
        let kept = "PATH HOME LANG SSH_AUTH_SOCK AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY \
            AWS_SESSION_TOKEN AWS_PROFILE AWS_REGION CLAUDE_CODE_OAUTH_TOKEN DATABASE_URL \
            STRIPE_API_KEY NPM_TOKEN PYTHONPATH OUTLAST_HOME OUTLAST_SESSION OUTLAST_TASK \
            OUTLAST_GENERATION OUTLAST_PROCESS_ID MY_OPENAI_API_KEY OPENAI NVIDIA_VISIBLE_DEVICES \
            CONDA_EXE";
        for name in kept.split_whitespace() {
            assert_eq!(is_blocked(name.as_bytes()), None, "{name}");
        }
        assert_eq!(is_blocked(b"\xff\xfe"), None);
        assert_eq!(is_blocked(b""), None);
    }

    #[test]
    fn a_force_prefix_gives_the_plain_name() {
        assert_eq!(forced_name(b"_HERMES_FORCE_GH_TOKEN"), Some(b"GH_TOKEN".as_slice()));
        assert_eq!(forced_name(b"_OUTLAST_FORCE_GH_TOKEN"), Some(b"GH_TOKEN".as_slice()));
        assert_eq!(forced_name(b"GH_TOKEN"), None);
    }

    #[test]
    fn login_files_may_choose_an_interpreter_but_no_credentials() {
        assert!(login_may_set(b"CONDA_PREFIX"));
        assert!(login_may_set(b"NVM_DIR"));
        for name in ["OPENAI_API_KEY", "OUTLAST_HOME", "_HERMES_FORCE_GH_TOKEN"] {
            assert!(!login_may_set(name.as_bytes()), "{name}");
        }
    }
}
