use super::super::tests::{AnyEdit, defaults, server, there_and_back, there_and_back_if_it_can, twice_is_once, yaml_text};
use super::*;
use proptest::prelude::*;

impl AnyEdit for YamlEdit {
    fn put(&self, text: &str) -> Result<String, EditError> {
        put(text, self)
    }

    fn take(&self, text: &str) -> Result<String, EditError> {
        take(text, self)
    }
}

fn mcp() -> YamlEdit {
    YamlEdit { map: "mcp_servers", name: "outlast", fields: server(), defaults: defaults() }
}

#[test]
fn what_is_there_keeps_its_bytes() {
    let mut fields = server();
    fields.push(("env".to_owned(), Data::map([("OUTLAST_HOME", Data::text("/with space"))])));
    let with_env = YamlEdit { fields, ..mcp() };
    let mut all = String::new();
    for text in [
        "",
        "\n",
        "# nothing but a remark",
        "model:\n  default: x # why\n",
        "model: é",
        "model: x\n\n\n",
        "mcp_servers:\n  # mine\n  a:\n    command: x\nb: 1\n",
        "a: 1\nmcp_servers:\n      a:\n        command: x",
        "mcp_servers: {}\nb: |\n  text\n",
        "mcp_servers: {a: {command: x}} # one\n",
        "mcp_servers:\nb: 1\n",
        "é: ü\nmcp_servers:",
        "mcp_servers:   # none yet\n",
        "a: 1\r\nmcp_servers:\r\n  a: {command: x}\r\n",
        "\u{feff}a: 1\n",
        "---\na: 1\n",
    ] {
        for edit in [mcp(), with_env.clone()] {
            all += &format!("{}\n----\n", there_and_back(text, &edit));
        }
    }
    insta::assert_snapshot!(all.replace('\r', "␍").replace('\u{feff}', "BOM"));
}

#[test]
fn another_path_is_corrected_and_what_was_added_by_hand_stays() {
    let text = "mcp_servers:\n  outlast:\n    command: '/old'  # here\n    args: [mcp]\n    timeout: 9\n";
    assert_eq!(put(text, &mcp()).unwrap(), text.replace("'/old'", "/bin/outlast"));
    let args = "mcp_servers:\n  outlast:\n    command: /old\n    args: [mcp, --profile, x] # mine\n    timeout: 9\n  b: {command: y}\n";
    assert_eq!(put(args, &mcp()).unwrap(), args.replace("/old", "/bin/outlast").replace("[mcp, --profile, x]", "[mcp]"));
}

/// An edit with an environment.
fn woken() -> YamlEdit {
    let mut fields = server();
    fields.push(("env".to_owned(), Data::map([("OUTLAST_SESSION", Data::text("hermes:mcp")), ("B", Data::text("2"))])));
    YamlEdit { fields, ..mcp() }
}

#[test]
fn what_is_missing_goes_in_front_of_what_is_there() {
    let env = "env:\n      OUTLAST_SESSION: \"hermes:mcp\"\n      B: \"2\"\n    ";
    for (text, made) in [
        // As it was put there, with things of the user's: the first that once was lost.
        (
            "mcp_servers:\n  outlast:\n    command: /bin/outlast\n    args:\n      - mcp\n    limit: 900   # my slow builds\n    env: {GITHUB_TOKEN: keepme}\n",
            "mcp_servers:\n  outlast:\n    command: /bin/outlast\n    args:\n      - mcp\n    limit: 900   # my slow builds\n    env: {OUTLAST_SESSION: \"hermes:mcp\", B: \"2\", GITHUB_TOKEN: keepme}\n".to_owned(),
        ),
        (
            "mcp_servers:\n  outlast:\n    # where it is\n    command: /bin/outlast # here\n    args: [mcp]\n  b: 1\n",
            format!("mcp_servers:\n  outlast:\n    {env}# where it is\n    command: /bin/outlast # here\n    args: [mcp]\n  b: 1\n"),
        ),
        (
            "mcp_servers:\r\n outlast:\r\n  args: [mcp]\r\n  env:\r\n     A: '1' # one\r\n     OUTLAST_SESSION: 'x' # two\r\n  command: /bin/outlast",
            "mcp_servers:\r\n outlast:\r\n  args: [mcp]\r\n  env:\r\n     B: \"2\"\r\n     A: '1' # one\r\n     OUTLAST_SESSION: \"hermes:mcp\" # two\r\n  command: /bin/outlast".to_owned(),
        ),
        (
            "mcp_servers: {outlast: {command: /old, x: [a], args: [no]}, b: {}}\n",
            "mcp_servers: {outlast: {env: {OUTLAST_SESSION: \"hermes:mcp\", B: \"2\"}, command: /bin/outlast, x: [a], args: [mcp]}, b: {}}\n".to_owned(),
        ),
        (
            "mcp_servers:\n  outlast:\n    env: # none\n    command:\n    args:\n    - no\n    - 'more'\n    x: 1\n",
            "mcp_servers:\n  outlast:\n    env: {OUTLAST_SESSION: \"hermes:mcp\", B: \"2\"} # none\n    command: /bin/outlast\n    args:\n    - mcp\n    x: 1\n".to_owned(),
        ),
        ("mcp_servers:\n  outlast: {}\n", "mcp_servers:\n  outlast: {command: /bin/outlast, args: [mcp], env: {OUTLAST_SESSION: \"hermes:mcp\", B: \"2\"}}\n".to_owned()),
    ] {
        assert_eq!(put(text, &woken()).unwrap(), made, "{text}");
        assert_eq!(put(&made, &woken()).unwrap(), made);
    }
}

