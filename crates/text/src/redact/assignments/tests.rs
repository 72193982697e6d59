use crate::Redactor;
use proptest::prelude::*;
use std::borrow::Cow;

fn shown(line: &str) -> String {
    Redactor::new(true).command_line(line).into_owned()
}

fn check(cases: &[(&str, &str)]) {
    for (line, want) in cases {
        assert_eq!(shown(line), *want, "{line}");
        assert_eq!(shown(want), *want, "masking what is masked changes nothing");
    }
}

#[test]
fn secrets_that_a_command_line_assigns_are_masked() {
    check(&[
        ("AWS_SECRET_ACCESS_KEY=abc/def+ghi sh -c 'env'", "AWS_SECRET_ACCESS_KEY=*** sh -c 'env'"),
        ("export TOKEN=hunter22; make", "export TOKEN=***; make"),
        ("env DB_PASSWORD=hunter22 MODE=fast ./run", "env DB_PASSWORD=*** MODE=fast ./run"),
        ("cd x && API_KEY=hunter22 ./run", "cd x && API_KEY=*** ./run"),
        ("cd x &&API_KEY=hunter22 ./run", "cd x &&API_KEY=*** ./run"),
        ("TOKEN='a b;c' make", "TOKEN='***' make"),
        ("TOKEN=\"a b\\\" c\" make", "TOKEN=\"***\" make"),
        ("TOKEN=a'b c'd make", "TOKEN=*** make"),
        ("deploy --api-key=hunter22 --auth-token='x y' now", "deploy --api-key=*** --auth-token='***' now"),
        ("TOKEN=hunter22", "TOKEN=***"),
        ("(TOKEN=hunter22 make)", "(TOKEN=*** make)"),
        ("TOKEN=abcdefghijklmnopqrstuvwxyz make", "TOKEN=abcdef...wxyz make"),
        ("TOKEN=hünter\\é x", "TOKEN=*** x"),
        ("TOKEN=\\\nhunter22 true", "TOKEN=*** true"),
        ("helm upgrade --set db.password=hunter22 x", "helm upgrade --set db.password=*** x"),
        ("npm config set //registry.npmjs.org/:_authToken=hunter22", "npm config set //registry.npmjs.org/:_authToken=***"),
    ]);
}

