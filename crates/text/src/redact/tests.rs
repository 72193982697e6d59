//! Made-up secrets, put together here so that no tool that looks for real ones finds any.

use super::mask::mask;
use super::vendor::{Body, FAMILIES, Family};
use super::*;
use proptest::prelude::*;

fn source(text: &str) -> String {
    Redactor::new(true).command(text).into_owned()
}

fn full(text: &str) -> String {
    Redactor::new(true).full(text).into_owned()
}

fn sample(family: &Family, length: usize) -> String {
    let alphabet = match family.body {
        Body::Upper => "A1B2C3D4E5F6G7H8",
        _ => "a1B2c3D4e5F6g7H8",
    };
    let body: String = alphabet.chars().cycle().take(length).collect();
    format!("{}{body}", family.prefix)
}

fn github_token() -> String {
    ["gh", "p_", &"a1B2c3D4".repeat(5)].concat()
}

fn web_token() -> String {
    ["ey", "JhbGciOiJIUzI1NiJ9", ".", "ey", "JzdWIiOiIxIn0", ".", "c2lnbmF0dXJl"].concat()
}

fn key_block(label: &str, body: &str) -> String {
    format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----")
}

#[test]
fn every_family_is_masked_at_word_boundaries() {
    for family in FAMILIES {
        let token = sample(family, family.shortest + 8);
        let masked = mask(&token);
        for (before, after) in [("", ""), ("key=", "\n"), ("\"", "\","), ("(", ") "), ("\\n", " ")] {
            let text = format!("{before}{token}{after}");
            assert_eq!(source(&text), format!("{before}{masked}{after}"), "{text}");
        }
        let inside = format!("x{token}");
        let is_joined = |prefix: &str| ["-", "_"].iter().any(|joint| inside.contains(&format!("{joint}{prefix}")));
        let of_another = FAMILIES.iter().any(|other| inside.starts_with(other.prefix) || is_joined(other.prefix));
        assert!(of_another || source(&inside) == inside, "{inside}");
    }
    assert!(FAMILIES.len() >= 100);
}

#[test]
fn a_token_that_is_joined_to_another_word_is_masked() {
    let token = github_token();
    let model = ["sk", "-proc9aBcDeFgHiJkLmNoPqRsTuVwXyZ0123456789abcdef"].concat();
    for token in [token, model] {
        let masked = mask(&token);
        for before in ["job-", "job_", "a-b_", "x.y-", "-", "_"] {
            assert_eq!(source(&format!("say {before}{token} now")), format!("say {before}{masked} now"));
        }
        // A letter before it may be part of any word.
        let inside = format!("job{token}");
        assert_eq!(source(&inside), inside);
    }
}

#[test]
fn what_only_begins_like_a_token_stays() {
    let texts = [
        "npm-cache-key-d41d8cd98f00b204e9800998ecf8427e0123456789",
        "my_secret_da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "build-sk-learn-with-many-words-in-it-2026",
        "test_sk_buff_alloc_with_headroom_64_bytes",
        "cortex-m0-plus-board-support-package-1",
        "task-runner and disk-cleanup-utility",
        "the sk-learn package",
        "hf_short",
        "key-value-store-implementation-details",
        "fal_to_pieces_and_more",
        "const exa_search = exa_results();",
        "AKIA",
        "AIzawa",
        "sk_buff_alloc_with_headroom",
        "SG. is short",
        "secret_key_for_the_application_configuration",
        "dapicatalogue",
    ];
    for text in texts {
        assert_eq!(source(text), text);
    }
}

#[test]
fn case_231_a_vendor_key_in_any_output() {
    let redactor = Redactor::new(true);
    let token = github_token();
    let text = format!("pushing with {token} to origin");
    let shown = redactor.output("git push", &text);
    assert_eq!(shown, format!("pushing with {} to origin", mask(&token)));
}

#[test]
fn case_230_printenv_masks_a_token_and_not_home() {
    let redactor = Redactor::new(true);
    let text = "HOME=/home/ada\nSERVICE_TOKEN=opaque-but-secret-value\nPATH=/bin\n";
    let shown = redactor.output("printenv", text);
    assert_eq!(shown, "HOME=/home/ada\nSERVICE_TOKEN=opaque...alue\nPATH=/bin\n");
    assert_eq!(redactor.output("make", text), text);
}

