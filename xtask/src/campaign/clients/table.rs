//! The table in `docs/agents/README.md`, between two markers.

use super::{CLIENTS, Client};
use anyhow::{Context, Result};
use serde_json::Value;
use std::path::PathBuf;

const BEGIN: &str = "<!-- The table is written by `cargo xtask campaign clients --record`. -->\n";
const END: &str = "<!-- End of the table. -->\n";
const HEAD: &str = "\
| client | version | a process each | one process | a later conversation | gives up first | waits longer |
|---|---|---|---|---|---|---|
";
const SCENES: [&str; 5] = ["apart", "together", "later", "gives-up", "waits"];

fn path() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/agents/README.md"))
}

/// Writes the rows of the clients that were run; the other rows stay.
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
        match rows.iter().find(|row| row["client"] == client.name) {
            Some(row) => lines += &line(client, row),
            None => {
                lines.extend(table.lines().find(|line| line.starts_with(&format!("| {} |", client.title))).map(|line| format!("{line}\n")))
            }
        }
    }
    Ok(format!("{before}{BEGIN}\n{HEAD}{lines}\n{END}{after}"))
}

fn parts(text: &str) -> Result<(&str, &str, &str)> {
    let (before, rest) = text.split_once(BEGIN).context("the document has no marker of the begin")?;
    let (table, after) = rest.split_once(END).context("the document has no marker of the end")?;
    Ok((before, table, after))
}

fn line(client: &Client, row: &Value) -> String {
    let title = client.title;
    if let Some(why) = row["skipped"].as_str() {
        return format!("| {title} | skipped: {why} | – | – | – | – | – |\n");
    }
    let cell = |scene: &str| {
        // A woken client has one scene, with all its conversations in one process.
        let scene = if scene == "together" && !row["woken"].is_null() { "woken" } else { scene };
        let says = row[scene]["says"].as_str().unwrap_or("–").replace('|', "\\|").replace('\n', " ");
        match row[scene]["ok"].as_bool() {
            Some(false) => format!("**wrong**: {says}"),
            _ => says,
        }
    };
    let cells: Vec<String> = SCENES.iter().map(|scene| cell(scene)).collect();
    format!("| {title} | {} | {} |\n", row["version"].as_str().unwrap_or("–"), cells.join(" | "))
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
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!((cells[0], cells.len()), (client.title, 2 + SCENES.len()), "{line}");
            let pinned = client
                .package
                .names()
                .iter()
                .any(|name| name.ends_with(&format!("@{}", cells[1])) || name.ends_with(&format!("=={}", cells[1])));
            assert!(pinned, "{} is installed as {:?}, and the row has {}", client.name, client.package.names(), cells[1]);
        }
    }

    #[test]
    fn rows_that_were_not_run_stay() {
        let text = format!("before\n{BEGIN}\n{HEAD}| Qwen Code | 1.2.3 | a | b | c | d | e |\n\n{END}after\n");
        let row = json!({"client": "gemini", "version": "4.5.6", "apart": {"ok": true, "says": "told once"}, "waits": {"ok": false, "says": "run 2 times"}});
        let rows = "| Gemini CLI | 4.5.6 | told once | – | – | – | **wrong**: run 2 times |\n| Qwen Code | 1.2.3 | a | b | c | d | e |\n";
        assert_eq!(with_rows(&text, &[row]).unwrap(), format!("before\n{BEGIN}\n{HEAD}{rows}\n{END}after\n"));
    }
}
