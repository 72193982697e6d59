//! Linux: whether this is a container, and whether it is a laptop.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// The inode number of a kernel's initial PID namespace. All other namespaces have other numbers.
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// A container, by the program that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Container {
    Docker,
    Podman,
    Kubernetes,
    /// A PID namespace without the marks of a known runtime: another container program, or a sandbox.
    Unnamed,
}

/// Where the program runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Surroundings {
    pub(crate) container: Option<Container>,
    /// The name of process 1.
    pub(crate) init: String,
    /// Whether this seems to be a laptop: it has a battery.
    pub(crate) has_battery: bool,
    pub(crate) has_systemd: bool,
}

/// The facts that tell a container from a machine.
#[derive(Debug, Default)]
struct Marks {
    has_docker_file: bool,
    has_podman_file: bool,
    has_kubernetes_secrets: bool,
    has_own_pids: bool,
    has_overlay_root: bool,
    /// Process 1 is a service manager, as on machines and in whole-system containers.
    has_service_manager: bool,
}

impl Surroundings {
    /// Reads the facts.
    pub(crate) fn here() -> Self {
        let init = std::fs::read_to_string("/proc/1/comm").unwrap_or_default().trim().to_owned();
        let marks = Marks {
            has_docker_file: Path::new("/.dockerenv").exists(),
            has_podman_file: Path::new("/run/.containerenv").exists(),
            has_kubernetes_secrets: Path::new("/run/secrets/kubernetes.io").exists()
                || Path::new("/var/run/secrets/kubernetes.io").exists(),
            has_own_pids: std::fs::metadata("/proc/self/ns/pid").is_ok_and(|ns| ns.ino() != FIRST_PID_NAMESPACE),
            has_overlay_root: super::file_system(Path::new("/")).is_some_and(|(kind, _)| kind == "overlayfs"),
            has_service_manager: super::systemd_runs() || ["systemd", "init"].contains(&init.as_str()),
        };
        let has_battery = has_battery(Path::new("/sys/class/power_supply"));
        Self { container: marks.container(), init, has_battery, has_systemd: super::systemd_runs() }
    }
}

impl Marks {
    /// A file alone proves nothing: a virtual machine may have been made from a container image.
    fn container(&self) -> Option<Container> {
        let is_apart = self.has_own_pids || self.has_overlay_root;
        match () {
            () if !is_apart => None,
            () if self.has_kubernetes_secrets => Some(Container::Kubernetes),
            () if self.has_podman_file => Some(Container::Podman),
            () if self.has_docker_file => Some(Container::Docker),
            () if self.has_own_pids && !self.has_service_manager => Some(Container::Unnamed),
            () => None,
        }
    }
}

/// Whether one of the power supplies is the machine's own battery, not that of a mouse.
fn has_battery(supplies: &Path) -> bool {
    let all = std::fs::read_dir(supplies).into_iter().flatten().flatten().map(|entry| entry.path());
    let is = |dir: &Path, file: &str, value: &str| std::fs::read_to_string(dir.join(file)).is_ok_and(|text| text.trim() == value);
    all.into_iter().any(|dir| is(&dir, "type", "Battery") && !is(&dir, "scope", "Device"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn containers_are_told_from_machines() {
        let docker = || Marks { has_docker_file: true, has_own_pids: true, has_overlay_root: true, ..Marks::default() };
        assert_eq!(docker().container(), Some(Container::Docker));
        assert_eq!(Marks { has_own_pids: false, ..docker() }.container(), Some(Container::Docker), "with --pid=host");
        assert_eq!(Marks { has_own_pids: false, has_overlay_root: false, ..docker() }.container(), None, "a machine made from an image");
        assert_eq!(Marks { has_podman_file: true, has_docker_file: false, ..docker() }.container(), Some(Container::Podman));
        assert_eq!(Marks { has_kubernetes_secrets: true, ..docker() }.container(), Some(Container::Kubernetes));
        let sandbox = || Marks { has_own_pids: true, ..Marks::default() };
        assert_eq!(sandbox().container(), Some(Container::Unnamed));
        assert_eq!(Marks { has_service_manager: true, ..sandbox() }.container(), None, "a whole system in a container");
        assert_eq!(Marks { has_overlay_root: true, has_service_manager: true, ..Marks::default() }.container(), None, "a live system");
    }

    #[test]
    fn the_battery_of_a_mouse_makes_no_laptop() {
        let tmp = tempfile::tempdir().unwrap();
        let supply = |name: &str, files: &[(&str, &str)]| {
            std::fs::create_dir(tmp.path().join(name)).unwrap();
            files.iter().for_each(|(file, text)| std::fs::write(tmp.path().join(name).join(file), text).unwrap());
        };
        supply("AC", &[("type", "Mains\n")]);
        supply("hidpp_battery_0", &[("type", "Battery\n"), ("scope", "Device\n")]);
        assert!(!has_battery(tmp.path()));
        supply("BAT0", &[("type", "Battery\n")]);
        assert!(has_battery(tmp.path()));
    }
}