#[test]
fn authorization_headers_keep_their_scheme() {
    let long = "0123456789abcdefghij";
    let table = [
        (format!("Authorization: Bearer {long}"), "Authorization: Bearer 012345...ghij"),
        ("authorization: basic dXNlcjpwYXNz".to_owned(), "authorization: basic ***"),
        (format!("-H 'Authorization: token {long}' x"), "-H 'Authorization: token 012345...ghij' x"),
        (format!("Proxy-Authorization: {long}"), "Proxy-Authorization: 012345...ghij"),
        (format!("{{\"Authorization\": \"Bearer {long}\"}}"), "{\"Authorization\": \"Bearer 012345...ghij\"}"),
        (
            "Authorization: AWS4-HMAC-SHA256 Credential=x/y, Signature=abcd0123\nHost: x".to_owned(),
            "Authorization: AWS4-HMAC-SHA256 Creden...0123\nHost: x",
        ),
        ("Authorization: Bearer $TOKEN".to_owned(), "Authorization: Bearer $TOKEN"),
        ("f\"Authorization: Bearer {token}\"".to_owned(), "f\"Authorization: Bearer {token}\""),
        ("Authorization: denied for user".to_owned(), "Authorization: denied for user"),
        ("Authorization: Bearer".to_owned(), "Authorization: Bearer"),
    ];
    for (text, shown) in table {
        assert_eq!(source(&text), shown);
    }
}

#[test]
fn key_headers() {
    let table = [
        ("x-api-key: hunter2", "x-api-key: ***"),
        ("curl -H 'X-API-Key: 0123456789abcdefghij'", "curl -H 'X-API-Key: 012345...ghij'"),
        ("{\"x-api-key\": \"hunter2\"}", "{\"x-api-key\": \"***\"}"),
        ("PRIVATE-TOKEN: hunter2", "PRIVATE-TOKEN: ***"),
        ("{\"x-api-key\": api_key}", "{\"x-api-key\": api_key}"),
        ("x-api-key: ${KEY}", "x-api-key: ${KEY}"),
        ("x-api-key: getKey(1)", "x-api-key: getKey(1)"),
        ("http://x/?apikey=hunter2abc", "http://x/?apikey=hunter2abc"),
    ];
    for (text, shown) in table {
        assert_eq!(source(text), shown);
    }
}

#[test]
fn addresses() {
    let table = [
        ("postgres://ada:hunter2@db/x", "postgres://ada:***@db/x"),
        ("postgresql+asyncpg://ada:hunter2@db", "postgresql+asyncpg://ada:***@db"),
        ("mongodb+srv://ada:p@ss@db/x?a=b@c", "mongodb+srv://ada:***@db/x?a=b@c"),
        ("redis://:hunter2@db:6379/0", "redis://:***@db:6379/0"),
        ("amqp://ada:p/w@mq", "amqp://ada:***@mq"),
        ("redis://db:6379/0?mail=a@b", "redis://db:6379/0?mail=a@b"),
        ("mysql://ada:{password}@db", "mysql://ada:{password}@db"),
        ("mysql://ada:${PW}@db", "mysql://ada:${PW}@db"),
        ("mysql://ada@db mysql://ada:@db", "mysql://ada@db mysql://ada:@db"),
        ("https://0123456789abcdefghij@host/x", "https://012345...ghij@host/x"),
        ("https://ada@host ssh://git@host", "https://ada@host ssh://git@host"),
        // These are left alone on purpose.
        ("https://ada:hunter2@host/", "https://ada:hunter2@host/"),
        ("https://host/?token=0123456789abcdefghij", "https://host/?token=0123456789abcdefghij"),
    ];
    for (text, shown) in table {
        assert_eq!(source(text), shown);
    }
    assert_eq!(full("mysql://ada:{password}@db"), "mysql://ada:***@db");
    let queried = "GET https://host/?token=0123456789abcdefghij&api_key=x";
    assert_eq!(full(queried), queried);
}

