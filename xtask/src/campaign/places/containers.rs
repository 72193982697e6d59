//! Docker and Podman: an empty image with this machine's `/usr` mounted read-only, so that nothing has to be downloaded.

use super::bench::{Bench, Ran, smoke_args};
use anyhow::{Context, Result, bail, ensure};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How a container is run.
pub(crate) struct Container {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Flags of `docker run`.
    flags: &'static [&'static str],
    /// The directory of the homes.
    dir: &'static str,
    /// Whether PID 1 is a shell, which reaps; otherwise it is the smoke set itself, which does not.
    has_reaper: bool,
}

pub(crate) const DOCKER: &[Container] = &[
    Container { name: "docker-root", about: "default profile, as root", flags: &[], dir: "/root", has_reaper: true },
    Container {
        name: "docker-user",
        about: "`--user 1000:1000`",
        flags: &["--user", "1000:1000", "-e", "HOME=/home/agent"],
        dir: "/home/agent",
        has_reaper: true,
    },
    Container { name: "docker-init", about: "`--init`", flags: &["--init"], dir: "/root", has_reaper: false },
    Container { name: "docker-no-reaper", about: "a PID 1 that does not reap", flags: &[], dir: "/root", has_reaper: false },
    Container {
        name: "docker-read-only",
        about: "`--read-only` with a `--tmpfs` (noexec) for the home",
        flags: &["--read-only", "--tmpfs", "/root", "--tmpfs", "/tmp"],
        dir: "/root",
        has_reaper: true,
    },
    Container {
        name: "docker-volume",
        about: "the home on a named volume",
        flags: &["-v", "homes:/homes"],
        dir: "/homes",
        has_reaper: true,
    },
    Container {
        name: "docker-no-capabilities",
        about: "`--cap-drop ALL --security-opt no-new-privileges`",
        flags: &["--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
        dir: "/root",
        has_reaper: true,
    },
];

pub(crate) const PODMAN: &[Container] =
    &[Container { name: "podman", about: "default profile, as root", flags: &[], dir: "/root", has_reaper: true }];

/// The command inside, after the name of the image.
fn inside(kind: &Container) -> Vec<String> {
    let bin = Path::new("/outlast");
    let mut args = Vec::new();
    if kind.has_reaper {
        args.extend(["/bin/sh", "-c", "\"$@\"; exit $?", "sh"].map(str::to_owned));
    }
    args.push(bin.join("xtask").display().to_string());
    args.extend(smoke_args(bin, Path::new(kind.dir), &[]));
    args
}

/// The mounts that give the empty image a user land.
fn mounts(bench: &Bench) -> Vec<String> {
    // Some programs of Debian are links to links there.
    let alternatives = Path::new("/etc/alternatives").exists().then(|| "/etc/alternatives:/etc/alternatives:ro".to_owned());
    let from = ["/usr:/usr:ro".to_owned(), format!("{}:/outlast:ro", bench.bin().display())].into_iter().chain(alternatives);
    from.flat_map(|mount| ["-v".to_owned(), mount]).collect()
}

pub(crate) fn docker(bench: &Bench, kind: &Container) -> Result<Ran> {
    let mut command = docker_run(bench, kind.flags)?;
    command.arg(IMAGE).args(inside(kind));
    bench.run(command)
}

/// `docker run` with the flags of every container here, up to the name of the image.
pub(crate) fn docker_run(bench: &Bench, flags: &[&str]) -> Result<Command> {
    let mut command = bench.daemon()?.docker();
    command.args(["run", "--rm", "--network", "none"]).args(mounts(bench)).args(flags);
    Ok(command)
}

pub(crate) const IMAGE: &str = "skeleton";

/// Creates the empty root of a container below `dir`.
fn skeleton(dir: &Path) -> Result<()> {
    for name in ["etc", "tmp", "root", "home/agent", "homes", "proc", "sys", "dev", "run", "var/tmp", "outlast", "usr", "sbin"] {
        std::fs::create_dir_all(dir.join(name))?;
    }
    // Docker puts its init into /sbin, so that must not be a link into a read-only directory.
    for name in ["bin", "lib", "lib64"] {
        symlink(format!("usr/{name}"), dir.join(name))?;
    }
    let users = "root:x:0:0:root:/root:/bin/bash\nagent:x:1000:1000:agent:/home/agent:/bin/bash\n";
    std::fs::write(dir.join("etc/passwd"), users)?;
    std::fs::write(dir.join("etc/group"), "root:x:0:\nagent:x:1000:\n")?;
    for name in ["tmp", "var/tmp"] {
        std::fs::set_permissions(dir.join(name), PermissionsExt::from_mode(0o1777))?;
    }
    chown(dir.join("home/agent"), Some(1000), Some(1000)).context("give a home to its user")?;
    Ok(())
}

/// A dockerd of our own that leaves the machine's network alone.
#[derive(Debug)]
pub(crate) struct Daemon {
    dir: PathBuf,
    child: Child,
}

impl Daemon {
    pub(crate) fn start(dir: &Path) -> Result<Self> {
        ensure!(outlast_testkit::machine::is_root(), "root is needed for dockerd");
        std::fs::create_dir_all(dir)?;
        let log = std::fs::File::create(dir.join("log"))?;
        let mut command = Command::new("dockerd");
        command
            .arg("--data-root")
            .arg(dir.join("data"))
            .arg("--exec-root")
            .arg(dir.join("exec"))
            .args(["-H", &format!("unix://{}", dir.join("socket").display())])
            .arg("--pidfile")
            .arg(dir.join("pid"))
            .args(["--iptables=false", "--ip6tables=false", "--ip-forward=false", "--bridge=none"])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let child = command.spawn().context("dockerd is not installed (Debian: docker.io)")?;
        let mut daemon = Self { dir: dir.to_owned(), child };
        let began = Instant::now();
        while !daemon.docker().arg("version").output().context("docker is not installed (Debian: docker.io)")?.status.success() {
            let over = daemon.child.try_wait()?;
            if over.is_some() || began.elapsed() > Duration::from_secs(30) {
                let log = std::fs::read_to_string(daemon.dir.join("log")).unwrap_or_default();
                bail!("dockerd does not start: {}", log.lines().last().unwrap_or("it says nothing"));
            }
            // Only an answer shows that dockerd is ready; 30 s is the bound.
            std::thread::sleep(Duration::from_millis(50));
        }
        let root = dir.join("root");
        skeleton(&root)?;
        let archive = dir.join("root.tar");
        call(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg("."))?;
        call(daemon.docker().arg("import").arg(&archive).arg(IMAGE))?;
        Ok(daemon)
    }

    /// A call of its command line.
    pub(crate) fn docker(&self) -> Command {
        let mut command = Command::new("docker");
        command.args(["-H", &format!("unix://{}", self.dir.join("socket").display())]).env("DOCKER_CONFIG", &self.dir);
        command
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let listed =
            self.docker().args(["ps", "-aq"]).output().map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
        for id in listed.lines() {
            let _gone = self.docker().args(["rm", "-f", id]).output();
        }
        if let Some(pid) = rustix::process::Pid::from_raw(self.child.id() as i32) {
            // On TERM, dockerd ends its containerd and unmounts its mounts.
            let _gone = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        let _reaped = self.child.wait();
        unmount_below(&self.dir);
    }
}

/// Unmounts everything below a directory, the innermost first.
pub(crate) fn unmount_below(dir: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let below = mounts.lines().filter_map(|l| l.split(' ').nth(1)).filter(|at| Path::new(at).starts_with(dir));
    for at in below.collect::<Vec<_>>().into_iter().rev() {
        let _busy = Command::new("umount").arg(at).output();
    }
}

pub(crate) fn call(command: &mut Command) -> Result<()> {
    let done = command.output().with_context(|| format!("run {}", command.get_program().display()))?;
    ensure!(done.status.success(), "{}: {}", command.get_program().display(), String::from_utf8_lossy(&done.stderr).trim());
    Ok(())
}

/// Podman needs no daemon. Its images, containers and settings are below a directory of ours.
pub(crate) fn podman(bench: &Bench, kind: &Container) -> Result<Ran> {
    ensure!(outlast_testkit::machine::is_root(), "root is needed");
    let dir = bench.dir("podman")?;
    let root = dir.join("rootfs");
    if !root.exists() {
        skeleton(&root)?;
    }
    let settings = dir.join("containers.conf");
    // A machine without CAP_SYS_RESOURCE cannot raise limits, and crun refuses hybrid cgroups.
    std::fs::write(
        &settings,
        "[containers]\ndefault_ulimits = [\"nofile=1024:1024\", \"nproc=4096:4096\"]\n[engine]\nruntime = \"runc\"\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n",
    )?;
    let podman = |verb: &[&str]| {
        let mut command = Command::new("podman");
        command.env("CONTAINERS_CONF", &settings).arg("--root").arg(dir.join("store")).arg("--runroot").arg(dir.join("run")).args(verb);
        command
    };
    podman(&["version"]).output().context("podman is not installed (Debian: podman runc)")?;
    let mut command = podman(&["run", "--rm", "--network", "none"]);
    command.args(mounts(bench)).args(kind.flags).arg("--rootfs").arg(&root).args(inside(kind));
    let ran = bench.run(command);
    let _none_left = podman(&["rm", "-af"]).output();
    unmount_below(&dir);
    ran
}