#[test]
fn an_entry_is_written_anew_only_if_everything_in_it_is_ours() {
    let text = "mcp_servers:\n  outlast:\n    command: /old\n    args:\n      - mcp\n\n      - x\n    limit: 9\n  b: {command: y}\n";
    let anew = "mcp_servers:\n  outlast:\n    command: /bin/outlast\n    args:\n      - mcp\n    limit: 9\n  b: {command: y}\n";
    assert_eq!(put(text, &mcp()).unwrap(), anew);
    for (ours, theirs) in [
        ("limit: 9", "limit: 900"),
        ("limit: 9", "timeout: 9"),
        ("limit: 9", "limit: 9 # why"),
        ("limit: 9", "env: {A: b}"),
        ("limit: 9", "limit: &nine 9"),
        ("- x", "- x # why"),
        ("- x", "- &x x"),
        ("- x", "- {x: 1}"),
    ] {
        let refused = put(&text.replace(ours, theirs), &mcp()).unwrap_err();
        assert!(!refused.is_malformed && refused.what.contains("added by hand"), "{theirs}: {refused:?}");
    }
    for text in [
        "mcp_servers:\n  outlast: &o\n    command: /old\n    args: [mcp]\nb: *o\n",
        "mcp_servers:\n  outlast:\n    command: &o /old\n    args: [mcp]\nb: *o\n",
        "mcp_servers:\n  outlast:\n    command: /old\n    command: /other\n    args: [mcp]\n    x: 1\n",
        "mcp_servers:\n  outlast:\n    command: |\n      /old\n    args: [mcp]\n    x: 1\n",
    ] {
        assert!(!put(text, &mcp()).unwrap_err().is_malformed, "{text}");
    }
}

#[test]
fn one_among_others_goes_without_its_neighbours() {
    for text in ["mcp_servers: {  a: {command: x} }\n", "mcp_servers:\n { }", "mcp_servers: { a: [x ] ,b: {} } \n"] {
        there_and_back(text, &mcp());
    }
    let text = "mcp_servers:\n  a:\n    command: x\n  outlast:\n    command: y\n    env:\n      A: \"1\n        2\"\n\n  # about b\n  b:\n    command: z\n";
    assert_eq!(take(text, &mcp()).unwrap(), "mcp_servers:\n  a:\n    command: x\n\n  # about b\n  b:\n    command: z\n");
    let flow = "mcp_servers: {a: {command: x}, outlast: {command: y}}\n";
    assert_eq!(take(flow, &mcp()).unwrap(), "mcp_servers: {a: {command: x}}\n");
}

#[test]
fn what_cannot_be_changed_safely_is_refused() {
    for text in [
        "- a\n",
        "mcp_servers: 3\n",
        "mcp_servers: ~\n",
        "mcp_servers: [a]\n",
        "{mcp_servers: {}}\n",
        "a: 1\n---\nb: 2\n",
        "a: 1\n...\n",
        "a: &x {b: 1}\nmcp_servers: *x\n",
        "mcp_servers: {}\nmcp_servers: {}\n",
        "a: 1\rb: 2\n",
        "%é é\n---\na: 1\n",
    ] {
        let refused = put(text, &mcp()).unwrap_err();
        assert!(!refused.is_malformed, "{text:?}: {refused:?}");
        assert_eq!(take(text, &mcp()).map_err(|e| e.is_malformed).unwrap_or_else(|_| text.to_owned()), text);
    }
    for (text, line) in [("a: [1\n", 2), ("a: 1\n b: 2\n", 2), ("a: \"x\n", 1), ("\ta: 1\n", 1)] {
        let refused = put(text, &mcp()).unwrap_err();
        assert!(refused.is_malformed && refused.line.is_some_and(|l| l.abs_diff(line) <= 1), "{text:?}: {refused:?}");
    }
}

