//! What rustdoc says about our crates.

use crate::dist::target_directory;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// Our crates that an embedder may come to see something of.
const CRATES: [&str; 7] =
    ["outlast-core", "outlast-wire", "outlast-store", "outlast-text", "outlast-client", "outlast-engine", "outlast-tools"];
/// Set for rustdoc's stand-in, with the real one.
const AS_RUSTDOC: &str = "XTASK_AS_RUSTDOC";
/// The format that this was written for: Rust 1.95.
const FORMAT: u64 = 57;

/// Is rustdoc, if cargo took us for it: the JSON is not stable, and this alone is let have it. Were the variable set for all of cargo, everything
/// that looks at it would be built anew.
pub(crate) fn stand_in() -> Option<std::io::Error> {
    use std::os::unix::process::CommandExt;
    let rustdoc = std::env::var_os(AS_RUSTDOC)?;
    Some(Command::new(rustdoc).args(std::env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1").exec())
}

/// All of our crates, by name.
pub(super) struct Library {
    crates: HashMap<String, Crate>,
}

/// One crate.
pub(super) struct Crate {
    pub(super) name: String,
    told: Value,
    /// Its own items by where they are defined.
    by_path: HashMap<String, String>,
    /// By which path users reach them, the shortest there is.
    public: HashMap<String, String>,
}

impl Library {
    /// Documents our crates, and reads that.
    pub(super) fn make(root: &Path) -> Result<Self> {
        let mut command = crate::cargo();
        command
            .args(["doc", "--quiet", "--no-deps", "--lib", "--locked"])
            .args(CRATES.iter().flat_map(|name| ["-p", name]))
            .current_dir(root);
        command.env(AS_RUSTDOC, std::env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into())).env("RUSTDOC", std::env::current_exe()?);
        let made = command.env("RUSTDOCFLAGS", "-Zunstable-options --output-format json").status().context("cannot run cargo doc")?;
        ensure!(made.success(), "rustdoc fails");
        let dir = target_directory(root)?.join("doc");
        let crates = CRATES.iter().map(|name| Crate::read(&dir, name.replace('-', "_"))).collect::<Result<Vec<_>>>()?;
        Ok(Self { crates: crates.into_iter().map(|c| (c.name.clone(), c)).collect() })
    }

    pub(super) fn get(&self, name: &str) -> Option<&Crate> {
        self.crates.get(name)
    }

    /// The crate and the item that `id` means in `of`, if it is one of ours. Ids count in their own crate only; where an item is defined is the same in all.
    pub(super) fn resolve<'a>(&'a self, of: &'a Crate, id: &str) -> Option<(&'a Crate, &'a Value)> {
        if let Some(item) = of.item(id) {
            return Some((of, item));
        }
        let path = of.path(id)?;
        let other = self.get(path.split("::").next()?)?;
        Some((other, other.item(other.by_path.get(&path)?)?))
    }

    /// By which path users of its own crate reach an item of ours.
    pub(super) fn public(&self, of: &Crate, id: &str) -> Option<String> {
        let defined = of.path(id)?;
        let own = self.get(defined.split("::").next()?)?;
        Some(own.public.get(&defined).cloned().unwrap_or(defined))
    }

    /// To be said with a difference that rustdoc itself may have made.
    pub(super) fn note(&self) -> String {
        let formats = self.crates.values().filter_map(|c| c.told["format_version"].as_u64());
        match formats.into_iter().find(|format| *format != FORMAT) {
            Some(format) => {
                format!(" (this rustdoc writes format {format}, and {FORMAT} is what is understood here: it may be that alone)")
            }
            None => String::new(),
        }
    }
}

impl Crate {
    fn read(dir: &Path, name: String) -> Result<Self> {
        let path = dir.join(&name).with_extension("json");
        let text = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let told: Value = serde_json::from_slice(&text).with_context(|| format!("{}", path.display()))?;
        let mut read = Self { name, told, by_path: HashMap::new(), public: HashMap::new() };
        let paths = read.told["paths"].as_object().context("rustdoc lists paths")?;
        let own = paths.iter().filter(|(_, p)| p["crate_id"] == 0);
        read.by_path = own.filter_map(|(id, _)| Some((read.path(id)?, id.clone()))).collect();
        let mut public = HashMap::new();
        read.find_public(read.root().context("a crate has a root")?, &read.name, &mut public);
        read.public = public;
        Ok(read)
    }

    fn find_public(&self, module: &Value, path: &str, found: &mut HashMap<String, String>) {
        for at in ids(&module["inner"]["module"]["items"]) {
            let Some(item) = self.item(&at) else { continue };
            let reexport = item["inner"].get("use");
            let (at, name) = reexport.map_or((at, &item["name"]), |r| (id(&r["id"]), &r["name"]));
            let public = format!("{path}::{}", name.as_str().unwrap_or("?"));
            if let Some(inner) = self.item(&at).filter(|inner| inner["inner"].get("module").is_some()) {
                self.find_public(inner, &public, found);
            }
            if let Some(defined) = self.path(&at).filter(|defined| defined.split("::").next() == Some(&self.name)) {
                let depth = |path: &String| path.matches("::").count();
                if found.get(&defined).is_none_or(|known| depth(known) > depth(&public)) {
                    found.insert(defined, public);
                }
            }
        }
    }

    /// The item of this crate with this id.
    pub(super) fn item(&self, id: &str) -> Option<&Value> {
        self.told["index"].get(id).filter(|item| item["crate_id"] == 0)
    }

    /// Where an item is defined, of whichever crate it is.
    pub(super) fn path(&self, id: &str) -> Option<String> {
        let parts: Option<Vec<&str>> = self.told["paths"].get(id)?["path"].as_array()?.iter().map(Value::as_str).collect();
        Some(parts?.join("::"))
    }

    pub(super) fn root(&self) -> Option<&Value> {
        self.item(&id(&self.told["root"]))
    }
}

/// An id, which is a number there and a text where it is looked up.
pub(super) fn id(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Those ids.
pub(super) fn ids(value: &Value) -> impl Iterator<Item = String> {
    value.as_array().into_iter().flatten().map(id)
}
