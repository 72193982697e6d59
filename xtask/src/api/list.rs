//! Lists all items that can be reached from the roots, each with its path and its signature.

use super::rustdoc::{Crate, Library, id, ids};
use super::show::Show;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

type Lines = BTreeMap<String, BTreeSet<String>>;

/// Traits that do not matter to users, or depend on the compiler.
const UNTOLD: [&str; 1] = ["StructuralPartialEq"];
/// Auto traits that users rely on.
const AUTO: [&str; 2] = ["Send", "Sync"];

/// All items that `roots` show.
pub(super) fn of(library: &Library, roots: &[&str]) -> Result<Lines> {
    let mut walk = Walk { library, lines: Lines::new(), done: BTreeSet::new() };
    for name in roots {
        let of = library.get(name).with_context(|| format!("{name} was not documented"))?;
        walk.module(of, of.root().context("a crate has a root")?, name);
    }
    Ok(walk.lines)
}

struct Walk<'a> {
    library: &'a Library,
    lines: Lines,
    /// Types of which everything is listed.
    done: BTreeSet<String>,
}

impl<'a> Walk<'a> {
    fn say(&mut self, path: &str, what: impl Into<String>) {
        self.lines.entry(path.to_owned()).or_default().insert(what.into());
    }

    /// The items of one of our modules, under the path by which it is reached.
    fn module(&mut self, of: &'a Crate, module: &'a Value, path: &str) {
        for item in ids(&module["inner"]["module"]["items"]).filter_map(|id| of.item(&id)) {
            match item["inner"].get("use") {
                Some(reexport) => self.reexport(of, reexport, path),
                None => self.named(of, item, &format!("{path}::{}", name(item))),
            }
        }
    }

    fn reexport(&mut self, of: &'a Crate, reexport: &'a Value, path: &str) {
        let target = self.library.resolve(of, &id(&reexport["id"]));
        match target {
            Some((other, item)) if reexport["is_glob"] == true => self.module(other, item, path),
            Some((other, item)) => self.named(other, item, &format!("{path}::{}", reexport["name"].as_str().unwrap_or("?"))),
            None => {
                let source = reexport["source"].as_str().unwrap_or("?").to_owned();
                self.say(&format!("{path}::{}", reexport["name"].as_str().unwrap_or("?")), format!("use {source}"));
            }
        }
    }

    /// An item that users reach by this path. A type is listed once, under the path of its definition.
    fn named(&mut self, of: &'a Crate, item: &'a Value, path: &str) {
        let Some((kind, inner)) = item["inner"].as_object().and_then(|all| all.iter().next()) else { return };
        match kind.as_str() {
            "module" => self.module(of, item, path),
            "struct" | "enum" | "trait" | "union" => {
                let own = self.library.public(of, &id(&item["id"])).unwrap_or_else(|| path.to_owned());
                if own != path {
                    self.say(path, format!("use {own}"));
                }
                self.type_(of, item, &own);
            }
            "function" => self.showing(of, path, |show| show.function(inner)),
            "constant" => self.showing(of, path, |show| format!("const {}", show.ty(&inner["type"]))),
            "type_alias" => {
                self.showing(of, path, |show| format!("type{} = {}", show.generics(&inner["generics"]), show.ty(&inner["type"])))
            }
            other => self.say(path, other.to_owned()),
        }
    }

