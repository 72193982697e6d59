//! Completes a request with what only the sandbox knows: its environment, its shell, where its programs are.

use outlast_core::{Command, EnvVar, OsText};
use outlast_store::spec::{Kept, Launch};
use rustix::fs::Access;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The PATH of a sandbox that has none.
const SYSTEM_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
const USUAL_SHELLS: [&str; 2] = ["/usr/bin/bash", "/bin/bash"];
/// Names the directory in which commands start, if it is not the user's home directory.
const START_DIRECTORY: &[u8] = b"OUTLAST_START_DIRECTORY";
/// Our own settings, which are none of a command's business.
const OWN_PREFIX: &[u8] = b"OUTLAST_";

/// What a sandbox gives to its commands.
#[derive(Debug, Clone)]
pub(super) struct Surroundings {
    env: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Where commands start that name no directory.
    pub(super) cwd: PathBuf,
    /// The limit of open descriptors that this program was started with.
    nofile: Option<u64>,
}

impl Surroundings {
    /// The environment of this program, and the user's home directory.
    pub(super) fn of(env: impl IntoIterator<Item = (OsString, OsString)>, nofile: Option<u64>) -> Self {
        let all: BTreeMap<_, _> = env.into_iter().map(|(name, value)| (name.into_vec(), value.into_vec())).collect();
        let start = all.get(START_DIRECTORY).or_else(|| all.get(b"HOME".as_slice())).map(|dir| PathBuf::from(OsStr::from_bytes(dir)));
        let mut env: BTreeMap<_, _> = all.into_iter().filter(|(name, _)| !name.starts_with(OWN_PREFIX)).collect();
        if env.get(b"PATH".as_slice()).is_none_or(Vec::is_empty) {
            env.insert(b"PATH".to_vec(), SYSTEM_PATH.into());
        }
        let cwd = start.filter(|home| home.is_absolute() && home.is_dir()).unwrap_or_else(|| "/".into());
        Self { env, cwd, nofile }
    }

    /// The same request, ready for a keeper. What it says itself stands.
    pub(super) fn complete(&self, kept: &Kept, launch: Launch) -> Launch {
        let cwd = self.cwd.join(launch.cwd.as_path());
        let mut env = self.env.clone();
        env.insert(b"PWD".to_vec(), cwd.as_os_str().as_bytes().to_vec());
        env.extend(launch.env.iter().map(|v| (v.name.as_bytes().to_vec(), v.value.as_bytes().to_vec())));
        let path = env.get(b"PATH".as_slice()).cloned().unwrap_or_default();
        let mut argv = launch.argv;
        let program = match &kept.spec.command {
            Command::Shell(_) => {
                let shell = shell(&path);
                if let Some(first) = argv.first_mut() {
                    *first = shell.as_path().into();
                }
                shell
            }
            Command::Argv(_) => program(argv.first().map_or(&[][..], OsText::as_bytes), &path, &cwd),
        };
        let env = env.into_iter().map(|(name, value)| EnvVar { name: name.into(), value: value.into() }).collect();
        let nofile = launch.nofile.or(self.nofile);
        Launch { program: program.as_path().into(), argv, env, cwd: cwd.as_path().into(), nofile, engine: None, cgroup: None, ..launch }
    }
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, Access::EXEC_OK).is_ok()
}

/// Only absolute entries of PATH count, so that nothing depends on the directory in which a command happens to run.
fn entries(path: &[u8]) -> impl Iterator<Item = &Path> {
    path.split(|byte| *byte == b':').map(|dir| Path::new(OsStr::from_bytes(dir))).filter(|dir| dir.is_absolute())
}

/// bash, or the shell that every sandbox has.
fn shell(path: &[u8]) -> PathBuf {
    let on_path = entries(path).map(|dir| dir.join("bash"));
    on_path.chain(USUAL_SHELLS.map(PathBuf::from)).find(|shell| is_program(shell)).unwrap_or_else(|| "/bin/sh".into())
}

/// The file of a program. If there is none, a path that does not exist: a start that fails says so.
fn program(name: &[u8], path: &[u8], cwd: &Path) -> PathBuf {
    let name = Path::new(OsStr::from_bytes(name));
    if name.as_os_str().as_bytes().contains(&b'/') {
        return cwd.join(name);
    }
    let mut on_path = entries(path).map(|dir| dir.join(name)).filter(|file| file.exists()).peekable();
    let first = on_path.peek().cloned();
    on_path.find(|file| is_program(file)).or(first).unwrap_or_else(|| Path::new("/no-such-program").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn surroundings(vars: &[(&str, &str)]) -> Surroundings {
        Surroundings::of(vars.iter().map(|(n, v)| (OsString::from(n), OsString::from(v))), None)
    }

    #[test]
    fn a_sandbox_without_settings_has_a_path_and_a_directory() {
        let of = surroundings(&[("OUTLAST_TEST_POINTS", "/x"), ("HOME", "/no/such/home")]);
        assert_eq!(of.env.get(b"PATH".as_slice()).map(Vec::as_slice), Some(SYSTEM_PATH.as_bytes()));
        // PATH and HOME. Variables of our own stay out.
        assert_eq!((of.cwd.as_path(), of.env.len()), (Path::new("/"), 2));
    }

    #[test]
    fn programs_are_found_on_the_path_and_never_in_the_current_directory() {
        let tmp = tempfile::tempdir().unwrap();
        std::fs::write(tmp.path().join("build"), "").unwrap();
        let here = |name: &str, path: &str| program(name.as_bytes(), path.as_bytes(), tmp.path());
        assert_eq!(here("sh", "relative::/bin"), Path::new("/bin/sh"));
        assert_eq!(here("./build", "/bin"), tmp.path().join("./build"));
        assert!(!here("build", ".:/bin").exists());
        assert_eq!(here("build", tmp.path().to_str().unwrap()), tmp.path().join("build"), "the error names the file that is no program");
        assert!(shell(b"/no").is_absolute());
    }
}