#[test]
fn words_that_mean_something_else_are_quoted() {
    assert_eq!(
        ["mcp", "/a/b-c", "yes", "1", "a b", "--x", "", "é"].map(scalar),
        ["mcp", "/a/b-c", "\"yes\"", "\"1\"", "\"a b\"", "\"--x\"", "\"\"", "\"é\""]
    );
}

/// An entry of ours in many ways of writing it, with things of the user's in it.
fn entry_text() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        Just("command: /old"),
        Just("command: '/bin/outlast' # here"),
        Just("command:"),
        Just("args: [mcp]"),
        Just("args: [a, \"b\"] # list"),
        Just("args:\n    - a\n    - mcp"),
        Just("args:\n      - a # one\n      - b"),
        Just("args: {x: 1}"),
        Just("limit: 900"),
        Just("# remark"),
        Just(""),
        Just("env: {A: b}"),
        Just("env:"),
        Just("env:\n      A: b\n      # about\n      OUTLAST_SESSION: x"),
        Just("env: {OUTLAST_SESSION: x, # why\n      A: b}"),
        Just("x: |\n      text # no remark"),
        Just("y: &a [1]"),
    ];
    (proptest::collection::vec(part, 1..6), any::<bool>(), any::<bool>()).prop_map(|(parts, last, crlf)| {
        let text = format!("mcp_servers:\n  outlast:\n    {}{}", parts.join("\n    "), if last { "\n  b: 1\n" } else { "" });
        if crlf { text.replace('\n', "\r\n") } else { text }
    })
}

/// The fields and remarks that are not ours.
fn theirs(text: &str) -> Vec<String> {
    let meant = get(text, &woken()).unwrap().unwrap();
    let fields = meant.as_object().unwrap().iter().filter(|(name, _)| !["command", "args", "env"].contains(&name.as_str()));
    let fields = fields.map(|(name, value)| format!("{name}: {value}")).chain([format!("{}", meant["env"]["A"])]);
    fields
        .chain(
            ["# here", "# list", "# one", "# remark", "# about", "# why", "&a"]
                .map(|mark| format!("{mark} {}", text.matches(mark).count())),
        )
        .collect()
}

/// Pieces of an entry, in any order.
fn pieces() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => prop::sample::select(vec!["m:", "\n", "\n  ", "\n    ", "o:", " ", "{", "}", ", ", "command: ", "env: ", "A: ", "b", "x: "]),
        2 => prop::sample::select(vec!["m: {o: {", "m:\n  o:\n    ", "m:\n  o: {", "}}\n", "env:\n      "]),
        1 => prop::sample::select(vec!["[", "]", "- ", " # y", "&a ", "*a", "'", "\"", "|\n", "? ", "!t ", "<<: ", "\r\n", "é", "~", "..."]),
    ];
    proptest::collection::vec(piece, 1..16).prop_map(|all| all.concat())
}

proptest! {
    #[test]
    fn an_entry_in_any_shape_is_made_what_it_should_be_or_refused(text in pieces()) {
        let fields = vec![("command".to_owned(), Data::text("outlast")), ("env".to_owned(), Data::map([("A", Data::text("b c"))]))];
        let edit = YamlEdit { map: "m", name: "o", fields, defaults: Vec::new() };
        twice_is_once(&text, &edit)?;
        if let (Ok(made), Ok(without)) = (put(&text, &edit), take(&text, &edit))
            && without == text
            && made != text
        {
            prop_assert_eq!(take(&made, &edit).unwrap(), text);
        }
    }

    #[test]
    fn nothing_of_the_users_in_our_entry_is_lost(text in entry_text()) {
        twice_is_once(&text, &woken())?;
        if let Ok(made) = put(&text, &woken()) {
            let now = theirs(&made);
            let lost: Vec<String> = theirs(&text).into_iter().filter(|one| !now.contains(one)).collect();
            prop_assert!(lost.is_empty(), "{:?} of {}", lost, made);
        }
    }

    #[test]
    fn installing_and_undoing_gives_the_bytes_of_before(text in yaml_text()) {
        there_and_back_if_it_can(&text, &mcp())?;
    }

    #[test]
    fn whatever_is_read_never_breaks(text in ".{0,60}|[\\[\\]{}\"':,#|>&*!% a\n-]{0,40}") {
        twice_is_once(&text, &mcp())?;
    }
}