    /// Adds a line about an item, and lists our types that the line mentions.
    fn showing(&mut self, of: &'a Crate, path: &str, what: impl FnOnce(&mut Show<'a>) -> String) {
        let mut show = Show { library: self.library, of, mentions: BTreeSet::new() };
        let text = what(&mut show);
        self.say(path, text);
        for id in show.mentions {
            if let (Some(public), Some((other, item))) = (self.library.public(of, &id), self.library.resolve(of, &id)) {
                self.type_(other, item, &public);
            }
        }
    }

    fn type_(&mut self, of: &'a Crate, item: &'a Value, path: &str) {
        let Some((kind, inner)) = item["inner"].as_object().and_then(|all| all.iter().next()) else { return };
        if !matches!(kind.as_str(), "struct" | "enum" | "trait") || !self.done.insert(path.to_owned()) {
            return;
        }
        let open =
            item["attrs"].as_array().into_iter().flatten().any(|a| a == "non_exhaustive" || a.to_string().contains("non_exhaustive"));
        let open = if open { "#[non_exhaustive] " } else { "" };
        match kind.as_str() {
            "struct" => self.struct_(of, inner, path, open),
            "enum" => {
                self.showing(of, path, |show| format!("{open}enum{}", show.generics(&inner["generics"])));
                for variant in ids(&inner["variants"]).filter_map(|id| of.item(&id)) {
                    self.variant(of, variant, &format!("{path}::{}", name(variant)));
                }
            }
            _ => self.trait_(of, inner, path),
        }
        for one in ids(&inner["impls"]).filter_map(|id| of.item(&id)) {
            self.impl_(of, &one["inner"]["impl"], path);
        }
    }

    fn struct_(&mut self, of: &'a Crate, inner: &'a Value, path: &str, open: &str) {
        let (fields, hides) = fields(&inner["kind"]);
        let hides = if hides && open.is_empty() { " with private fields" } else { "" };
        self.showing(of, path, |show| format!("{open}struct{}{hides}", show.generics(&inner["generics"])));
        self.fields(of, &fields, path);
    }

    fn variant(&mut self, of: &'a Crate, variant: &'a Value, path: &str) {
        let (fields, _) = fields(&variant["inner"]["variant"]["kind"]);
        self.say(path, "variant");
        self.fields(of, &fields, path);
    }

    fn fields(&mut self, of: &'a Crate, fields: &[String], path: &str) {
        for field in fields.iter().filter_map(|id| of.item(id)) {
            self.showing(of, &format!("{path}::{}", name(field)), |show| format!("field {}", show.ty(&field["inner"]["struct_field"])));
        }
    }

    fn trait_(&mut self, of: &'a Crate, inner: &'a Value, path: &str) {
        self.showing(of, path, |show| format!("trait{}", show.generics(&inner["generics"])));
        for item in ids(&inner["items"]).filter_map(|id| of.item(&id)) {
            let (at, function) = (format!("{path}::{}", name(item)), &item["inner"]["function"]);
            match function.is_null() {
                false => {
                    let word = if function["has_body"] == true { "provided" } else { "required" };
                    self.showing(of, &at, |show| format!("{word} {}", show.function(function)));
                }
                true => self.say(&at, "required type or constant"),
            }
        }
    }

    /// The methods and the traits of a type.
    fn impl_(&mut self, of: &'a Crate, inner: &'a Value, path: &str) {
        if !inner["blanket_impl"].is_null() {
            return;
        }
        if inner["trait"].is_null() {
            for item in ids(&inner["items"]).filter_map(|id| of.item(&id)).filter(|item| item["visibility"] == "public") {
                self.named(of, item, &format!("{path}::{}", name(item)));
            }
            return;
        }
        let simple = super::show::last(inner["trait"]["path"].as_str().unwrap_or_default());
        if UNTOLD.contains(&simple) || (inner["is_synthetic"] == true && !AUTO.contains(&simple)) {
            return;
        }
        let not = if inner["is_negative"] == true { "!" } else { "" };
        let mut show = Show { library: self.library, of, mentions: BTreeSet::new() };
        let text = format!("impl {not}{}", show.path(&inner["trait"]));
        // Types that only an implementation mentions are not followed: a conversion from an inner type does not make it public.
        self.say(path, text);
    }
}

fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or("?")
}

/// The public ones, and whether there are private ones.
fn fields(kind: &Value) -> (Vec<String>, bool) {
    for plain in ["plain", "struct"] {
        if let Some(plain) = kind.get(plain) {
            return (ids(&plain["fields"]).collect(), plain["has_stripped_fields"] == true);
        }
    }
    match kind.get("tuple").and_then(Value::as_array) {
        Some(tuple) => (tuple.iter().filter(|f| !f.is_null()).map(id).collect(), tuple.iter().any(Value::is_null)),
        None => (Vec::new(), false),
    }
}
