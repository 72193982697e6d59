//! The machine on which the figures were measured.

use anyhow::Result;
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;

/// The facts about it that readers need.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    processors: usize,
    model: String,
    memory: u64,
    kernel: String,
    disk: String,
    compiler: String,
    bash: String,
}

impl Machine {
    pub(super) fn look(disk: &Path) -> Result<Self> {
        let field = |path: &str, name: &str| -> Option<String> {
            let text = std::fs::read_to_string(path).ok()?;
            let line = text.lines().find(|l| l.starts_with(name))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let said = |program: &str, args: &[&str]| -> Option<String> {
            let out = Command::new(program).args(args).output().ok()?;
            Some(String::from_utf8_lossy(&out.stdout).lines().next()?.to_owned())
        };
        let unknown = || "unknown".to_owned();
        let kib = field("/proc/meminfo", "MemTotal").and_then(|t| t.trim_end_matches(" kB").parse::<u64>().ok());
        Ok(Self {
            processors: std::thread::available_parallelism()?.get(),
            model: field("/proc/cpuinfo", "model name").unwrap_or_else(unknown),
            memory: kib.unwrap_or(0) << 10,
            kernel: std::fs::read_to_string("/proc/sys/kernel/osrelease").map(|t| t.trim().to_owned()).unwrap_or_else(|_| unknown()),
            disk: said("findmnt", &["--noheadings", "--output", "FSTYPE", "--target", &disk.to_string_lossy()]).unwrap_or_else(unknown),
            compiler: said("rustc", &["--version"]).unwrap_or_else(unknown),
            bash: said("bash", &["-c", "echo bash $BASH_VERSION"]).unwrap_or_else(unknown),
        })
    }

    pub(super) fn facts(&self) -> Value {
        json!({
            "processors": self.processors, "model": self.model, "memory": self.memory, "kernel": self.kernel,
            "disk": self.disk, "compiler": self.compiler, "bash": self.bash,
        })
    }

    /// In one sentence.
    pub(crate) fn sentence(&self) -> String {
        format!(
            "{} processors ({}), {:.0} GB of memory, Linux {}, {} on its disk, {}, {}.",
            self.processors,
            self.model,
            self.memory as f64 / 1e9,
            self.kernel,
            self.disk,
            self.compiler,
            self.bash
        )
    }
}
