//! Names that secrets go under.

/// Whether a variable, field or option of this name holds a secret.
///
/// The name is read as words (`dbPassword`, `DB_PASSWORD` and `db.password` are the same), so that
/// `AUTHOR` is no `AUTH`. Names that say what else they hold are not meant: `SSH_AUTH_SOCK`,
/// `TOKEN_FILE`, `MAX_TOKENS`, `PUBLIC_KEY`.
pub fn secret_name(name: &str) -> bool {
    let words = words(name);
    let Some((last, before)) = words.split_last() else {
        return false;
    };
    if HOLDS_ELSE.contains(&last.as_str()) {
        return false;
    }
    let previous = before.last().map_or("", String::as_str);
    if words.iter().any(|word| is_secret_word(word)) {
        return true;
    }
    match last.as_str() {
        "key" | "keys" => !previous.is_empty() && !PLAIN_KEYS.contains(&previous),
        "tokens" => TOKEN_KINDS.contains(&previous),
        // PWD and OLDPWD are directories; PASS alone is what a test prints.
        "pwd" | "pass" | "pat" => !previous.is_empty(),
        _ => words.windows(2).any(|pair| SECRET_PAIRS.contains(&[&pair[0], &pair[1]])),
    }
}

fn is_secret_word(word: &str) -> bool {
    let ends = ["token", "secret", "password", "passwd", "passphrase", "apikey"];
    ends.iter().any(|end| word.ends_with(end))
        || matches!(
            word,
            "secrets"
                | "passwords"
                | "credential"
                | "credentials"
                | "creds"
                | "auth"
                | "oauth"
                | "authorization"
                | "bearer"
                | "jwt"
                | "cookie"
                | "privatekey"
                | "secretkey"
                | "accesskey"
        )
}

/// As a last word, these say that the value is about a secret and not one.
const HOLDS_ELSE: &[&str] = &[
    "sock",
    "socket",
    "file",
    "files",
    "path",
    "paths",
    "dir",
    "url",
    "uri",
    "endpoint",
    "host",
    "port",
    "id",
    "name",
    "type",
    "kind",
    "count",
    "limit",
    "ttl",
    "expiry",
    "expires",
    "expiration",
    "enabled",
    "disabled",
    "required",
    "method",
    "methods",
    "provider",
    "mode",
    "header",
    "length",
    "size",
    "min",
    "max",
    "budget",
    "timeout",
    "user",
    "username",
    "scheme",
    "algorithm",
    "format",
    "version",
    "prefix",
    "policy",
    "scope",
    "scopes",
    "issuer",
    "audience",
    "at",
    "in",
];

const PLAIN_KEYS: &[&str] = &[
    "public",
    "primary",
    "foreign",
    "sort",
    "partition",
    "cache",
    "index",
    "hot",
    "group",
    "shortcut",
    "registry",
    "map",
    "dict",
    "unique",
    "object",
    "row",
    "column",
    "routing",
    "sorting",
    "host",
    "known",
    "authorized",
];

const TOKEN_KINDS: &[&str] = &["api", "access", "auth", "refresh", "bot", "bearer"];

const SECRET_PAIRS: &[[&str; 2]] = &[
    ["api", "key"],
    ["access", "key"],
    ["private", "key"],
    ["secret", "key"],
    ["signing", "key"],
    ["encryption", "key"],
    ["master", "key"],
];

/// The words of a name, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut characters = name.chars().peekable();
    let mut before = None::<char>;
    while let Some(character) = characters.next() {
        if !character.is_alphanumeric() {
            flush(&mut word, &mut words);
            before = None;
            continue;
        }
        // A word begins at `aB`, and at the last capital of `ABc`.
        let next_is_lower = characters.peek().is_some_and(|next| next.is_lowercase());
        let begins = before.is_some_and(|before| character.is_uppercase() && (!before.is_uppercase() || next_is_lower));
        if begins {
            flush(&mut word, &mut words);
        }
        word.extend(character.to_lowercase());
        before = Some(character);
    }
    flush(&mut word, &mut words);
    words
}

fn flush(word: &mut String, words: &mut Vec<String>) {
    if !word.is_empty() {
        words.push(std::mem::take(word));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets() {
        let names = "TOKEN GITHUB_TOKEN githubToken GITHUBTOKEN api_key apiKey APIKey OPENAI_API_KEY \
            x-api-key DB_PASSWORD db.password dbPasswd DB_PASS MYSQL_PWD AWS_SECRET_ACCESS_KEY \
            SECRET_KEY_BASE client_secret clientSecret private_key ENCRYPTION_KEY STRIPE_KEY GH_PAT \
            NPM_CONFIG__AUTH _authToken AUTH_BASIC GOOGLE_CREDENTIALS SESSION_COOKIE JWT API_TOKENS \
            spring.datasource.password SSH_PASSPHRASE API_KEY_2";
        for name in names.split_whitespace() {
            assert!(secret_name(name), "{name}");
        }
    }

    #[test]
    fn names_of_other_things() {
        let names = "HOME PATH PWD OLDPWD USER LANG TERM SHELL AUTHOR GIT_AUTHOR_NAME SSH_AUTH_SOCK \
            XAUTHORITY MAX_TOKENS tokens TOKENIZERS_PARALLELISM TOKEN_FILE SECRET_PATH PUBLIC_KEY \
            PRIMARY_KEY KEY key PASS COMPASS MONKEY AUTH_URL OAUTH_CLIENT_ID TOKEN_TTL keyboard \
            PASSED DBUS_SESSION_BUS_ADDRESS XDG_SESSION_ID _ 1";
        for name in names.split_whitespace() {
            assert!(!secret_name(name), "{name}");
        }
        assert!(!secret_name(""));
    }
}
