//! A command that is ready to be executed.

use crate::limits::PreparedLimits;
use outlast_store::spec::Launch;
use std::ffi::CString;

/// A command in the form that the kernel takes. Made before the fork, because the child must not allocate memory.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) program: CString,
    pub(crate) argv: Vec<CString>,
    pub(crate) env: Vec<CString>,
    pub(crate) cwd: CString,
    pub(crate) pty: bool,
    pub(crate) umask: u32,
    pub(crate) limits: Option<PreparedLimits>,
    pub(crate) nofile: Option<u64>,
    pub(crate) oom: Option<String>,
}

impl Prepared {
    pub(crate) fn new(launch: &Launch, pty: bool) -> Self {
        // The engine refuses NULs. If one came through, the kernel would see the text before it.
        let text = |b: &[u8]| CString::new(b.split(|c| *c == 0).next().unwrap_or(b"")).unwrap_or_default();
        Self {
            program: text(launch.program.as_bytes()),
            argv: launch.argv.iter().map(|a| text(a.as_bytes())).collect(),
            env: launch.env.iter().map(|v| text(&[v.name.as_bytes(), b"=", v.value.as_bytes()].concat())).collect(),
            cwd: text(launch.cwd.as_bytes()),
            pty,
            umask: launch.umask.unwrap_or(0o022),
            limits: launch.limits.as_ref().map(PreparedLimits::new),
            nofile: launch.nofile,
            oom: (launch.oom_score_adj > 0).then(|| launch.oom_score_adj.to_string()),
        }
    }
}
