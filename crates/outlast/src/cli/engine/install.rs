//! `outlast engine install`: a systemd unit of the user's that starts the engine with the machine.
//!
//! An engine that starts finds the processes that the restart ended, and notifies their sessions, also through hooks and webhooks. Then it
//! exits when it is idle.

use super::super::{Context, Failure};
use crate::os;
use clap::Args;
use outlast_client::code;
use serde_json::json;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Start the engine at boot, so that sessions are notified of processes that a restart ended
///
/// Writes a systemd user unit, and enables it. The engine that it starts finds the processes that were lost with the restart and notifies their sessions, also
/// through hooks and webhooks; then it exits when it is idle. Running it again changes nothing.
#[derive(Debug, Args)]
pub(super) struct EngineInstallArgs {
    /// Print the unit, and change nothing
    #[arg(long)]
    print: bool,
    /// Disable and remove it
    #[arg(long, conflicts_with = "print")]
    undo: bool,
    /// Write it even if systemd does not run now, for instance into an image
    #[arg(long, conflicts_with_all = ["print", "undo"])]
    force: bool,
}

/// The paths of the unit file and of the link that enables it.
struct UnitPaths {
    unit: PathBuf,
    wanted: PathBuf,
}

impl UnitPaths {
    fn of(ctx: &Context) -> Result<Self, Failure> {
        let dir = ctx.world.config_home().ok_or_else(|| Failure::refused("no home directory is known", "set HOME or XDG_CONFIG_HOME"))?;
        let (dir, name) = (dir.join("systemd/user"), name(ctx));
        Ok(Self { wanted: dir.join("default.target.wants").join(&name), unit: dir.join(name) })
    }
}

/// The unit, if it is installed for this home.
pub(in super::super) fn installed(ctx: &Context) -> Option<PathBuf> {
    let paths = UnitPaths::of(ctx).ok()?;
    (paths.unit.is_file() && paths.wanted.exists()).then_some(paths.unit)
}

/// The name of the unit. Each home has its own; the default home has the plain name.
fn name(ctx: &Context) -> String {
    match ctx.world.var("OUTLAST_HOME") {
        None => "outlast-engine.service".into(),
        Some(_) => {
            // FNV-1a: short and the same everywhere. A user has no reason to make two homes collide.
            let bytes = ctx.settings.home.as_os_str().as_encoded_bytes();
            let sum = bytes.iter().fold(0x811c_9dc5_u32, |sum, b| (sum ^ u32::from(*b)).wrapping_mul(0x0100_0193));
            format!("outlast-engine-{sum:08x}.service")
        }
    }
}

impl EngineInstallArgs {
    pub(super) async fn perform(self, ctx: &Context) -> Result<i32, Failure> {
        let paths = UnitPaths::of(ctx)?;
        if self.undo {
            return undo(ctx, &paths);
        }
        let text = unit(ctx)?;
        if self.print {
            match ctx.out.json {
                true => ctx.out.object(&json!({"status": "ok", "unit": paths.unit, "text": text}))?,
                false => ctx.out.text(&text)?,
            }
            return Ok(0);
        }
        if !os::systemd_runs() && !self.force {
            let start = format!("{} engine start", ctx.world.program.display());
            return Err(Failure::new(
                code::UNAVAILABLE,
                "no systemd looks after this machine, so a unit would start nothing",
                format!(
                    "have `{start}` run when the machine starts, for instance by the line `@reboot {start}` in `crontab -e`; --print shows the unit, --force writes it all the same"
                ),
            ));
        }
        let changed = write(&paths, &text).map_err(|e| Failure::fault(format!("cannot write {}: {e}", paths.unit.display()), ""))?;
        let mut notes = Vec::new();
        notes.extend(changed.then(reload).flatten());
        let (user, lingers) = (&ctx.world.user.name, os::lingers(&ctx.world.user.name));
        if !lingers {
            notes.push(format!("it runs when you log in first; `loginctl enable-linger {user}` has it run when the machine starts"));
        }
        for variable in &ctx.settings.sinks.secret_env {
            notes.push(format!("a webhook has its secret in {variable}, which the unit does not have: use secret_file instead"));
        }
        if ctx.out.json {
            let status = if changed { "installed" } else { "unchanged" };
            ctx.out.object(&json!({"status": status, "unit": paths.unit, "linger": lingers, "notes": notes}))?;
            return Ok(0);
        }
        let what = if changed { "written and enabled" } else { "is there already" };
        ctx.out.line(&format!("{} {what}", paths.unit.display()))?;
        notes.iter().for_each(|note| ctx.out.remark(note));
        Ok(0)
    }
}