#[test]
fn private_keys() {
    let body = "MIIEabcdefghijklmnopqrstuvwxyz0123456789+/ABCDEFGHIJKLMNOPQRSTUV\nabcd==";
    for label in ["PRIVATE KEY", "RSA PRIVATE KEY", "OPENSSH PRIVATE KEY"] {
        let block = key_block(label, body);
        let text = format!("before\n{block}\nafter");
        assert_eq!(source(&text), "before\n[REDACTED PRIVATE KEY]\nafter");
        let in_json = format!("{{\"k\": \"{}\"}}", block.replace('\n', "\\n"));
        assert_eq!(source(&in_json), "{\"k\": \"[REDACTED PRIVATE KEY]\"}");
        let unfinished = &text[..text.len() - 45];
        assert_eq!(source(unfinished), "before\n[REDACTED PRIVATE KEY]");
        let (_, headless) = block.split_once('\n').unwrap();
        let headless = format!("before: x\n{headless}\nafter");
        assert_eq!(source(&headless), "before: x\n[REDACTED PRIVATE KEY]\nafter");
    }
    let public = key_block("PUBLIC KEY", body);
    assert_eq!(source(&public), public);
    let prose = "looks for -----BEGIN PRIVATE KEY----- in files";
    assert_eq!(source(prose), prose);
}

#[test]
fn web_tokens_bot_tokens_and_phones() {
    let token = web_token();
    assert_eq!(source(&format!("t={token}.")), format!("t={}.", mask(&token)));
    assert_eq!(source("eyJhbGciOiJIUzI1NiJ9"), "eyJhbGciOiJIUzI1NiJ9");
    let bot = ["123456789", ":AA", &"b3-C".repeat(9)].concat();
    assert_eq!(source(&format!("/bot{bot}/getMe")), "/bot123456789:***/getMe");
    assert_eq!(source("12:34:56 localhost:8080"), "12:34:56 localhost:8080");
    let table = [
        ("call +15550001234!", "call +155****1234!"),
        ("+1555000", "+1****00"),
        ("2024-01-01T00:00:00+0100", "2024-01-01T00:00:00+0100"),
        ("x+15550001234", "x+15550001234"),
        ("+1555000123456789", "+1555000123456789"),
        ("+15550001234abc", "+15550001234abc"),
    ];
    for (text, shown) in table {
        assert_eq!(source(text), shown);
    }
}

#[test]
fn form_bodies() {
    assert_eq!(
        source("grant_type=password&client_secret=hunter2&code=abc&user=ada\n"),
        "grant_type=password&client_secret=***&code=***&user=ada\n"
    );
    let mixed = "see a=b&token=c for more";
    assert_eq!(source(mixed), mixed);
}

#[test]
fn full_mode_masks_by_name() {
    let table = [
        ("DB_PASSWORD=correct horse battery", "DB_PASSWORD=correc...tery"),
        ("export API_KEY='hunter2'", "export API_KEY='***'"),
        ("declare -x API_TOKEN=\"hun\\\"ter2\"", "declare -x API_TOKEN=\"***\""),
        ("run A_TOKEN=abc B=2", "run A_TOKEN=*** B=2"),
        ("spring.datasource.password = hunter2", "spring.datasource.password = ***"),
        ("{\"apiKey\": \"hunter2\", \"name\": \"ada\"}", "{\"apiKey\": \"***\", \"name\": \"ada\"}"),
        ("{\\\"token\\\": \\\"hunter2\\\"}", "{\\\"token\\\": \\\"***\\\"}"),
        ("  password: hunter2 # old", "  password: *** # old"),
        ("- client_secret: \"hunter2\"", "- client_secret: \"***\""),
        ("{'password': 'hunter2'}", "{'password': '***'}"),
        ("A_TOKEN=x\0HOME=/root\0", "A_TOKEN=***\0HOME=/root\0"),
        ("API_KEY=$OTHER", "API_KEY=$OTHER"),
        ("SECRET=/run/secrets/x", "SECRET=/run/secrets/x"),
        ("AUTH=true\nTOKEN=\n", "AUTH=true\nTOKEN=\n"),
        ("if token == other", "if token == other"),
        ("token: str", "token: ***"),
        ("MAX_TOKENS=4096", "MAX_TOKENS=4096"),
        ("HOME=/home/ada", "HOME=/home/ada"),
    ];
    for (text, shown) in table {
        assert_eq!(full(text), shown);
        let once = full(text);
        assert_eq!(full(&once), once);
    }
    let code = "password = read_line()\ntoken: str = \"abc\"\n";
    assert_eq!(source(code), code);
}

