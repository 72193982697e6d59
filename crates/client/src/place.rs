//! The namespaces in which this process runs.

use outlast_wire::v1::Namespaces;

/// The namespaces of this process.
pub(crate) fn namespaces() -> Namespaces {
    Namespaces::read(|path| match std::fs::read_link(path) {
        Ok(target) => target.into_os_string().into_string().ok(),
        Err(_) => std::fs::read_to_string(path).ok(),
    })
}
