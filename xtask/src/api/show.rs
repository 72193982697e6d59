//! Types and signatures as one line of text.

use super::rustdoc::{Crate, Library, id};
use serde_json::Value;
use std::collections::BTreeSet;

/// Texts about the items of one crate. Remembers which of our own items they mention.
pub(super) struct Show<'a> {
    pub(super) library: &'a Library,
    pub(super) of: &'a Crate,
    pub(super) mentions: BTreeSet<String>,
}

impl Show<'_> {
    /// A function, without its name.
    pub(super) fn function(&mut self, f: &Value) -> String {
        let header = &f["header"];
        let word = |flag: &str, word: &'static str| if header[flag] == true { word } else { "" };
        let words = [word("is_const", "const "), word("is_async", "async "), word("is_unsafe", "unsafe ")].concat();
        let inputs = f["sig"]["inputs"].as_array().into_iter().flatten();
        let inputs: Vec<String> = inputs.map(|pair| self.input(pair[0].as_str().unwrap_or_default(), &pair[1])).collect();
        let output = match &f["sig"]["output"] {
            Value::Null => String::new(),
            ty => format!(" -> {}", self.ty(ty)),
        };
        format!("{words}fn{}({}){output}{}", self.generics(&f["generics"]), inputs.join(", "), self.bounds_where(&f["generics"]))
    }

    fn input(&mut self, name: &str, ty: &Value) -> String {
        let shown = self.ty(ty);
        match (name, shown.as_str()) {
            ("self", "Self") => "self".into(),
            ("self", "&Self") => "&self".into(),
            ("self", "&mut Self") => "&mut self".into(),
            // Names of arguments are not part of the interface.
            _ => shown,
        }
    }

    /// `<T: Bound>`, or nothing. `impl Trait` in an argument is shown there.
    pub(super) fn generics(&mut self, generics: &Value) -> String {
        let mut all = Vec::new();
        for param in generics["params"].as_array().into_iter().flatten() {
            let name = param["name"].as_str().unwrap_or_default();
            let ty = &param["kind"]["type"];
            if ty["is_synthetic"] == true {
                continue;
            }
            all.push(match self.bounds(&ty["bounds"]) {
                bounds if bounds.is_empty() => name.to_owned(),
                bounds => format!("{name}: {bounds}"),
            });
        }
        if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
    }

    fn bounds_where(&mut self, generics: &Value) -> String {
        let mut all = Vec::new();
        for one in generics["where_predicates"].as_array().into_iter().flatten() {
            let bound = &one["bound_predicate"];
            if !bound.is_null() {
                all.push(format!("{}: {}", self.ty(&bound["type"]), self.bounds(&bound["bounds"])));
            }
        }
        if all.is_empty() { String::new() } else { format!(" where {}", all.join(", ")) }
    }

    fn bounds(&mut self, bounds: &Value) -> String {
        let mut all = Vec::new();
        for bound in bounds.as_array().into_iter().flatten() {
            if let Some(outlives) = bound["outlives"].as_str() {
                all.push(outlives.to_owned());
            } else if !bound["trait_bound"].is_null() {
                let question = if bound["trait_bound"]["modifier"] == "maybe" { "?" } else { "" };
                all.push(format!("{question}{}", self.path(&bound["trait_bound"]["trait"])));
            }
        }
        all.join(" + ")
    }

    /// A type.
    pub(super) fn ty(&mut self, ty: &Value) -> String {
        let Some((kind, of)) = ty.as_object().and_then(|all| all.iter().next()) else { return ty.as_str().unwrap_or("?").into() };
        match kind.as_str() {
            "resolved_path" => self.path(of),
            "primitive" | "generic" => of.as_str().unwrap_or("?").into(),
            "borrowed_ref" => {
                let life = of["lifetime"].as_str().map_or_else(String::new, |life| format!("{life} "));
                let word = if of["is_mutable"] == true { "mut " } else { "" };
                format!("&{life}{word}{}", self.ty(&of["type"]))
            }
            "tuple" => format!("({})", self.all(of)),
            "slice" => format!("[{}]", self.ty(of)),
            "array" => format!("[{}; {}]", self.ty(&of["type"]), of["len"].as_str().unwrap_or("?")),
            "impl_trait" => format!("impl {}", self.bounds(of)),
            "dyn_trait" => {
                let traits: Vec<String> = of["traits"].as_array().into_iter().flatten().map(|t| self.path(&t["trait"])).collect();
                format!("dyn {}", traits.join(" + "))
            }
            "qualified_path" => {
                format!("<{} as {}>::{}", self.ty(&of["self_type"]), self.path(&of["trait"]), of["name"].as_str().unwrap_or("?"))
            }
            // None of our types has one so far. A change would show anyway.
            _ => ty.to_string(),
        }
    }

    fn all(&mut self, types: &Value) -> String {
        let all: Vec<String> = types.as_array().into_iter().flatten().map(|ty| self.ty(ty)).collect();
        all.join(", ")
    }

    /// A type or trait: ours by the path that users have for it, others by their name.
    pub(super) fn path(&mut self, path: &Value) -> String {
        let (id, written) = (id(&path["id"]), path["path"].as_str().unwrap_or("?"));
        let name = match self.library.public(self.of, &id) {
            Some(public) => {
                self.mentions.insert(id);
                public
            }
            None => self.of.path(&id).map_or_else(|| last(written).to_owned(), |whole| last(&whole).to_owned()),
        };
        format!("{name}{}", self.args(&path["args"]))
    }

    fn args(&mut self, args: &Value) -> String {
        let mut all = Vec::new();
        if let Some(call) = args.get("parenthesized") {
            let output = if call["output"].is_null() { String::new() } else { format!(" -> {}", self.ty(&call["output"])) };
            return format!("({}){output}", self.all(&call["inputs"]));
        }
        for arg in args["angle_bracketed"]["args"].as_array().into_iter().flatten() {
            match (arg["lifetime"].as_str(), arg.get("type")) {
                (Some(life), _) => all.push(life.to_owned()),
                (None, Some(ty)) => all.push(self.ty(ty)),
                (None, None) => all.push(arg["const"]["expr"].as_str().unwrap_or("_").to_owned()),
            }
        }
        for bound in args["angle_bracketed"]["constraints"].as_array().into_iter().flatten() {
            let name = bound["name"].as_str().unwrap_or("?");
            match bound["binding"].get("equality") {
                Some(is) => all.push(format!("{name} = {}", self.ty(is.get("type").unwrap_or(is)))),
                None => all.push(format!("{name}: {}", self.bounds(&bound["binding"]["constraint"]))),
            }
        }
        if all.is_empty() { String::new() } else { format!("<{}>", all.join(", ")) }
    }
}

pub(super) fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap_or(path)
}
