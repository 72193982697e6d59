//! Where the programs of agents are.

use super::AgentName;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Directories below the user's home in which installers put programs, and which only an interactive shell may have in its PATH.
const USUAL_DIRS: [&str; 8] =
    [".local/bin", "bin", ".npm-global/bin", ".opencode/bin", ".bun/bin", ".volta/bin", ".local/share/pnpm", ".cargo/bin"];

/// Why an agent cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no agent program {program:?}")]
#[non_exhaustive]
pub struct ProgramNotFound {
    /// What was looked for.
    pub program: String,
    /// What to do about it.
    pub hint: String,
}

/// Where programs of agents are looked for.
#[derive(Debug, Clone, Copy)]
pub struct AgentPaths<'a> {
    /// A directory with a link for each agent that was found before ([`remember_agent`]). It is looked at first.
    ///
    /// A gateway may be started by a shell, by an engine that an editor started, or at boot, and each of them has another PATH. With the link, an agent that was found
    /// once is found by every later gateway.
    pub known: &'a Path,
    /// The PATH of the gateway.
    pub path: &'a OsStr,
    /// The user's home directory.
    pub user_home: &'a Path,
}

/// The command of an agent, its program as an absolute path. Where it was found is remembered.
///
/// # Errors
///
/// If the program is in none of the places.
pub fn find_agent(agent: AgentName, paths: &AgentPaths<'_>) -> Result<Vec<String>, ProgramNotFound> {
    let [program, arguments @ ..] = agent.acp_command() else { unreachable!("every agent has a program") };
    let usual: Vec<PathBuf> = USUAL_DIRS.iter().map(|dir| paths.user_home.join(dir)).collect();
    let found = remembered(agent, paths.known)
        .or_else(|| find_in(std::env::split_paths(paths.path), program))
        .or_else(|| find_in(usual.into_iter(), program));
    let Some(found) = found else {
        let (install, name) = (agent.install_hint(), agent.as_str());
        let hint = format!("{install}; if it is installed, name it in config.toml: `argv` in [gateway.agents.{name}]");
        return Err(ProgramNotFound { program: (*program).to_owned(), hint });
    };
    link(agent, &found, paths.known);
    let found = found.to_string_lossy().into_owned();
    Ok(std::iter::once(found).chain(arguments.iter().map(|&word| word.to_owned())).collect())
}

/// Notes where the PATH of a person has an agent, for gateways that have another PATH. Nothing is noted if the PATH does not have it.
pub fn remember_agent(agent: AgentName, path: &OsStr, known: &Path) {
    if let Some(found) = find_in(std::env::split_paths(path), agent.acp_command()[0]) {
        link(agent, &found, known);
    }
}

/// The program that a link names, if that is still there.
fn remembered(agent: AgentName, known: &Path) -> Option<PathBuf> {
    let program = std::fs::read_link(known.join(agent.as_str())).ok()?;
    (program.is_absolute() && is_executable(&program)).then_some(program)
}

/// Makes the link, or replaces it whole if it names another program.
fn link(agent: AgentName, program: &Path, known: &Path) {
    let link = known.join(agent.as_str());
    if std::fs::read_link(&link).is_ok_and(|named| named == program) {
        return;
    }
    let made = known.join(format!(".{}.{}", agent.as_str(), std::process::id()));
    // A home that is not there or cannot be written to has no links: then the PATH alone counts.
    let _unnoted = own_dir(known).and_then(|()| std::os::unix::fs::symlink(program, &made)).and_then(|()| std::fs::rename(&made, &link));
}

/// Makes a directory for the user alone, in one that is there.
fn own_dir(dir: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    match std::fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        made => made,
    }
}

/// The first of the directories that has the program. A path that is not text cannot be named in a command line of ours.
fn find_in(dirs: impl Iterator<Item = PathBuf>, program: &str) -> Option<PathBuf> {
    dirs.filter(|dir| dir.is_absolute()).map(|dir| dir.join(program)).find(|file| file.to_str().is_some() && is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    // Any of the three bits: the engine's refusal is more exact than a guess here.
    std::fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program_in(dir: &Path, name: &str) -> PathBuf {
        std::fs::create_dir_all(dir).unwrap();
        let file = dir.join(name);
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn every_agent_is_found_by_its_name_and_in_a_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = std::env::join_paths([Path::new("relative"), Path::new("/nowhere"), dir.path()]).unwrap();
        let known = dir.path().join("known");
        let paths = AgentPaths { known: &known, path: &path, user_home: Path::new("/nowhere") };
        for agent in AgentName::ALL {
            assert_eq!(agent.as_str().parse(), Ok(agent));
            let missing = find_agent(agent, &paths).unwrap_err();
            assert_eq!((missing.program.as_str(), missing.hint.contains("argv")), (agent.acp_command()[0], true));
            let file = dir.path().join(agent.acp_command()[0]);
            std::fs::write(&file, "").unwrap();
            assert!(find_agent(agent, &paths).is_err(), "it cannot be executed");
            program_in(dir.path(), agent.acp_command()[0]);
            let found = find_agent(agent, &paths).unwrap();
            assert_eq!((found[0].as_str(), found.len()), (file.to_str().unwrap(), agent.acp_command().len()));
        }
        assert!("bash".parse::<AgentName>().unwrap_err().hint.contains("opencode"));
    }

    #[test]
    fn an_agent_that_was_found_once_is_found_with_any_path_for_as_long_as_it_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let (known, user_home, agent) = (dir.path().join("known"), dir.path().join("home"), AgentName::Kimi);
        let own = program_in(&dir.path().join("own"), "kimi");
        let usual = program_in(&user_home.join(".local/bin"), "kimi");
        let found = |path: &Path| {
            find_agent(agent, &AgentPaths { known: &known, path: path.as_os_str(), user_home: &user_home }).map(|argv| argv[0].clone())
        };
        remember_agent(agent, OsStr::new("/nowhere"), &known);
        assert!(!known.exists(), "what is not there is not noted");
        remember_agent(agent, own.parent().unwrap().as_os_str(), &known);
        assert_eq!(found(Path::new("/nowhere")).unwrap(), own.to_str().unwrap());
        // The person's shell finds another one now.
        let newer = program_in(&dir.path().join("newer"), "kimi");
        remember_agent(agent, newer.parent().unwrap().as_os_str(), &known);
        assert_eq!(found(own.parent().unwrap()).unwrap(), newer.to_str().unwrap());
        std::fs::remove_file(&newer).unwrap();
        assert_eq!(found(own.parent().unwrap()).unwrap(), own.to_str().unwrap());
        std::fs::remove_file(&own).unwrap();
        assert_eq!(found(Path::new("/nowhere")).unwrap(), usual.to_str().unwrap());
        std::fs::remove_file(&usual).unwrap();
        assert!(found(Path::new("/nowhere")).is_err());
    }
}
