//! The owner of a conversation, and whether that user may still speak.
//!
//! The owner is the user who wrote last, by the user id of the socket's other end. Only the user of the home and root can reach the socket, so the rule has no
//! list of its own: a user who may connect may speak. It matters when no user is connected. If a home was given to another user, turns that the previous user
//! left are not started: a message of the new user makes the conversation theirs.
//!
//! Decision 230: docs/decisions/gateway.md.

use crate::rules::queue::OwnerCheck;

/// The user id of root.
const ROOT: u32 = 0;

/// A user, by the id that the kernel reports for the other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UserId(pub(crate) u32);

impl UserId {
    /// The user as whom this gateway runs: the user of the home.
    pub(crate) fn own() -> Self {
        Self(rustix::process::geteuid().as_raw())
    }

    /// Whether this user may connect and speak in a home of `home_user`.
    pub(crate) fn may_speak(self, home_user: Self) -> bool {
        self == home_user || self.0 == ROOT
    }

    /// As it is stored.
    pub(crate) fn stored(self) -> String {
        self.0.to_string()
    }
}

/// Who asks something.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    /// The user at the other end of the connection.
    pub(crate) user: UserId,
    /// The session that the client speaks for.
    pub(crate) session: Option<String>,
}

/// Judges the stored owner of a conversation. Without one, an earlier version made the row, which served the user of the home only. What cannot be read counts
/// as no.
pub(crate) fn check(stored: Option<&str>, home_user: UserId) -> OwnerCheck {
    match stored.map(str::parse) {
        None => OwnerCheck::MaySpeak,
        Some(Ok(uid)) if UserId(uid).may_speak(home_user) => OwnerCheck::MaySpeak,
        Some(Ok(_)) => OwnerCheck::MayNotSpeak,
        Some(Err(_)) => OwnerCheck::Failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_of_the_home_and_root_may_speak_and_what_cannot_be_read_counts_as_no() {
        let home_user = UserId(1000);
        for (stored, checked) in [
            (None, OwnerCheck::MaySpeak),
            (Some("1000"), OwnerCheck::MaySpeak),
            (Some("0"), OwnerCheck::MaySpeak),
            (Some("1001"), OwnerCheck::MayNotSpeak),
            (Some(""), OwnerCheck::Failed),
            (Some("root"), OwnerCheck::Failed),
            (Some("-1"), OwnerCheck::Failed),
            (Some("4294967296"), OwnerCheck::Failed),
        ] {
            assert_eq!(check(stored, home_user), checked, "{stored:?}");
        }
        assert_eq!(check(Some(&UserId(7).stored()), UserId(7)), OwnerCheck::MaySpeak);
        assert_eq!(check(Some("1000"), UserId(0)), OwnerCheck::MayNotSpeak, "root's home is not open to all users");
    }
}
