//! `cargo xtask check`: modules of a crate form no cycles, and those of the engine keep to their layers.
//!
//! The graph comes from the text of the files: `use` declarations and paths, each followed through re-exports to the module that defines
//! the name. Tests are left out. Cycles are looked for between the children of each module, where a child stands for everything below it.
//! A parent and its child may use each other.

use crate::source::{self, Module, is_name};
use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The layers of the engine with their modules, low to high. A module may use those of its own layer and of lower ones.
const ENGINE_LAYERS: &[(&str, &str)] = &[
    (
        "base",
        "bytes cgroup clients clock_jumps closing config disk fork_server gateways limits link log_file logout masks mutex near os own_home points \
         program retain run_dir shell spare_folders views",
    ),
    ("folder", "adopt facts final_record keepers left_behind orphan render"),
    ("index", "index"),
    ("notices", "instances notices refuse"),
    ("table", "handle listing table"),
    ("supervise", "barrier feed intake launch links owner parts reach recover remove stop stop_left supervise"),
    ("serve", "engine gateway_watch listen serve"),
];

/// What is wrong with the modules of our crates.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for dir in std::fs::read_dir(root.join("crates")).context("cannot list crates")? {
        let dir = dir?;
        let name = dir.file_name().to_string_lossy().into_owned();
        let graph = Graph::of_crate(&dir.path().join("src"))?;
        for cycle in graph.cycles() {
            wrong.push(format!("modules form a cycle in {name}, {}: {}", cycle.named(), cycle.example.join(", ")));
        }
        if name == "engine" {
            wrong.extend(upward(&graph));
        }
    }
    Ok(wrong)
}

/// Uses of a higher layer in the engine, and modules without a layer.
fn upward(graph: &Graph) -> Vec<String> {
    let layer = |module: &String| ENGINE_LAYERS.iter().position(|(_, modules)| modules.split(' ').any(|m| m == module));
    let mut wrong = Vec::new();
    for ((from, to), examples) in graph.between_children(&[]) {
        let (Some(low), Some(high)) = (layer(&from), layer(&to)) else { continue };
        if high > low {
            let (low, high) = (ENGINE_LAYERS[low].0, ENGINE_LAYERS[high].0);
            wrong.push(format!("the engine's {from} ({low}) must not use {to} ({high}), which is a layer above: {}", examples.join(", ")));
        }
    }
    let modules = graph.children(&[]);
    wrong.extend(modules.iter().filter(|m| layer(m).is_none()).map(|m| format!("the engine's {m} has no layer in xtask/src/modules.rs")));
    let placed = ENGINE_LAYERS.iter().flat_map(|(_, modules)| modules.split(' '));
    let gone = placed.filter(|m| !modules.contains(*m));
    wrong.extend(gone.map(|m| format!("xtask/src/modules.rs has a layer for the engine's {m}, which does not exist")));
    wrong
}

/// Children of one module that use each other.
struct Cycle {
    parent: String,
    members: BTreeSet<String>,
    /// One way round, each step with the files.
    example: Vec<String>,
}

impl Cycle {
    fn named(&self) -> String {
        let members: Vec<&str> = self.members.iter().map(String::as_str).collect();
        format!("{:?}, {members:?}", self.parent)
    }
}

/// The modules of a crate, and which uses which.
struct Graph {
    files: BTreeMap<Module, PathBuf>,
    uses: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    fn of_crate(src: &Path) -> Result<Self> {
        let (mut files, mut names) = (BTreeMap::new(), BTreeMap::new());
        for file in source::modules(src)? {
            names.insert(file.module.clone(), Names::of(&file.tokens));
            files.insert(file.module, file.path);
        }
        let sources = Sources { names };
        let uses = sources.names.iter().map(|(here, names)| {
            let used = names.used().filter_map(|path| sources.defining(here, path)).filter(|used| used != here);
            (here.clone(), used.collect())
        });
        Ok(Self { uses: uses.collect(), files })
    }

    fn children(&self, parent: &[String]) -> BTreeSet<String> {
        self.uses.keys().filter(|m| is_below(m, parent)).map(|m| m[parent.len()].clone()).collect()
    }