#[test]
fn secrets_in_the_commands_of_a_command_are_masked() {
    check(&[
        ("sh -c 'TOKEN=hunter22 make'", "sh -c 'TOKEN=*** make'"),
        ("sh -c 'TOKEN=hunter22'", "sh -c 'TOKEN=***'"),
        ("sh -c \"TOKEN=\\\"a b\\\" make\"", "sh -c \"TOKEN=\\\"***\\\" make\""),
        ("sh -c 'TOKEN=\"a b\" make'", "sh -c 'TOKEN=\"***\" make'"),
        // As shlex.quote of Python does, and as people do.
        (r#"sh -c 'TOKEN='"'"'hunter22 x'"'"' true'"#, r#"sh -c 'TOKEN='"'"'***'"'"' true'"#),
        (r"sh -c 'TOKEN='\''hunter22 x'\'' true'", r"sh -c 'TOKEN='\''***'\'' true'"),
        (r#"ssh h "sh -c 'TOKEN=\"a b\" make'""#, r#"ssh h "sh -c 'TOKEN=\"***\" make'""#),
        ("X=\"$(TOKEN=hunter22 make)\" y", "X=\"$(TOKEN=*** make)\" y"),
        ("TOKEN=\"$(get --password=hunter22 x)\" y", "TOKEN=\"$(get --password=*** x)\" y"),
        ("TOKEN=$(get --password=hunter22 x) y", "TOKEN=$(get --password=*** x) y"),
    ]);
}

#[test]
fn an_apostrophe_that_is_no_quote_hides_no_secret() {
    check(&[
        ("true # it's\nTOKEN='hunter22 x' true", "true # it's\nTOKEN='***' true"),
        ("true # it's TOKEN='hunter22 x' too", "true # it's TOKEN='***' too"),
        ("echo ${x#'}; export DB_PASSWORD='hunter22 x'", "echo ${x#'}; export DB_PASSWORD='***'"),
        ("cat <<EOF\nit's\nEOF\nexport DB_PASSWORD=\"hunter22 x\"", "cat <<EOF\nit's\nEOF\nexport DB_PASSWORD=\"***\""),
        ("cat <<EOF\nit's\nEOF\nexport DB_PASSWORD='hunter22 x'; y", "cat <<EOF\nit's\nEOF\nexport DB_PASSWORD='***'; y"),
        ("echo don\\'t; TOKEN=\"hunter22 x\" true", "echo don\\'t; TOKEN=\"***\" true"),
        ("echo \"don't\"; export DB_PASSWORD='hunter22 x'", "echo \"don't\"; export DB_PASSWORD='***'"),
    ]);
}

#[test]
fn every_way_to_assign_is_known() {
    check(&[
        ("docker run --env=TOKEN=hunter22 x", "docker run --env=TOKEN=*** x"),
        ("docker run -eTOKEN=hunter22 -e TOKEN=hunter22 x", "docker run -eTOKEN=*** -e TOKEN=*** x"),
        ("docker run -e 'TOKEN=hunter22 x' y", "docker run -e 'TOKEN=***' y"),
        ("env \"TOKEN=a b\" make", "env \"TOKEN=***\" make"),
        ("TOKEN=$'hunter22' true", "TOKEN=$'***' true"),
        ("PASSWORD='$hunter22' true", "PASSWORD='***' true"),
        ("PASSWORD='&hunter22' true", "PASSWORD='***' true"),
        ("PASSWORD=${X:-hunter22} true", "PASSWORD=*** true"),
        ("psql ${DB_PASSWORD:-hunter22} x", "psql ${DB_PASSWORD:-***} x"),
        (": ${TOKEN:=hunter22}", ": ${TOKEN:=***}"),
        ("x=1&TOKEN=hunter22 cmd", "x=1&TOKEN=*** cmd"),
        ("TOKEN=(hunter22 b) x", "TOKEN=(***) x"),
        ("TOKEN[0]=hunter22 x", "TOKEN[0]=*** x"),
        ("TOKEN+=hunter22 x", "TOKEN+=*** x"),
        ("TOKEN+=(hunter22 b) x", "TOKEN+=(***) x"),
        ("TOKEN=\"hunter22zzI\"suffix true", "TOKEN=*** true"),
        ("TOKEN=\"hunter22zzIhunter22\"suffix true", "TOKEN=*** true"),
        ("TOKEN=$X-hunter22 make", "TOKEN=*** make"),
        ("python3 -c 'c[\"password\"]=\"hunter22\"'", "python3 -c 'c[\"password\"]=\"***\"'"),
    ]);
}

#[test]
fn the_value_after_an_option_is_masked() {
    check(&[
        ("mysql --password hunter22 db", "mysql --password *** db"),
        ("deploy --api-token 'hunter22 x' now", "deploy --api-token '***' now"),
        ("sh -c 'deploy --token hunter22 now'", "sh -c 'deploy --token *** now'"),
        ("java -password swordfish -jar x", "java -password *** -jar x"),
        ("login --token \\\n  hunter22", "login --token \\\n  ***"),
    ]);
    for line in [
        "login --token",
        "login --password --user ada",
        "login --password | tee x",
        "login --token; make",
        "login --token \"$TOKEN\" x",
        "login --token ${TOKEN} x",
        "login --token-file x",
        "login --token /run/secrets/x",
        "login --no-auth x",
        "docker build --secret id=npm,env=NPM_TOKEN .",
        "git commit -m 'Add --token and --password to login'",
    ] {
        assert_eq!(shown(line), line);
    }
}

#[test]
fn other_command_lines_stay_as_they_are() {
    let lines = [
        "TOKEN=$TOKEN make",
        "TOKEN=${TOKEN} make",
        "TOKEN=${TOKEN:-} make",
        "TOKEN=${TOKEN:-$OTHER} make",
        "TOKEN=${TOKEN:?not set} make",
        "TOKEN=\"$TOKEN\" make",
        "TOKEN=\"$(cat secret)\" make",
        "TOKEN=`cat secret` make",
        "ssh h \"TOKEN='$TOKEN' make\"",
        "sh -c 'TOKEN=$TOKEN make'",
        "SSH_KEY=$HOME/.ssh/id make",
        "TOKEN=($A \"$B\") make",
        "TOKEN={{ secrets.token }} make",
        "TOKEN={token} make",
        "TOKEN= make",
        "TOKEN='' make",
        "sh -c 'TOKEN=' x",
        "MODE=fast make",
        "TOKEN_FILE=/run/secrets/x make",
        "USE_TOKEN=true make",
        "curl 'https://example.com/?token=abcdefgh&password=abcdefgh'",
        "curl https://example.com/?token=abcdefgh&password=abcdefgh",
        "[ \"$TOKEN\" = abc ]",
        "test $token == abcdefgh",
        "a=b; c = d",
        "# a remark",
    ];
    for line in lines {
        assert_eq!(shown(line), line);
    }
    assert_eq!(Redactor::new(false).command_line("TOKEN=hunter22"), "TOKEN=hunter22");
}

#[test]
fn an_argument_is_one_word() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["env", "TOKEN=a b 'c", "make"], &["env", "TOKEN=***", "make"]),
        (&["DB_PASSWORD=hunter22", "make"], &["DB_PASSWORD=***", "make"]),
        (&["mysql", "--password", "a b", "db"], &["mysql", "--password", "***", "db"]),
        (&["mysql", "--password=a b", "db"], &["mysql", "--password=***", "db"]),
        (&["sh", "-c", "TOKEN=hunter22 make"], &["sh", "-c", "TOKEN=*** make"]),
        (&["ssh", "h", "TOKEN=hunter22 make"], &["ssh", "h", "TOKEN=*** make"]),
        (&["x", "--env=TOKEN=hunter22", "--token", "--y"], &["x", "--env=TOKEN=***", "--token", "--y"]),
        (&["x", "TOKEN=$TOKEN", "TOKEN=${T}", "TOKEN="], &["x", "TOKEN=$TOKEN", "TOKEN=${T}", "TOKEN="]),
    ];
    for (arguments, want) in cases {
        let given: Vec<Cow<str>> = arguments.iter().map(|a| Cow::Borrowed(*a)).collect();
        let once = Redactor::new(true).arguments(&given);
        assert_eq!(once, *want);
        assert_eq!(Redactor::new(true).arguments(&once), *want);
        assert_eq!(Redactor::new(false).arguments(&given), *arguments);
    }
}

