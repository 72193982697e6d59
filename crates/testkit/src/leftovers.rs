//! What a test leaves behind: processes, sockets, cgroups.

use std::path::Path;

/// The processes that belong to `home`: keepers, engines and gateways, which name it on their command line, and commands, which
/// have it in their environment. A child that reports an end to a terminal has it in its environment, too.
pub fn processes(home: &Path) -> Vec<(u32, String)> {
    let needle = home.as_os_str().as_encoded_bytes();
    let has = |bytes: &[u8]| bytes.windows(needle.len()).any(|w| w == needle);
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| *pid != std::process::id())
        .filter_map(|pid| {
            let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let marked = environ.windows(19).any(|w| w == b"OUTLAST_PROCESS_ID=");
            // A zombie shows neither; its parent has to reap it.
            let ours = has(&cmdline) && [b"__engine".as_slice(), b"keeper", b"outlast-gateway"].iter().any(|word| has_word(&cmdline, word));
            let tells_end = has_word(&cmdline, b"__tell-end");
            (ours || ((marked || tells_end) && has(&environ))).then(|| (pid, String::from_utf8_lossy(&cmdline).replace('\0', " ")))
        })
        .collect()
}

fn has_word(bytes: &[u8], word: &[u8]) -> bool {
    bytes.windows(word.len()).any(|w| w == word)
}

/// The cgroups of `home`, by the name the engine gives them.
pub fn cgroups(tag: &str) -> Vec<std::path::PathBuf> {
    ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"]
        .iter()
        .map(|root| Path::new(root).join(format!("outlast-{tag}")))
        .filter(|p| p.exists())
        .collect()
}

/// The living processes of one Outlast process: its keepers, which have its id on their command line, and its tree, which has it in
/// its environment.
pub fn of_process(id: &str) -> Vec<(u32, String)> {
    let mark = format!("OUTLAST_PROCESS_ID={id}");
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| {
            let cmdline = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
            let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            let keeper = has_word(&cmdline, id.as_bytes()) && has_word(&cmdline, b"keeper");
            (keeper || has_word(&environ, mark.as_bytes())).then(|| (pid, String::from_utf8_lossy(&cmdline).replace('\0', " ")))
        })
        .collect()
}