    /// Which child of a module uses which other, and the files in which it does.
    fn between_children(&self, parent: &[String]) -> BTreeMap<Pair, Vec<String>> {
        let mut pairs: BTreeMap<Pair, Vec<String>> = BTreeMap::new();
        for (from, used) in self.uses.iter().filter(|(m, _)| is_below(m, parent)) {
            for to in used.iter().filter(|m| is_below(m, parent) && m[parent.len()] != from[parent.len()]) {
                let files = format!("{} uses {}", self.files[from].display(), self.files[to].display());
                pairs.entry((from[parent.len()].clone(), to[parent.len()].clone())).or_default().push(files);
            }
        }
        pairs
    }

    fn cycles(&self) -> Vec<Cycle> {
        let parents: BTreeSet<&[String]> = self.uses.keys().filter_map(|m| m.split_last().map(|(_, parent)| parent)).collect();
        parents.into_iter().flat_map(|parent| self.cycles_below(parent)).collect()
    }

    fn cycles_below(&self, parent: &[String]) -> Vec<Cycle> {
        let pairs = self.between_children(parent);
        let reached_from = |module: &String| {
            let (mut reached, mut open) = (BTreeSet::new(), vec![module.clone()]);
            while let Some(at) = open.pop() {
                let next = pairs.keys().filter(|(from, _)| *from == at).map(|(_, to)| to);
                open.extend(next.filter(|to| reached.insert((*to).clone())).cloned());
            }
            reached
        };
        let reached: BTreeMap<String, BTreeSet<String>> =
            self.children(parent).into_iter().map(|m| (m.clone(), reached_from(&m))).collect();
        let on_cycles = reached.iter().filter(|(m, from_there)| from_there.contains(*m));
        let groups: BTreeSet<BTreeSet<String>> =
            on_cycles.map(|(m, from_there)| from_there.iter().filter(|other| reached[*other].contains(m)).cloned().collect()).collect();
        let cycle = |members: BTreeSet<String>| {
            let round = members.iter().filter_map(|m| way_back(&pairs, m)).min_by_key(Vec::len).unwrap_or_default();
            Cycle { parent: parent.join("::"), example: round.iter().map(|pair| pairs[*pair][0].clone()).collect(), members }
        };
        groups.into_iter().map(cycle).collect()
    }
}

type Pair = (String, String);

/// The shortest way from a module to itself.
fn way_back<'a>(pairs: &'a BTreeMap<Pair, Vec<String>>, module: &str) -> Option<Vec<&'a Pair>> {
    let (mut ways, mut seen): (Vec<Vec<&Pair>>, _) = (vec![Vec::new()], BTreeSet::new());
    while !ways.is_empty() {
        let mut longer = Vec::new();
        for way in ways {
            let at = way.last().map_or(module, |pair| &pair.1);
            for pair in pairs.keys().filter(|pair| pair.0 == at) {
                let way = [way.as_slice(), &[pair]].concat();
                if pair.1 == module {
                    return Some(way);
                }
                if seen.insert(&pair.1) {
                    longer.push(way);
                }
            }
        }
        ways = longer;
    }
    None
}

fn is_below(module: &[String], parent: &[String]) -> bool {
    module.len() > parent.len() && module.starts_with(parent)
}

/// The modules of a crate, and what each names.
struct Sources {
    names: BTreeMap<Module, Names>,
}

impl Sources {
    /// The module that defines what a path in `here` leads to; nothing for a path into another crate.
    fn defining(&self, here: &Module, path: &[String]) -> Option<Module> {
        let (mut at, mut rest) = (here.clone(), path);
        match rest.first()?.as_str() {
            "crate" => (at, rest) = (Module::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|name| name == "super") {
                    at.pop()?;
                    rest = &rest[1..];
                }
            }
            child if !self.has(&at, child) => return None,
            _ => {}
        }
        // A name that is imported where the path leads is followed, each module once.
        let mut seen = BTreeSet::new();
        while let Some(name) = rest.first() {
            if self.has(&at, name) {
                at.push(name.clone());
                rest = &rest[1..];
                continue;
            }
            let import = self.names[&at].imports.iter().find(|(shown, _)| shown == name);
            let Some((_, path)) = import.filter(|_| seen.insert(at.clone())) else { break };
            match self.defining(&at, path) {
                Some(found) if found != at => return Some(found),
                Some(_) | None => break,
            }
        }
        Some(at)
    }

    fn has(&self, module: &Module, child: &str) -> bool {
        self.names.contains_key(&[module.as_slice(), &[child.to_owned()]].concat())
    }
}

