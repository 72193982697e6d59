//! The table in `docs/agents/README.md`, between two markers.

use super::{CLIENTS, McpClient};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;

const BEGIN: &str = "<!-- The table is written by `cargo xtask campaign clients --record`. -->\n";
const END: &str = "<!-- End of the table. -->\n";
const HEAD: &str = "\
| client | version | a process each | one process | over HTTP | a later conversation | gives up first | waits longer |
|---|---|---|---|---|---|---|---|
";
/// The scene of each column, after client and version.
const SCENES: [&str; 6] = ["apart", "together", "http", "later", "gives-up", "waits"];
const NOTHING: &str = "–";

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/agents/README.md"))
}

/// Writes what was run; the other rows and cells stay.
pub(super) fn write(rows: &[Value]) -> Result<()> {
    let text = std::fs::read_to_string(path())?;
    std::fs::write(path(), with_rows(&text, rows)?)?;
    Ok(())
}

/// The document with these rows in its table.
fn with_rows(text: &str, rows: &[Value]) -> Result<String> {
    let (before, table, after) = parts(text)?;
    let mut lines = String::new();
    for client in CLIENTS {
        let old = table.lines().map(cells).find(|cells| cells.first().is_some_and(|title| title == client.title));
        let row = rows.iter().find(|row| row["client"] == client.name);
        if old.is_some() || row.is_some() {
            lines += &line(client, row.unwrap_or(&Value::Null), &old.unwrap_or_default());
        }
    }
    Ok(format!("{before}{BEGIN}\n{HEAD}{lines}\n{END}{after}"))
}

/// The cells of a line of the table.
fn cells(line: &str) -> Vec<String> {
    let line = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |")).unwrap_or_default();
    line.split(" | ").map(str::to_owned).collect()
}

fn parts(text: &str) -> Result<(&str, &str, &str)> {
    let (before, rest) = text.split_once(BEGIN).context("the document has no marker of the begin")?;
    let (table, after) = rest.split_once(END).context("the document has no marker of the end")?;
    Ok((before, table, after))
}

fn line(client: &McpClient, row: &Value, old: &[String]) -> String {
    let kept = |column: usize| old.get(column).map_or(NOTHING, String::as_str).to_owned();
    let mut line = format!("| {} | {} |", client.title, row["version"].as_str().map_or_else(|| kept(1), str::to_owned));
    if let Some(why) = row["skipped"].as_str() {
        line = format!("| {} | skipped: {why} |", client.title);
    }
    for (column, scene) in SCENES.iter().enumerate() {
        // A client that is woken has one scene, with all its conversations in one process.
        let scene = if *scene == "together" && !row["woken"].is_null() { "woken" } else { scene };
        let says = row[scene]["says"].as_str().map(|says| says.replace('|', "/").replace('\n', " "));
        line += &match (row[scene]["ok"].as_bool(), says) {
            (Some(true), Some(says)) => format!(" {says} |"),
            (Some(false), Some(says)) => format!(" **wrong**: {says} |"),
            // Skipped.
            (None, Some(_)) => format!(" {NOTHING} |"),
            (_, None) => format!(" {} |", kept(2 + column)),
        };
    }
    line + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_table_has_every_client_with_the_version_that_is_installed() {
        let text = std::fs::read_to_string(path()).unwrap();
        let (_, table, _) = parts(&text).unwrap();
        let lines: Vec<&str> = table.trim().lines().skip(2).collect();
        assert!(table.trim_start().starts_with(HEAD), "another head");
        assert_eq!(
            lines.len(),
            CLIENTS.len(),
            "the table has other rows than there are clients: run `cargo xtask campaign clients --record`"
        );
        for (line, client) in lines.iter().zip(CLIENTS) {
            let cells = cells(line);
            assert_eq!((cells[0].as_str(), cells.len()), (client.title, 2 + SCENES.len()), "{line}");
            let pinned = client
                .package
                .names()
                .iter()
                .any(|name| name.ends_with(&format!("@{}", cells[1])) || name.ends_with(&format!("=={}", cells[1])));
            assert!(pinned, "{} is installed as {:?}, and the row has {}", client.name, client.package.names(), cells[1]);
        }
    }

    #[test]
    fn what_was_not_run_stays() {
        let old = "| Gemini CLI | 1.2.3 | a | b | c | d | e | f |\n| Qwen Code | 1.2.3 | a | b | c | d | e | f |\n";
        let text = format!("before\n{BEGIN}\n{HEAD}{old}\n{END}after\n");
        let row = json!({"client": "gemini", "version": "4.5.6", "apart": {"ok": true, "says": "told once"}, "http": {"ok": null, "says": "skipped"}, "waits": {"ok": false, "says": "run 2 times"}});
        let new =
            "| Gemini CLI | 4.5.6 | told once | b | – | d | e | **wrong**: run 2 times |\n| Qwen Code | 1.2.3 | a | b | c | d | e | f |\n";
        assert_eq!(with_rows(&text, &[row]).unwrap(), format!("before\n{BEGIN}\n{HEAD}{new}\n{END}after\n"));
        let woken = json!({"client": "codex-woken", "version": "4.5.6", "woken": {"ok": true, "says": "woken"}});
        let text = with_rows(&text, &[woken]).unwrap();
        assert!(text.contains("| Codex, woken | 4.5.6 | – | woken | – | – | – | – |\n"), "{text}");
    }
}
