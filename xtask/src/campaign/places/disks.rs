//! Homes on file systems of their own: loop devices in a mount and PID namespace, which end with the last process in every case.

use super::bench::{Bench, Ran};
use super::sandboxes::has;
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disk {
    Ext4,
    Xfs,
    Btrfs,
    Overlay,
    Tmpfs,
}

/// What happens to the disk.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Good,
    Full,
    ReadOnly,
    /// The kernel finds an error and makes it read-only permanently.
    Failed,
}

pub(crate) const ALL: &[(&str, &str, Disk, State)] = &[
    ("ext4", "home on ext4", Disk::Ext4, State::Good),
    ("ext4-full", "filled up under running commands, and freed", Disk::Ext4, State::Full),
    ("ext4-read-only", "mounted read-only under running commands, and back", Disk::Ext4, State::ReadOnly),
    ("ext4-failed", "made read-only by the kernel after an error (`errors=remount-ro`)", Disk::Ext4, State::Failed),
    ("xfs", "home on XFS", Disk::Xfs, State::Good),
    ("xfs-full", "filled up under running commands, and freed", Disk::Xfs, State::Full),
    ("xfs-read-only", "mounted read-only under running commands, and back", Disk::Xfs, State::ReadOnly),
    ("btrfs", "home on btrfs", Disk::Btrfs, State::Good),
    ("btrfs-full", "filled up under running commands, and freed", Disk::Btrfs, State::Full),
    ("btrfs-read-only", "mounted read-only under running commands, and back", Disk::Btrfs, State::ReadOnly),
    ("overlay", "home from a lower layer of an overlayfs", Disk::Overlay, State::Good),
    ("overlay-full", "its upper layer filled up under running commands, and freed", Disk::Overlay, State::Full),
    ("overlay-read-only", "mounted read-only under running commands, and back", Disk::Overlay, State::ReadOnly),
    ("tmpfs", "home on a tmpfs", Disk::Tmpfs, State::Good),
    ("tmpfs-full", "filled up under running commands, and freed", Disk::Tmpfs, State::Full),
    ("tmpfs-read-only", "mounted read-only under running commands, and back", Disk::Tmpfs, State::ReadOnly),
];

pub(crate) fn enter(bench: &Bench, name: &str, disk: Disk, state: State) -> Result<Ran> {
    ensure!(outlast_testkit::machine::is_root(), "root is needed for mounts");
    let maker = match disk {
        Disk::Ext4 => Some(("mkfs.ext4", "e2fsprogs")),
        Disk::Xfs => Some(("mkfs.xfs", "xfsprogs")),
        Disk::Btrfs => Some(("mkfs.btrfs", "btrfs-progs")),
        Disk::Overlay | Disk::Tmpfs => None,
    };
    if let Some((program, package)) = maker {
        ensure!(has(program), "{program} is not installed (Debian: {package})");
    }
    let dir = bench.dir(name)?;
    let mount = dir.join("mount");
    std::fs::create_dir_all(&mount)?;
    let mut line = made(disk, state, &dir, &mount);
    line += " && \"$@\"; exit $?";
    // Made read-only beside its place and then moved there: a file that is opened for writing in between would keep it writable.
    let read_only = format!(
        "mkdir -p {1} && mount --bind {0} {1} && mount -o remount,bind,ro {1} && mount --move {1} {0}",
        mount.display(),
        dir.join("read-only").display()
    );
    let writable = format!("umount {}", mount.display());
    let layered = layer(&dir);
    let mut flags = match state {
        State::Good => vec![],
        State::Full => vec!["--set", "full"],
        State::ReadOnly => vec!["--set", "read-only", "--make-read-only", &read_only, "--make-writable", &writable],
        State::Failed => return failed(bench, &line, &mount),
    };
    if disk == Disk::Overlay && state == State::Good {
        flags.extend(["--layer", &layered]);
    }
    bench.run(mounted(&line, &bench.smoke(&mount, &flags)))
}

/// The shell command that creates the file system and mounts it.
fn made(disk: Disk, state: State, dir: &Path, mount: &Path) -> String {
    let image = dir.join("image");
    let (image, dir, mount) = (image.display(), dir.display(), mount.display());
    // XFS refuses to be smaller than 300 MiB.
    let size = if state == State::Full { "320M" } else { "2G" };
    match disk {
        Disk::Ext4 => format!("truncate -s {size} {image} && mkfs.ext4 -q -F {image} && mount -o loop,errors=remount-ro {image} {mount}"),
        Disk::Xfs => format!("truncate -s {size} {image} && mkfs.xfs -q -f {image} && mount -o loop {image} {mount}"),
        Disk::Btrfs => format!("truncate -s {size} {image} && mkfs.btrfs -q -f {image} && mount -o loop {image} {mount}"),
        Disk::Tmpfs => format!("mount -t tmpfs -o size={} tmpfs {mount}", if state == State::Full { "64M" } else { "2G" }),
        // The homes of the full set are created below and then covered by a layer.
        Disk::Overlay if state == State::Good => "true".to_owned(),
        Disk::Overlay => {
            let size = if state == State::Full { "64M" } else { "2G" };
            format!(
                "mkdir -p {dir}/lower {dir}/room && mount -t tmpfs -o size={size} tmpfs {dir}/room && mkdir {dir}/room/upper {dir}/room/work \
                 && mount -t overlay -o lowerdir={dir}/lower,upperdir={dir}/room/upper,workdir={dir}/room/work overlay {mount}"
            )
        }
    }
}

/// The shell command that covers a home with a layer, so that all its contents come from the lower one. `$1` is its directory.
fn layer(dir: &Path) -> String {
    let dir = dir.display();
    format!("mkdir -p {dir}/upper {dir}/work && mount -t overlay -o lowerdir=\"$1\",upperdir={dir}/upper,workdir={dir}/work overlay \"$1\"")
}

/// The call, with the mounts of `line` around it. The shell reaps in this PID namespace.
fn mounted(line: &str, smoke: &Command) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc", "--kill-child", "/bin/sh", "-c", line, "sh"]);
    command.arg(smoke.get_program()).args(smoke.get_args());
    command
}

/// A file system error is permanent, so each check has a disk of its own.
fn failed(bench: &Bench, line: &str, mount: &Path) -> Result<Ran> {
    let trigger = format!("d=$(basename \"$(findmnt -no SOURCE {})\") && echo places > /sys/fs/ext4/$d/trigger_fs_error", mount.display());
    let mut ran = Ran::default();
    for check in ["list_and_log_answer", "start_is_refused_at_once", "stop_works", "end_is_known"] {
        let flags = ["--set", "read-only", "--make-read-only", &trigger, "--only", check, "--keep"];
        ran.add(bench.run(mounted(line, &bench.smoke(mount, &flags)))?);
    }
    Ok(ran)
}
