//! Other kernels, emulated: Debian's, with an initramfs of the few programs that the smoke set needs, and the homes on ext4.

use super::bench::{Bench, Ran, smoke_args};
use super::containers::call;
use super::sandboxes::has;
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kernel, and the user that runs the smoke set on it.
#[derive(Clone, Copy)]
pub(crate) struct Kernel {
    /// The beginning of the name of Debian's package.
    package: &'static str,
    /// The suite that has it.
    suite: &'static str,
    user: bool,
}

const fn kernel(package: &'static str, suite: &'static str, user: bool) -> Kernel {
    Kernel { package, suite, user }
}

pub(crate) const ALL: &[(&str, &str, Kernel)] = &[
    ("kernel-5.10-root", "Linux 5.10, emulated", kernel("linux-image-5.10.0-", "bullseye", false)),
    ("kernel-5.10-user", "the same, as an ordinary user", kernel("linux-image-5.10.0-", "bullseye", true)),
    ("kernel-6.1-root", "Linux 6.1, emulated", kernel("linux-image-6.1.0-", "bookworm", false)),
    ("kernel-6.1-user", "the same, as an ordinary user", kernel("linux-image-6.1.0-", "bookworm", true)),
    ("kernel-6.12-root", "Linux 6.12, emulated", kernel("linux-image-6.12.", "trixie", false)),
    ("kernel-6.12-user", "the same, as an ordinary user", kernel("linux-image-6.12.", "trixie", true)),
];

/// The programs that smoke checks and shells call.
const PROGRAMS: &[&str] =
    &["bash", "cat", "chmod", "env", "head", "mkdir", "mount", "pwd", "rm", "setpriv", "setsid", "sh", "sleep", "touch", "tr", "true"];
/// The modules that the disk needs, in this order. Some kernels have some of them built in.
const MODULES: &str = "virtio_pci virtio_blk crc32c_generic crc32c crc16 mbcache jbd2 ext4";

pub(crate) fn enter(bench: &Bench, name: &str, kernel: Kernel) -> Result<Ran> {
    for (program, package) in [
        ("qemu-system-x86_64", "qemu-system-x86"),
        ("busybox", "busybox-static"),
        ("mke2fs", "e2fsprogs"),
        ("depmod", "kmod"),
        ("dpkg-deb", "dpkg"),
        ("xz", "xz-utils"),
        ("strip", "binutils"),
    ] {
        ensure!(has(program), "{program} is not installed (Debian: {package})");
    }
    let dir = bench.dir(name)?;
    let unpacked = unpacked(bench, kernel)?;
    let image = only(&unpacked.join("boot"), "vmlinuz-")?;
    let initrd = initrd(bench, &dir, &unpacked, kernel.user)?;
    let disk = dir.join("disk");
    call(Command::new("truncate").args(["-s", "2G"]).arg(&disk))?;
    call(Command::new("mke2fs").args(["-q", "-t", "ext4"]).arg(&disk))?;
    let mut command = Command::new("qemu-system-x86_64");
    command
        .args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max,-cx16,-la57", "-m", "2G", "-smp", "2"])
        .args(["-nographic", "-no-reboot", "-nodefaults", "-serial", "stdio", "-append", "console=ttyS0 quiet loglevel=0 panic=-1"])
        .arg("-kernel")
        .arg(image)
        .arg("-initrd")
        .arg(initrd)
        .args(["-drive", &format!("file={},format=raw,if=virtio", disk.display())]);
    let ran = bench.run(command);
    // The files are large, and the next place does not need them.
    std::fs::remove_dir_all(&dir)?;
    ran
}

/// Unpacks the kernel's package below the bench. Package lists of its own leave those of this machine alone.
fn unpacked(bench: &Bench, kernel: Kernel) -> Result<PathBuf> {
    let dir = bench.dir(&format!("apt-{}", kernel.suite))?;
    let to = dir.join("unpacked");
    if to.exists() {
        return Ok(to);
    }
    for name in ["lists/partial", "cache/archives/partial", "empty"] {
        std::fs::create_dir_all(dir.join(name))?;
    }
    std::fs::write(dir.join("sources.list"), format!("deb {} {} main\n", mirror()?, kernel.suite))?;
    let apt = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(&dir);
        for (key, name) in [("Dir::State::lists", "lists"), ("Dir::Cache", "cache"), ("Dir::Etc::sourceparts", "empty")] {
            command.args(["-o", &format!("{key}={}", dir.join(name).display())]);
        }
        command.args(["-o", &format!("Dir::Etc::sourcelist={}", dir.join("sources.list").display()), "-o", "APT::Sandbox::User=root"]);
        command
    };
    call(apt("apt-get").args(["-q", "update"]))?;
    let names = apt("apt-cache").args(["search", "--names-only", &format!("^{}", kernel.package.replace('.', "\\."))]).output()?;
    let names = String::from_utf8_lossy(&names.stdout).into_owned();
    let name = names.lines().filter_map(|l| l.split(' ').next()).filter(|n| n.ends_with("-cloud-amd64")).max_by_key(|n| version(n));
    let name = name.with_context(|| format!("{} has no {}*-cloud-amd64", kernel.suite, kernel.package))?;
    call(apt("apt-get").args(["-q", "download", name]))?;
    call(Command::new("dpkg-deb").arg("-x").arg(only(&dir, name)?).arg(&to))?;
    Ok(to)
}

/// The numbers in a name, to find the newest.
fn version(name: &str) -> Vec<u32> {
    name.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

/// The mirror from which this machine installs packages.
fn mirror() -> Result<String> {
    let told = Command::new("apt-get").args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]).output()?;
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    Ok(told.lines().find(|l| l.trim_end_matches('/').ends_with("debian")).context("apt has no source of Debian")?.to_owned())
}

