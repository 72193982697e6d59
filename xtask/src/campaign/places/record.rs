//! `docs/places.md`: the results of each place.

use super::Place;
use super::bench::Ran;
use anyhow::Result;
use std::path::Path;

const HEAD: &str = "\
# Places

`cargo xtask campaign places --record` wrote this table. In each place it runs the same checks with the same program:
exit codes, output to the byte, terminals, input, stops of whole trees, notices delivered once, and each process of
Outlast killed with SIGKILL. `outlast doctor` tries the same where you are, and says what is weaker there.

| place | what it is | passed | failed | weaker there, as `doctor` says |
|---|---|---|---|---|
";

/// Writes the rows of the places that were tried; the other rows stay.
pub(crate) fn write(rows: &[(Place, Ran)]) -> Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("docs/places.md");
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let mut text = HEAD.to_owned();
    for place in super::all() {
        match rows.iter().find(|(tried, _)| tried.name == place.name) {
            Some((place, ran)) => text += &row(place, ran),
            None => text.extend(before.lines().find(|l| l.starts_with(&format!("| {} |", place.name))).map(|l| format!("{l}\n"))),
        }
    }
    std::fs::write(&path, text)?;
    Ok(())
}

fn row(place: &Place, ran: &Ran) -> String {
    let (passed, failed) = match &ran.skipped {
        Some(_) => ("–".to_owned(), "–".to_owned()),
        None => (ran.good.len().to_string(), ran.failed.len().to_string()),
    };
    let names: Vec<&str> = ran.failed.iter().map(|(name, _)| name.as_str()).collect();
    let mut words = ran.weaker.clone();
    if !names.is_empty() {
        words.push(format!("failed: {}", names.join(", ")));
    }
    if let Some(why) = &ran.skipped {
        words.push(format!("not tried: {why}"));
    }
    let words = words.join("; ").replace('|', "\\|");
    format!(
        "| {} | {} | {passed} | {failed} | {} |\n",
        place.name,
        place.about,
        if words.is_empty() { "nothing".to_owned() } else { words }
    )
}
