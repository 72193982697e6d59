//! Installs each package in a clean container without a network, as its users do, and runs commands with what was installed.

use super::{Release, call, file_name};
use crate::campaign::{Daemon, SKELETON_IMAGE};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A Debian with nothing but its base and pip.
const DEBIAN_IMAGE: &str = "debian-base";

/// A command of each kind, a stop, and what `doctor` says of the place (3: something is weaker there, nothing is broken).
const SMOKE: &str = r#"
outlast --version
code=0
outlast run --wait -- 'echo hello; exit 3' >/tmp/hello || code=$?
test "$code" = 3
grep -qx hello /tmp/hello
outlast run --name server -- sleep 600 >/dev/null
outlast list | grep -q server
outlast kill --all >/dev/null
outlast doctor --quick >/tmp/doctor || test "$?" = 3 || { cat /tmp/doctor; exit 1; }
outlast chat send main --command cat --wait 'is anyone there?' | grep -qx 'is anyone there?'
outlast gateway stop >/dev/null
outlast engine stop >/dev/null
"#;

/// Where a package is tried, and how it is installed there. `$package` is its path.
struct Trial {
    image: &'static str,
    install: &'static str,
}

fn trial_of(package: &Path) -> Result<Trial> {
    let name = file_name(package)?;
    Ok(if name.ends_with(".tar.gz") {
        Trial {
            image: DEBIAN_IMAGE,
            install: "mkdir /opt/outlast; tar -xzf $package -C /opt/outlast --strip-components=1; PATH=/opt/outlast/bin:$PATH",
        }
    } else if name.ends_with(".deb") {
        Trial { image: DEBIAN_IMAGE, install: "dpkg -i $package" }
    } else if name.ends_with(".whl") {
        Trial { image: DEBIAN_IMAGE, install: "pip install --quiet --no-index --break-system-packages --root-user-action=ignore $package" }
    } else if name.ends_with(".tgz") {
        // The image has the machine's own /usr, read-only, and npm with it.
        Trial { image: SKELETON_IMAGE, install: "npm install --silent --offline -g --prefix /root/npm $package; PATH=/root/npm/bin:$PATH" }
    } else {
        bail!("{name} is no package that can be tried")
    })
}

pub(super) fn run(packages: &[PathBuf], release: &Release) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let daemon = Daemon::start(&scratch.path().join("docker"))?;
    import_debian(&daemon, scratch.path())?;
    let dist = release.programs.parent().context("the programs lie below the directory of the packages")?;
    for package in packages {
        let trial = trial_of(package)?;
        let script = format!("set -eu\npackage=/dist/{}\n{}\n{SMOKE}", file_name(package)?, trial.install);
        let mut command = daemon.docker();
        command.args(["run", "--rm", "--network", "none", "-v"]).arg(format!("{}:/dist:ro", dist.display()));
        if trial.image == SKELETON_IMAGE {
            command.args(["-v", "/usr:/usr:ro"]);
        }
        let done = command.arg(trial.image).args(["/bin/sh", "-c", &script]).output()?;
        let said = String::from_utf8_lossy(&done.stdout);
        ensure!(
            done.status.success(),
            "{} does not work in a clean container ({}):\n{said}{}",
            package.display(),
            done.status,
            String::from_utf8_lossy(&done.stderr)
        );
        println!("tried in a clean container: {}", file_name(package)?);
    }
    Ok(())
}

/// Makes an image of a fresh Debian, of the same release as this machine.
fn import_debian(daemon: &Daemon, scratch: &Path) -> Result<()> {
    let release = std::fs::read_to_string("/etc/os-release")?;
    let suite = release.lines().find_map(|l| l.strip_prefix("VERSION_CODENAME=")).context("/etc/os-release names no Debian")?;
    let root = scratch.join("debian");
    call(Command::new("debootstrap").args(["--variant=minbase", "--include=python3-pip", suite]).arg(&root))
        .context("cannot make a clean Debian (needs the package debootstrap)")?;
    let archive = scratch.join("debian.tar");
    call(Command::new("tar").arg("-C").arg(&root).arg("-cf").arg(&archive).arg("."))?;
    call(daemon.docker().arg("import").arg(&archive).arg(DEBIAN_IMAGE))?;
    Ok(())
}