/// The one file in `dir` whose name begins with `begins`.
fn only(dir: &Path, begins: &str) -> Result<PathBuf> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(begins)) {
            return Ok(path);
        }
    }
    bail!("{} has no {begins}*", dir.display())
}

/// Packs what the guest needs: busybox as its init, the programs with their libraries, ours, and the modules of the disk.
fn initrd(bench: &Bench, dir: &Path, unpacked: &Path, user: bool) -> Result<PathBuf> {
    let root = dir.join("root");
    for name in ["bin", "sbin", "dev", "proc", "sys", "tmp", "run", "etc", "root", "homes", "outlast", "usr/bin", "lib", "lib64"] {
        std::fs::create_dir_all(root.join(name))?;
    }
    let mut programs: Vec<PathBuf> = Vec::new();
    for name in PROGRAMS {
        let found = ["/usr/bin", "/usr/sbin", "/bin"].iter().map(|d| Path::new(d).join(name)).find(|p| p.is_file());
        let found = found.with_context(|| format!("{name} is missing"))?;
        std::fs::copy(&found, root.join("usr/bin").join(name))?;
        symlink(format!("/usr/bin/{name}"), root.join("bin").join(name))?;
        programs.push(found);
    }
    for entry in std::fs::read_dir(bench.bin())? {
        let from = entry?.path();
        let to = root.join("outlast").join(from.file_name().context("a name")?);
        call(Command::new("strip").arg("-o").arg(&to).arg(&from))?;
        programs.push(from);
    }
    for library in libraries(&programs)? {
        let to = root.join(library.strip_prefix("/")?);
        std::fs::create_dir_all(to.parent().context("a directory")?)?;
        std::fs::copy(&library, to)?;
    }
    std::fs::copy("/bin/busybox", root.join("bin/busybox"))?;
    std::fs::write(root.join("etc/passwd"), "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000:agent:/tmp:/bin/bash\n")?;
    std::fs::write(root.join("etc/group"), "root:x:0:\nagent:x:1000:\n")?;
    modules(unpacked, &root)?;
    let init = root.join("init");
    std::fs::write(&init, init_script(user))?;
    std::fs::set_permissions(&init, PermissionsExt::from_mode(0o755))?;
    let packed = dir.join("initrd.gz");
    let line = format!("find . | busybox cpio -o -H newc 2>/dev/null | gzip -1 > '{}'", packed.display());
    call(Command::new("/bin/sh").args(["-c", &line]).current_dir(&root))?;
    std::fs::remove_dir_all(&root)?;
    Ok(packed)
}

/// The libraries that the programs are linked with, and the loader.
fn libraries(programs: &[PathBuf]) -> Result<BTreeSet<PathBuf>> {
    let mut all = BTreeSet::new();
    for program in programs {
        let told = Command::new("ldd").arg(program).output()?;
        let told = String::from_utf8_lossy(&told.stdout).into_owned();
        all.extend(told.split_whitespace().filter(|w| w.starts_with('/')).map(PathBuf::from));
    }
    Ok(all)
}

/// Unpacks the modules that a disk may need, with the list of their dependencies.
fn modules(unpacked: &Path, root: &Path) -> Result<()> {
    let from = [unpacked.join("lib/modules"), unpacked.join("usr/lib/modules")].into_iter().find(|d| d.exists()).context("no modules")?;
    let to = root.join("lib/modules");
    std::fs::create_dir_all(&to)?;
    let version = only(&from, "")?;
    let name = version.file_name().context("a version")?;
    let line = "cd \"$1\" && find kernel/fs kernel/drivers/virtio kernel/drivers/block kernel/lib kernel/crypto kernel/arch/x86/crypto \\
                \\( -name 'virtio*' -o -name 'ext4*' -o -name 'jbd2*' -o -name 'mbcache*' -o -name 'crc*' \\) -type f -exec cp --parents -t \"$2\" {} + ; \\
                cp modules.* \"$2\" && find \"$2\" -name '*.ko.xz' -exec xz -d {} + && depmod -b \"$3\" \"$4\"";
    let kept = to.join(name);
    std::fs::create_dir_all(&kept)?;
    call(Command::new("/bin/sh").args(["-c", line, "sh"]).arg(&version).arg(&kept).arg(root).arg(name))
}

fn init_script(user: bool) -> String {
    let who = if user { "/usr/bin/setpriv --reuid=1000 --regid=1000 --clear-groups " } else { "" };
    // Under emulation, everything takes ten to fifty times as long.
    let smoke = smoke_args(Path::new("/outlast"), Path::new("/homes"), &["--bound", "600"]).join(" ");
    format!(
        "#!/bin/busybox sh
echo
busybox mount -t proc proc /proc
busybox mount -t sysfs sysfs /sys
busybox mount -t devtmpfs dev /dev
busybox mkdir -p /dev/pts /dev/shm
busybox mount -t devpts -o ptmxmode=666,mode=620 devpts /dev/pts
busybox mount -t tmpfs -o mode=1777 tmpfs /dev/shm
busybox mount -t tmpfs -o mode=1777 tmpfs /tmp
busybox mount -t cgroup2 cgroup /sys/fs/cgroup
for m in {MODULES}; do busybox modprobe $m 2>/dev/null; done
busybox mount -t ext4 /dev/vda /homes || echo 'FAILED boot: the disk cannot be mounted'
busybox chmod 1777 /homes
export PATH=/usr/bin:/bin HOME=/tmp
{who}/outlast/xtask {smoke}
busybox poweroff -f
"
    )
}