/// The unit's text.
fn unit(ctx: &Context) -> Result<String, Failure> {
    let text = |path: &Path| {
        let bad =
            || Failure::refused(format!("the path {} is not valid UTF-8, which a unit needs", path.display()), "give it another name");
        path.to_str().map(str::to_owned).ok_or_else(bad)
    };
    let mut environment = String::new();
    let mut put = |name: &str, value: &str| environment += &format!("Environment={}\n", quoted(&format!("{name}={value}")));
    if ctx.world.var("OUTLAST_HOME").is_some() {
        put("OUTLAST_HOME", &text(&ctx.settings.home)?);
    }
    // The variables for settings, files and hooks. Secrets are left out, because other users may read the unit.
    for (name, value) in ctx.world.settings_env(&ctx.settings.sinks) {
        let (Some(name), Some(value)) = (name.to_str(), value.to_str()) else { continue };
        let setting = name.starts_with("OUTLAST_") && name != "OUTLAST_HOME" && !ctx.settings.sinks.secret_env.iter().any(|s| s == name);
        if setting || matches!(name, "PATH" | "XDG_CONFIG_HOME" | "XDG_STATE_HOME") {
            put(name, value);
        }
    }
    let program = quoted(&text(&ctx.world.program)?).replace('$', "$$");
    Ok(format!(
        "[Unit]
Description=Outlast: tell what the last restart of the machine ended
Documentation=man:outlast-engine-install(1)

[Service]
Type=oneshot
{environment}ExecStart={program} engine start
# The engine goes on when this is done, and so do the processes it starts.
KillMode=process

[Install]
WantedBy=default.target
"
    ))
}

/// A word, quoted for systemd.
fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '%' => out.push_str("%%"),
            c if c.is_control() => c.to_string().bytes().for_each(|b| out += &format!("\\x{b:02x}")),
            c => out.push(c),
        }
    }
    out + "\""
}

/// Writes and enables the unit. Returns whether anything changed.
fn write(paths: &UnitPaths, text: &str) -> io::Result<bool> {
    let dir = paths.wanted.parent().expect("it was joined to a directory");
    let name = paths.unit.file_name().expect("it was joined to a directory");
    let target = Path::new("..").join(name);
    let same = std::fs::read(&paths.unit).is_ok_and(|there| there == text.as_bytes());
    let wanted = std::fs::read_link(&paths.wanted).is_ok_and(|to| to == target || to == paths.unit);
    std::fs::create_dir_all(dir)?;
    if !same {
        // Replaced atomically, because systemd may be reading.
        let new = paths.unit.with_extension("new");
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o644).open(&new)?;
        file.write_all(text.as_bytes())?;
        // Independent of the umask: there is no secret in it.
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        file.sync_all()?;
        std::fs::rename(&new, &paths.unit)?;
    }
    if !wanted {
        remove(&paths.wanted)?;
        std::os::unix::fs::symlink(&target, &paths.wanted)?;
    }
    Ok(!same || !wanted)
}

fn undo(ctx: &Context, paths: &UnitPaths) -> Result<i32, Failure> {
    let cannot = |e: io::Error| Failure::fault(format!("cannot remove {}: {e}", paths.unit.display()), "");
    let was = remove(&paths.wanted).map_err(cannot)? | remove(&paths.unit).map_err(cannot)?;
    let note = was.then(reload).flatten();
    if ctx.out.json {
        ctx.out.object(&json!({"status": if was { "removed" } else { "absent" }, "unit": paths.unit, "notes": Vec::from_iter(note)}))?;
        return Ok(0);
    }
    ctx.out.line(&format!("{} {}", paths.unit.display(), if was { "removed" } else { "is not there" }))?;
    note.iter().for_each(|note| ctx.out.remark(note));
    Ok(0)
}

/// Removes a file. Returns whether there was one.
fn remove(path: &Path) -> io::Result<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(e),
    }
}

/// Makes systemd read its units again. Returns a note if that failed.
fn reload() -> Option<String> {
    if !os::systemd_runs() {
        return None;
    }
    let later = "it counts from the next login on, or after `systemctl --user daemon-reload`";
    let mut call = Command::new("systemctl");
    match call.args(["--user", "daemon-reload"]).stdin(Stdio::null()).output() {
        Ok(done) if done.status.success() => None,
        Ok(done) => Some(format!("systemd was not notified ({}): {later}", String::from_utf8_lossy(&done.stderr).trim())),
        Err(e) => Some(format!("systemd was not notified (cannot run systemctl: {e}): {later}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_as_systemd_reads_them() {
        assert_eq!(quoted("/opt/my programs/outlast"), "\"/opt/my programs/outlast\"");
        assert_eq!(quoted("a\"b\\c%d\n"), "\"a\\\"b\\\\c%%d\\x0a\"");
    }

    #[test]
    fn writing_twice_changes_nothing_and_undoing_leaves_nothing() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = tmp.path().join("systemd/user");
        let paths = UnitPaths { unit: dir.join("x.service"), wanted: dir.join("default.target.wants/x.service") };
        assert!(write(&paths, "one").unwrap());
        assert!(!write(&paths, "one").unwrap());
        assert!(write(&paths, "two").unwrap());
        assert_eq!(std::fs::read_to_string(&paths.wanted).unwrap(), "two", "the link leads to the unit");
        std::fs::remove_file(&paths.wanted).unwrap();
        assert!(write(&paths, "two").unwrap());
        assert!(remove(&paths.wanted).unwrap() && remove(&paths.unit).unwrap());
        assert!(!remove(&paths.unit).unwrap());
    }
}