#[test]
fn repeated_beginnings_take_linear_time() {
    let beginnings = [
        "'",
        "\"",
        "\\",
        "${",
        "${x:-",
        "$(",
        "\"$(",
        "TOKEN=",
        "TOKEN='",
        "TOKEN='a ",
        "TOKEN=(",
        "TOKEN[",
        "]=",
        "[",
        "--token ",
        "#",
        "a?b=",
        "=",
        "`",
        "a\\'",
        "'\"'\"'",
        "TOKEN=\"$",
        "-",
        "TOKEN=${X:-a",
    ];
    for beginning in beginnings {
        shown(&beginning.repeat(20_000));
    }
}

/// Ways to quote a text for a shell.
fn quoted(text: &str, way: u8) -> String {
    match way % 3 {
        0 => format!("'{}'", text.replace('\'', r#"'"'"'"#)),
        1 => format!("'{}'", text.replace('\'', r"'\''")),
        _ => format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"").replace('$', "\\$").replace('`', "\\`")),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1024))]

    #[test]
    fn a_secret_is_found_however_it_is_quoted(
        between in proptest::sample::select(vec!["", " ", "'", "\"", ";", "&", "|", "(", "#", "\\", " = "]),
        before in proptest::sample::select(vec!["", "x; ", "a=b ", "export ", "docker run -e ", "true # it's\n", "echo \"don't\"; "]),
        ways in proptest::collection::vec(any::<u8>(), 1..4),
    ) {
        let mut line = format!("{before}TOKEN={} make", quoted(&format!("hunter22{between}tail99"), ways[0]));
        for way in &ways[1..] {
            line = format!("sh -c {} x", quoted(&line, *way));
        }
        let shown = shown(&line);
        prop_assert!(!shown.contains("hunter22") && !shown.contains("tail99") && shown.contains("make"), "{} is shown as {}", line, shown);
    }

    #[test]
    fn any_line_is_masked_once(parts in proptest::collection::vec(proptest::sample::select(vec![
        "TOKEN=", "PASSWORD", "=", "'", "\"", "\\", "$", "${", "}", "(", ")", "$(", "`", "#", " ", "\n", "&", "?", ";", "--token ", "-e ", "env ", ":-", "[", "]",
        "+", "hunter22", "a", "é", "***", "...", "/", "abcdefghijklmnopqrstuvwxyz",
    ]), 0..24)) {
        let once = shown(&parts.concat());
        prop_assert_eq!(shown(&once), once);
        let arguments: Vec<Cow<str>> = parts.iter().map(|part| Cow::Borrowed(*part)).collect();
        let once = Redactor::new(true).arguments(&arguments);
        prop_assert_eq!(&Redactor::new(true).arguments(&once), &once);
    }
}
