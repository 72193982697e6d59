//! `outlast report`

mod archive;
mod collect;
mod configuration;
mod mask;

use super::{Context, Failure, times};
use clap::Args;
use mask::Mask;
use serde_json::json;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// Write a redacted bundle for a bug report
///
/// The bundle is one file, a tar.gz. It has versions, what `doctor --quick` finds, facts about the kernel, container and file system, the configuration, the
/// ends of the logs of engine and gateway, the list of processes, how many notices are in which state, and sizes in the home. It never has environment variables
/// or the output of processes. Secrets of known forms are masked, also if security.redact_secrets is off, and your home directory is written as ~. What is in
/// it is listed before it is written. Look through it before you send it.
///
/// It needs no running engine, starts none, and works with a configuration that cannot be read.
#[derive(Debug, Args)]
pub(crate) struct Report {
    /// The file to write; it must not exist [default: outlast-report-DATE-TIME.tar.gz in the current directory]
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Leave out commands and names of processes
    #[arg(long)]
    no_commands: bool,
}

/// A file of the bundle.
pub(super) struct Entry {
    name: &'static str,
    /// What is in it, for the list that is shown first.
    about: &'static str,
    text: String,
}

impl Report {
    pub(crate) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let stamp = times::now().to_string().chars().filter(char::is_ascii_digit).take(14).collect::<String>();
        let name = format!("outlast-report-{}-{}", &stamp[..8], &stamp[8..]);
        let path = self.to.as_ref().map_or_else(|| ctx.world.cwd.join(format!("{name}.tar.gz")), |to| ctx.world.path(to));
        check(&path)?;
        let mask = Mask::new(ctx.world.user.home.as_deref());
        let mut entries = collect::everything(ctx, &mask, !self.no_commands).await;
        entries.insert(0, about(&name, &entries));
        ctx.out.remark(&format!("{} gets:", path.display()));
        for entry in &entries {
            ctx.out.remark(&format!("  {:<15} {:>8}  {}", entry.name, times::size(entry.text.len() as u64), entry.about));
        }
        let seconds = u64::try_from(times::now().micros() / 1_000_000).unwrap_or(0);
        write(&path, &archive::tar_gz(&name, &entries, seconds))?;
        if ctx.out.json {
            let files: Vec<_> = entries.iter().map(|e| json!({"name": e.name, "bytes": e.text.len(), "about": e.about})).collect();
            ctx.out.object(&json!({"path": path, "files": files}))?;
        } else {
            ctx.out.line(&path.display().to_string())?;
            ctx.out.tip("secrets of known forms are masked: look through it before you send it");
        }
        Ok(0)
    }
}

fn about(name: &str, entries: &[Entry]) -> Entry {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!(
        "{name}, written by outlast {version}\n\nSecrets of known forms are masked, and the home directory of the user is written as ~.\n\n"
    );
    for entry in entries {
        text += &format!("{:<15} {}\n", entry.name, entry.about);
    }
    Entry { name: "README.txt", about: "the version, and this list", text }
}

/// Refuses a file that cannot be written, before anything is collected.
fn check(path: &Path) -> Result<(), Failure> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    if path.symlink_metadata().is_ok() {
        return Err(cannot_write(path, &std::io::ErrorKind::AlreadyExists.into()));
    }
    rustix::fs::access(dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK).map_err(|e| cannot_write(path, &e.into()))
}

fn cannot_write(path: &Path, why: &std::io::Error) -> Failure {
    let shown = path.display();
    match why.kind() {
        std::io::ErrorKind::AlreadyExists => Failure::refused(format!("{shown} exists"), "name another file with --to"),
        _ => Failure::refused(format!("cannot write {shown}: {why}"), "name a file that can be written with --to"),
    }
}

/// Writes a file that must not exist, for its owner alone.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let open = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let written = open.and_then(|mut file| {
        let written = file.write_all(bytes).and_then(|()| file.sync_all());
        if written.is_err() {
            // Half a bundle is of no use. If it cannot be removed either, the error below names it.
            let _half = std::fs::remove_file(path);
        }
        written
    });
    written.map_err(|e| cannot_write(path, &e))
}
