//! Session keys: which messages belong to one conversation.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The platform of `outlast chat`.
pub const LOCAL_PLATFORM: &str = "local";

/// The namespace of the default profile.
pub const MAIN_NAMESPACE: &str = "main";

/// Names of local chats are at most this long, so that they fit into one line of a list and into a file name.
pub const MAX_CHAT_NAME_LEN: usize = 64;

/// What every key starts with.
const PREFIX: &str = "agent";

/// The key of a conversation, `agent:NAMESPACE:PLATFORM:TYPE[:…]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SessionKey(String);

/// What kind of chat a message came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChatType {
    /// One person.
    Dm,
    /// Several people.
    Group,
    /// A channel that people subscribe to.
    Channel,
    /// A thread that is a chat of its own.
    Thread,
}

/// Where a message came from. Stored with the conversation, because a key cannot be taken apart again without loss. An empty id counts as
/// absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// `main`, or the name of a profile.
    pub namespace: String,
    /// The chat platform.
    pub platform: String,
    /// What kind of chat.
    pub chat_type: ChatType,
    /// The chat.
    pub chat_id: Option<String>,
    /// The thread in it.
    pub thread_id: Option<String>,
    /// The person.
    pub user_id: Option<String>,
    /// Another id of the person, which the platform considers more stable.
    pub user_id_alt: Option<String>,
}

/// Which people share a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Isolation {
    /// Whether each person in a group has a conversation.
    pub is_per_user_in_groups: bool,
    /// Whether each person in a thread has one. By default a thread is shared by its members.
    pub is_per_user_in_threads: bool,
}

impl Default for Isolation {
    fn default() -> Self {
        Self { is_per_user_in_groups: true, is_per_user_in_threads: false }
    }
}

/// A name that no local chat can have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a name of a chat: {0:?} (use up to {MAX_CHAT_NAME_LEN} letters, digits, `.`, `_` or `-`)")]
pub struct BadChatName(pub String);

impl SessionKey {
    /// The key of the conversation that a message from `origin` belongs to.
    pub fn of(origin: &Origin, isolation: Isolation) -> Self {
        let given = |id: &'_ Option<String>| id.clone().filter(|id| !id.is_empty());
        let chat = given(&origin.chat_id);
        let thread = given(&origin.thread_id);
        let person = given(&origin.user_id_alt).or_else(|| given(&origin.user_id));
        let is_per_user = match (origin.chat_type, &thread) {
            // Without a chat id the person's id keeps two people apart.
            (ChatType::Dm, _) => chat.is_none(),
            (ChatType::Group | ChatType::Channel | ChatType::Thread, None) => isolation.is_per_user_in_groups,
            (ChatType::Group | ChatType::Channel | ChatType::Thread, Some(_)) => isolation.is_per_user_in_threads,
        };
        let person = person.filter(|_| is_per_user);
        let tail = match origin.chat_type {
            ChatType::Dm => [chat.or(person), thread, None],
            ChatType::Group | ChatType::Channel | ChatType::Thread => [chat, thread, person],
        };
        let head = [PREFIX, &origin.namespace, &origin.platform, origin.chat_type.word()];
        Self(head.into_iter().map(str::to_owned).chain(tail.into_iter().flatten()).collect::<Vec<_>>().join(":"))
    }

    /// The key of `outlast chat NAME`.
    pub fn local(name: &str) -> Result<Self, BadChatName> {
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'));
        let is_path = name.chars().all(|c| c == '.');
        if name.is_empty() || name.len() > MAX_CHAT_NAME_LEN || !is_plain || is_path {
            return Err(BadChatName(name.to_owned()));
        }
        Ok(Self([PREFIX, MAIN_NAMESPACE, LOCAL_PLATFORM, ChatType::Dm.word(), name].join(":")))
    }

    /// A key as it was stored.
    pub fn from_stored(key: String) -> Self {
        Self(key)
    }

    /// The key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ChatType {
    /// The word in a key.
    pub fn word(self) -> &'static str {
        match self {
            Self::Dm => "dm",
            Self::Group => "group",
            Self::Channel => "channel",
            Self::Thread => "thread",
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        [Self::Dm, Self::Group, Self::Channel, Self::Thread].into_iter().find(|kind| kind.word() == word)
    }
}

/// What a key says about its chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedKey {
    /// `main`, or the name of a profile.
    pub namespace: String,
    /// The chat platform.
    pub platform: String,
    /// What kind of chat.
    pub chat_type: ChatType,
    /// The chat, up to the first colon of its id.
    pub chat_id: String,
    /// The thread, where the part cannot be a person.
    pub thread_id: Option<String>,
}

/// Takes a key apart: the last resort where no origin was stored. An id with a colon in it is not recovered. The sixth part counts as a
/// thread in direct chats and threads only, because in groups it may be a person.
pub fn parse(key: &str) -> Option<ParsedKey> {
    let mut parts = key.split(':');
    let (prefix, namespace, platform) = (parts.next()?, parts.next()?, parts.next()?);
    let (chat_type, chat_id) = (ChatType::from_word(parts.next()?)?, parts.next()?);
    if prefix != PREFIX || [namespace, platform, chat_id].contains(&"") {
        return None;
    }
    let has_thread = matches!(chat_type, ChatType::Dm | ChatType::Thread);
    let thread_id = parts.next().filter(|part| has_thread && !part.is_empty()).map(str::to_owned);
    Some(ParsedKey { namespace: namespace.into(), platform: platform.into(), chat_type, chat_id: chat_id.into(), thread_id })
}