/// What a file names.
struct Names {
    /// What `use` declarations bring in: under which name, and from where.
    imports: Vec<(String, Vec<String>)>,
    paths: Vec<Vec<String>>,
}

impl Names {
    fn of(tokens: &[String]) -> Self {
        let mut names = Self { imports: Vec::new(), paths: Vec::new() };
        let mut at = 0;
        while at < tokens.len() {
            if tokens[at] == "use" {
                at = names.import(tokens, at + 1, &[]);
            } else if is_name(&tokens[at]) && (at == 0 || tokens[at - 1] != "::") {
                let mut path = vec![tokens[at].clone()];
                while tokens.get(at + 1).is_some_and(|t| t == "::") && tokens.get(at + 2).is_some_and(|t| is_name(t)) {
                    path.push(tokens[at + 2].clone());
                    at += 2;
                }
                if path.len() > 1 {
                    names.paths.push(path);
                }
            }
            at += 1;
        }
        names
    }

    /// Takes in one tree of a `use` declaration, and says where it ends.
    fn import(&mut self, tokens: &[String], mut at: usize, before: &[String]) -> usize {
        let mut path = before.to_vec();
        while let Some(token) = tokens.get(at) {
            match token.as_str() {
                "::" => {}
                "{" => {
                    while tokens.get(at).is_some_and(|t| t != "}") {
                        at = self.import(tokens, at + 1, &path);
                    }
                    return at + 1;
                }
                "as" => {
                    self.imports.push((tokens[at + 1].clone(), path));
                    return at + 2;
                }
                name if is_name(name) || name == "*" => path.push(name.to_owned()),
                _ => break,
            }
            at += 1;
        }
        if path.len() > before.len() {
            let is_itself = path.last().is_some_and(|name| name == "self") && path.len() > 1;
            path.truncate(path.len() - usize::from(is_itself));
            self.imports.push((path.last().cloned().unwrap_or_default(), path));
        }
        at
    }

    fn used(&self) -> impl Iterator<Item = &[String]> {
        self.imports.iter().map(|(_, path)| path.as_slice()).chain(self.paths.iter().map(Vec::as_slice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(files: &[(&str, &str)]) -> Graph {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Graph::of_crate(dir.path()).unwrap()
    }

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        graph(files).cycles().iter().map(Cycle::named).collect()
    }

    #[test]
    fn modules_that_use_each_other_are_found_through_reexports_and_paths() {
        let lib = ("lib.rs", "mod a;\nmod b;\nmod c;\nuse b::Name;");
        let b = ("b/mod.rs", "mod deep;\npub(crate) use deep::Name;");
        let found = cycles(&[
            lib,
            ("a.rs", "use crate::{Name, c::*};"),
            b,
            ("b/deep.rs", "fn f() { crate::c::g::<u8>() }"),
            ("c.rs", "use super::a;"),
        ]);
        assert_eq!(found, [r#""", ["a", "b", "c"]"#]);
        let inside =
            cycles(&[("lib.rs", "mod b;"), ("b.rs", "mod x; mod y;"), ("b/x.rs", "use super::y::Y as Z;"), ("b/y.rs", "use super::x;")]);
        assert_eq!(inside, [r#""b", ["x", "y"]"#]);
    }

    #[test]
    fn parents_tests_comments_and_strings_do_not_count() {
        let lib = ("lib.rs", "mod a;\nmod b;");
        let a = (
            "a.rs",
            "mod child;\nuse child::C;\n#[cfg(test)]\nmod tests { use crate::b; }\n#[cfg(test)]\nuse crate::b::{B};\nfn f<'a>() {}",
        );
        let child =
            ("a/child.rs", "use super::f;\n// crate::b::B\n/* crate::b::B */\nconst S: &str = r#\"crate::b::B\"#;\nconst T: char = '\"';");
        let files = [lib, a, child, ("b.rs", "use crate::a::f;\nconst S: &str = \"\\\"crate::b::B\";")];
        assert_eq!(cycles(&files), [""; 0]);
        assert_eq!(graph(&files).between_children(&[]).into_keys().collect::<Vec<_>>(), [("b".to_owned(), "a".to_owned())]);
    }
}
