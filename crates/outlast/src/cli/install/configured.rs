//! Which configurations name us, and how they call us: what `doctor` tries.

use super::us::Us;
use super::{Client, Context, File, Place, Scope, refusal};
use serde_json::Value;
use std::path::PathBuf;

/// A configuration that names us.
pub(crate) struct Configured {
    pub(crate) client: Client,
    pub(crate) file: PathBuf,
    pub(crate) scope: Scope,
    pub(crate) call: Result<Call, String>,
}

/// How a client calls us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) argv: Vec<String>,
    pub(crate) env: Vec<(String, String)>,
}

/// All configurations that name us, and those that cannot be read.
pub(crate) fn configured(ctx: &Context) -> Vec<Configured> {
    let Ok(us) = Us::of(ctx, None, false, false) else { return Vec::new() };
    let mut all = Vec::new();
    for client in Client::ALL {
        for scope in [Scope::User, Scope::Project] {
            let place = Place { world: &ctx.world, config: &ctx.settings.file, scope };
            let Ok(targets) = client.targets(&place, &us) else { continue };
            for target in targets.iter().filter(|t| !t.ours) {
                // In the user's home both may be the same.
                if all.iter().any(|one: &Configured| one.file == target.path) {
                    continue;
                }
                let entry = match File::read(&target.path) {
                    Ok(file) => target.wishes.entry(file.text()).map_err(|e| refusal(target, &e).error().to_owned()),
                    Err(e) => Err(e.error().to_owned()),
                };
                let call = match entry {
                    Ok(None) => continue,
                    Ok(Some(entry)) => Call::of(&entry).ok_or_else(|| "the entry outlast names no command".to_owned()),
                    Err(e) => Err(e),
                };
                all.push(Configured { client, file: target.path.clone(), scope, call });
            }
        }
    }
    all
}

impl Call {
    /// Reads an entry as any of the clients has it: a command with arguments beside or behind it.
    pub(super) fn of(entry: &Value) -> Option<Self> {
        let words =
            |value: &Value| value.as_array().map(|all| all.iter().filter_map(|w| w.as_str().map(str::to_owned)).collect::<Vec<_>>());
        let mut argv = match &entry["command"] {
            Value::String(program) => vec![program.clone()],
            list => words(list)?,
        };
        argv.extend(words(&entry["args"]).unwrap_or_default());
        let env = ["env", "environment"].iter().find_map(|name| entry[*name].as_object());
        let env = env.into_iter().flatten().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
        (!argv.is_empty()).then(|| Self { env: env.collect(), argv })
    }
}
