//! The sinks of campaigns: a hook and a receiver of webhooks. A campaign can make each of them die at a step.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

/// The file in which one of them records its notices, one line each.
pub(crate) const HOOK_LOG: &str = "hook.jsonl";
pub(crate) const RECEIVER_LOG: &str = "receiver.jsonl";

/// Makes the next call in `dir` die `before` or `after` it has recorded its notice.
pub(crate) fn arm(dir: &Path, who: &str, step: &str) -> Result<()> {
    std::fs::write(dir.join(format!("{who}.dies")), step).context("cannot arm a sink")
}

/// `xtask __hook DIR`
pub(crate) fn hook(args: &[String]) -> Result<()> {
    let [dir] = args else { bail!("usage: xtask __hook DIR") };
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let told: Value = serde_json::from_str(&line).context("the hook was not told JSON")?;
    note(Path::new(dir), "hook", HOOK_LOG, &told)
}

/// `xtask __receiver DIR PORT`: answers for ever.
pub(crate) fn receiver(args: &[String]) -> Result<()> {
    let [dir, port] = args else { bail!("usage: xtask __receiver DIR PORT") };
    let door = TcpListener::bind(("127.0.0.1", port.parse::<u16>()?))?;
    println!("{}", door.local_addr()?.port());
    let dir = PathBuf::from(dir);
    for stream in door.incoming() {
        let (stream, dir) = (stream?, dir.clone());
        std::thread::spawn(move || {
            // A client that left calls again.
            let _left = answer(&stream, &dir);
        });
    }
    Ok(())
}

fn answer(mut stream: &TcpStream, dir: &Path) -> Result<()> {
    let mut lines = BufReader::new(stream);
    let (mut length, mut id) = (0, String::new());
    loop {
        let mut line = String::new();
        lines.read_line(&mut line)?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':') {
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse()?,
                "webhook-id" => id = value.trim().to_owned(),
                _ => {}
            }
        }
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body)?;
    let body: Value = serde_json::from_slice(&body)?;
    note(dir, "receiver", RECEIVER_LOG, &json!({"id": id, "event": body["data"]["event"]}))?;
    stream.write_all(b"HTTP/1.1 204 No Content\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")?;
    Ok(())
}

/// Records a notice, and dies before or after if that was armed.
fn note(dir: &Path, who: &str, log: &str, told: &Value) -> Result<()> {
    let armed = dir.join(format!("{who}.dies"));
    // Only one call can rename the file, and that one dies.
    let mine = dir.join(format!("{who}.died.{}", std::process::id()));
    let step = std::fs::rename(&armed, &mine).ok().and_then(|()| std::fs::read_to_string(&mine).ok());
    if step.as_deref() == Some("before") {
        die();
    }
    let mut file = OpenOptions::new().create(true).append(true).open(dir.join(log))?;
    file.write_all(format!("{told}\n").as_bytes())?;
    if step.as_deref() == Some("after") {
        die();
    }
    Ok(())
}

fn die() -> ! {
    // SIGKILL: nothing is flushed.
    let _dead = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    unreachable!("it is dead")
}
