//! A text in the user's editor.

use super::{Context, Failure, input};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use tokio::signal::unix::{SignalKind, signal};

/// How many names are tried for the file.
const MAX_NAMES: u32 = 1_000;

/// Opens a text in the user's editor, and returns it without the newline at its end. If the editor fails or the text is empty, that is an error.
pub(crate) async fn edit(ctx: &Context, text: &str) -> Result<Vec<u8>, Failure> {
    let failed = |what: String| Failure::fault(what, "TMPDIR names the directory for the file that is edited");
    let dir = ctx.world.temp_dir();
    let draft = Draft::create(&dir, text).map_err(|e| failed(format!("cannot write a file for the editor in {}: {e}", dir.display())))?;
    // Ctrl-C is for the editor. This program ignores it while this is held.
    let _interrupts = signal(SignalKind::interrupt())?;
    let editor = ctx.world.editor();
    let shown = editor.to_string_lossy().into_owned();
    let mut call = command(editor, &draft.path);
    let ended = tokio::task::spawn_blocking(move || call.status()).await.map_err(io::Error::other).and_then(|ended| ended);
    let ended = ended.map_err(|e| Failure::fault(format!("cannot run a shell for the editor: {e}"), ""))?;
    if !ended.success() {
        let how = match ended.code() {
            Some(code) => format!("exited with code {code}"),
            None => "was ended by a signal".to_owned(),
        };
        return Err(Failure::refused(format!("the editor {shown} {how}; nothing was started"), "VISUAL or EDITOR names the editor to use"));
    }
    let edited = std::fs::read(&draft.path).map_err(|e| failed(format!("cannot read what was edited: {e}")))?;
    if edited.trim_ascii().is_empty() {
        return Err(Failure::refused("the edited command is empty; nothing was started", ""));
    }
    Ok(input::line(edited))
}

/// The editor with the file. A shell reads its name, which may have arguments: `code --wait`.
fn command(mut editor: OsString, file: &Path) -> Command {
    let mut call = Command::new("/bin/sh");
    call.arg("-c");
    let name = editor.clone();
    editor.push(" \"$@\"");
    call.arg(editor).arg(name).arg(file);
    call
}

/// The file that is edited, for this user only. Removed when it is dropped.
struct Draft {
    path: PathBuf,
}

impl Draft {
    fn create(dir: &Path, text: &str) -> io::Result<Self> {
        let pid = std::process::id();
        for n in 0..MAX_NAMES {
            // With this ending editors highlight it as a shell script.
            let path = dir.join(format!("outlast-edit-{pid}-{n}.sh"));
            match File::options().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(mut file) => {
                    let draft = Self { path };
                    return file.write_all(text.as_bytes()).and_then(|()| file.write_all(b"\n")).map(|()| draft);
                }
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        // An editor may have removed it.
        let _gone = std::fs::remove_file(&self.path);
    }
}
