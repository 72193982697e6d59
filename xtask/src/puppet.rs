//! The command that campaigns run. Its output is known to the byte, and harm to it is detected.

use crate::rng::Rng;
use anyhow::{Context, Result, bail};
use std::fs::OpenOptions;
use std::io::{BufRead, Write};
use std::time::Duration;

/// What a puppet does, and so what a campaign expects of it.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    /// How many numbered lines it writes.
    pub(crate) lines: u64,
    /// Whether it then repeats its input line by line until the input ends.
    pub(crate) reads: bool,
    /// Its exit code.
    pub(crate) code: i32,
    /// The seed of its pauses and of the sizes of its writes.
    pub(crate) seed: u64,
}

impl Part {
    /// Its arguments, after the program.
    pub(crate) fn args(&self, mark: &std::path::Path) -> Vec<String> {
        vec![
            "__puppet".into(),
            self.lines.to_string(),
            u8::from(self.reads).to_string(),
            self.code.to_string(),
            self.seed.to_string(),
            mark.display().to_string(),
        ]
    }

    /// The bytes it writes, given these lines of input, on a terminal or not.
    pub(crate) fn output(&self, input: &[String], pty: bool) -> Vec<u8> {
        let end = if pty { "\r\n" } else { "\n" };
        let mut all = String::new();
        for n in 0..self.lines {
            all += &format!("line {n} {}{end}", filler(n));
        }
        if self.reads {
            all += &format!("ready{end}");
            for line in input {
                all += &format!("in {line}{end}");
            }
            all += &format!("end of input{end}");
        }
        all.into_bytes()
    }
}

fn filler(n: u64) -> String {
    "x".repeat((n * 7 % 61) as usize)
}

/// Runs the puppet. It leaves one mark for each start and one for each harm.
pub(crate) fn main(args: &[String]) -> Result<()> {
    let [lines, reads, code, seed, mark] = args else { bail!("a puppet takes five arguments") };
    let part = Part { lines: lines.parse()?, reads: reads == "1", code: code.parse()?, seed: seed.parse()? };
    let note = |what: &str| -> Result<()> {
        let mut file = OpenOptions::new().append(true).create(true).open(mark)?;
        file.write_all(format!("{what}\n").as_bytes()).context("mark")
    };
    note("started")?;
    if let Err(e) = play(&part) {
        note(&format!("harmed: {e:#}"))?;
    }
    std::process::exit(part.code);
}

fn play(part: &Part) -> Result<()> {
    let mut rng = Rng::new(part.seed, 0);
    let mut out = std::io::stdout();
    let tty = rustix::termios::isatty(&out);
    if tty {
        // The terminal would repeat the input by itself.
        let mut settings = rustix::termios::tcgetattr(&out)?;
        settings.local_modes.remove(rustix::termios::LocalModes::ECHO);
        rustix::termios::tcsetattr(&out, rustix::termios::OptionalActions::Now, &settings)?;
    }
    let mut text = part.clone();
    text.reads = false;
    let bytes = text.output(&[], false);
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let most = *rng.pick(&[300, 8000]);
        let n = (1 + rng.below(most) as usize).min(rest.len());
        out.write_all(&rest[..n])?;
        out.flush()?;
        rest = &rest[n..];
        if rng.one_in(4) {
            std::thread::sleep(Duration::from_micros(rng.below(900)));
        }
    }
    if part.reads {
        writeln!(out, "ready")?;
        for line in std::io::stdin().lock().lines() {
            writeln!(out, "in {}", line?)?;
            out.flush()?;
        }
        writeln!(out, "end of input")?;
    }
    Ok(())
}
