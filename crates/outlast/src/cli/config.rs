//! `outlast config`

use super::{Context, Failure};
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};

/// Show the configuration
#[derive(Debug, Args)]
pub(crate) struct Config {
    #[command(subcommand)]
    what: What,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Every value in effect, and where it comes from
    Show,
    /// The path of the configuration file, which need not exist
    Path,
}

impl Config {
    pub(crate) fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        match self.what {
            What::Show => show(ctx)?,
            What::Path if ctx.out.json => ctx.out.object(&json!({"path": ctx.settings.file, "exists": ctx.settings.file.exists()}))?,
            What::Path => ctx.out.line(&ctx.settings.file.display().to_string())?,
        }
        Ok(0)
    }
}

fn show(ctx: &Context) -> Result<(), Failure> {
    let s = &ctx.settings;
    if ctx.out.json {
        let values: Map<String, Value> =
            s.shown.iter().map(|v| (v.key.to_owned(), json!({"value": v.value, "from": v.from.to_string()}))).collect();
        return ctx.out.object(&json!({"home": s.home, "path": s.file, "values": values, "warnings": s.warnings}));
    }
    ctx.out.line(&format!("# home: {}", s.home.display()))?;
    ctx.out.line(&format!("# file: {}{}", s.file.display(), if s.file.exists() { "" } else { " (absent)" }))?;
    let lines: Vec<_> = s.shown.iter().map(|v| (format!("{} = {}", v.key, v.value), v.from)).collect();
    let width = lines.iter().map(|(line, _)| line.len()).max().unwrap_or(0);
    lines.iter().try_for_each(|(line, from)| ctx.out.line(&format!("{line:width$}  # {from}")))
}