#[test]
fn off_is_off() {
    let redactor = Redactor::new(false);
    let text = format!("swordfish {}", github_token());
    assert!(matches!(redactor.output("env", &text), Cow::Borrowed(shown) if shown == text));
    assert!(!redactor.is_on());
}

#[test]
fn plain_text_is_borrowed() {
    let text = "plain text, 12:30, http://host/path, a+b\n".repeat(10);
    let redactor = Redactor::new(true);
    assert!(matches!(redactor.command(&text), Cow::Borrowed(_)));
    assert!(matches!(redactor.full(&text), Cow::Borrowed(_)));
}

#[test]
fn repeated_beginnings_take_linear_time() {
    let beginnings = [
        "sk-",
        "-sk-a1",
        "_glc_",
        "://",
        "sl.",
        "glc_/",
        "a=",
        "authorization:digest $",
        "authorization:",
        "authorization: ",
        "x-api-key: ",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\n",
        "-----END PRIVATE KEY-----\n",
        "-----BEGIN ",
        "eyJ",
        "eyJaaaaaaaaaaaa.",
        "1:",
        "12345678:",
        "+1",
        "token=$",
        "\"token\":\"",
        "token: ",
        "a_token=b ",
        "a&",
        "postgres://a:b",
    ];
    let redactor = Redactor::new(true);
    for beginning in beginnings {
        redactor.full(&beginning.repeat(20_000));
    }
}

fn texts() -> impl Strategy<Value = String> {
    let tokens = (0..FAMILIES.len(), 0usize..80).prop_map(|(index, length)| {
        let family = &FAMILIES[index];
        sample(family, length % (family.shortest + 12))
    });
    let pieces = prop_oneof![
        4 => tokens,
        2 => "[a-zA-Z0-9_.:=+/@ -]{0,12}",
        1 => Just(web_token()),
        1 => Just(key_block("PRIVATE KEY", "MIIEabcd")),
        2 => proptest::sample::select(vec![
            "Authorization: ", "Bearer ", "x-api-key: ", "postgres://a:", "https://", "@host ",
            "+1555000", "12345678:", "API_TOKEN=", "\"password\": \"", "\"", "'", "\n", "&", "...",
            "***", "ya29", "eyJ", "token: ", "\\", "\\\"", "-----BEGIN PRIVATE KEY-----\n", "é", "\0",
            "-----END PRIVATE KEY-----", "export ", "$", "{", " ",
        ]).prop_map(str::to_owned),
    ];
    proptest::collection::vec(pieces, 0..10).prop_map(|pieces| pieces.concat())
}

#[test]
fn what_each_mask_brings_to_light_is_masked_too() {
    // Each pass finds something that the one before has laid bare, five times over.
    let text = ".--credentials.fgrepl--GGG=B. g==\0\u{1}\0\0\u{0}2#.=\"/GGG=txxdulIpPat.=$$$\"/-tr--------=---------=&5=\0\u{6}*0=\".=&%------l===\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\u{10}=&5=\0\u{6}*0=\".=&%------l===\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\u{10}\0\0\0\0\0\".=&%----------crecscccccccccccccccccccccccccccccccccccccccccccccccccccccccc--50=\"senv";
    let once = full(text);
    assert_eq!(full(&once), once);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn masking_twice_changes_nothing(text in prop_oneof![4 => texts(), 1 => any::<String>()]) {
        let redactor = Redactor::new(true);
        let once = redactor.command(&text).into_owned();
        prop_assert_eq!(redactor.command(&once), once.as_str());
        let once = redactor.full(&text).into_owned();
        prop_assert_eq!(redactor.full(&once), once.as_str());
        let once = redactor.command_line(&text).into_owned();
        prop_assert_eq!(redactor.command_line(&once), once.as_str());
    }

    #[test]
    fn any_command_is_taken(command in any::<String>(), text in texts()) {
        Redactor::new(true).output(&command, &text);
    }
}
