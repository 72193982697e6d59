//! Refuses each system call that a profile or an old kernel may refuse, one at a time.

use super::bench::{Bench, Ran};
use anyhow::Result;
use outlast_store::calls::{CALLS, Without};

pub(crate) const ALL: &[(&str, &str, i32)] = &[
    ("calls-enosys", "each system call of `store/src/calls.rs` refused with ENOSYS, one at a time", libc::ENOSYS),
    ("calls-eperm", "the same with EPERM", libc::EPERM),
    ("calls-einval", "the same with EINVAL", libc::EINVAL),
];

pub(crate) fn enter(bench: &Bench, name: &str, errno: i32) -> Result<Ran> {
    let home = bench.home(name)?;
    let mut ran = Ran::default();
    for call in CALLS {
        // The C library creates threads with clone3, and falls back only on ENOSYS.
        if call.name == "clone3" && errno != libc::ENOSYS {
            continue;
        }
        bench.checked()?;
        let errno = errno.to_string();
        let set = if matches!(call.without, Without::NoStart(_)) { "refused" } else { "short" };
        let mut of_call = bench.run(bench.smoke(&home, &["--set", set, "--refuse", call.name, "--errno", &errno]))?;
        of_call.weaker.clear();
        for (check, _) in &mut of_call.failed {
            *check = format!("{check} without {}", call.name);
        }
        match call.without {
            Without::WeakerPromise(what) => of_call.weaker.push(format!("without {}: {what}", call.name)),
            Without::NoStart(what) => of_call.weaker.push(format!("nothing starts without {}: {what}", call.name)),
            _ => {}
        }
        ran.add(of_call);
    }
    Ok(ran)
}
