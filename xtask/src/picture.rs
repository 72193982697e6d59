//! `cargo xtask picture`: the picture of the README, recorded from a real run. A command is started, its engine and one of its keepers are killed with
//! SIGKILL, and its output and exit code are read afterwards. Every line of the picture was printed in a terminal.

use crate::{Flags, dist};
use anyhow::{Context, Result, ensure};
use outlast_testkit::product::Product;
use rustix::fd::OwnedFd;
use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where the README looks for it.
const PICTURE: &str = "docs/crash.svg";
const COLUMNS: u16 = 90;
const START: &str = r#"outlast run --name tests 'for n in 1 2 3 4; do echo "test $n ok"; sleep 1; done; exit 3'"#;

/// Records the run and draws it.
pub(crate) fn run(flags: &Flags<'_>) -> Result<()> {
    let to = flags.get("--to")?.unwrap_or_else(|| PathBuf::from(PICTURE));
    let scratch = tempfile::tempdir()?;
    let program = match flags.get::<PathBuf>("--program")? {
        Some(program) => program.canonicalize().with_context(|| program.display().to_string())?,
        None => {
            dist::build_into(scratch.path())?;
            scratch.path().join("outlast")
        }
    };
    let steps = record(&program)?;
    std::fs::write(&to, draw(&steps)).with_context(|| format!("cannot write {}", to.display()))?;
    println!("{}", to.display());
    Ok(())
}

/// A command line, and what the terminal showed of it.
struct Step {
    typed: String,
    shown: String,
}

fn record(program: &Path) -> Result<Vec<Step>> {
    let p = Product::new(program);
    // The engine is started first, since its pid is shown, so that the first command does not start it.
    let engine = p.engine();
    let terminal = Terminal { product: &p, programs: program.parent().context("a program has a directory")? };
    let mut steps = vec![terminal.step(START)?];
    let id = steps[0].shown.lines().next().context("`outlast run` prints an id")?.to_owned();
    let meta = p.meta_at_rest(&id);
    let (holder, pump) = (meta.holder, meta.pump);
    steps.push(terminal.step(&format!("ps -o pid,comm -p {engine},{holder},{pump}"))?);
    steps.push(terminal.step(&format!("kill -9 {engine} {holder}    # the engine, and the parent of the command"))?);
    steps.push(terminal.step("outlast wait tests; echo \"exit code $?\"")?);
    let end = &steps[3].shown;
    let is_whole = (1..=4).all(|n| end.contains(&format!("test {n} ok")));
    ensure!(is_whole && end.ends_with("exit code 3\n"), "the demonstration failed:\n{end}");
    Ok(steps)
}

/// Runs shell lines in a terminal, as a person would.
struct Terminal<'a> {
    product: &'a Product,
    programs: &'a Path,
}

impl Terminal<'_> {
    fn step(&self, line: &str) -> Result<Step> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let screen = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&screen)?;
        rustix::pty::unlockpt(&screen)?;
        tcsetwinsize(&screen, Winsize { ws_row: 40, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 })?;
        let mut shell = {
            let own = rustix::pty::ioctl_tiocgptpeer(&screen, flags)?;
            let end = || -> Result<Stdio> { Ok(Stdio::from(own.try_clone()?)) };
            let around = self.product.command([""; 0]);
            let path = format!("{}:/usr/local/bin:/usr/bin:/bin", self.programs.display());
            Command::new("setsid")
                .args(["--ctty", "--wait", "bash", "-c", line])
                .env_clear()
                .envs(around.get_envs().filter_map(|(name, value)| Some((name, value?))))
                .env("PATH", path)
                .env("TERM", "xterm")
                .current_dir(self.product.work())
                .stdin(end()?)
                .stdout(end()?)
                .stderr(end()?)
                .spawn()
                .context("setsid")?
        };
        let shown = read_to_end(&screen)?;
        shell.wait()?;
        let shown = outlast_text::strip(&outlast_text::collapse(&shown)).into_owned();
        Ok(Step { typed: line.to_owned(), shown })
    }
}

/// All output until the last program has closed the terminal.
fn read_to_end(screen: &OwnedFd) -> Result<String> {
    let mut shown = Vec::new();
    let mut bytes = [0; 4096];
    loop {
        match rustix::io::read(screen, &mut bytes) {
            Ok(0) | Err(rustix::io::Errno::IO) => return Ok(String::from_utf8_lossy(&shown).into_owned()),
            Ok(n) => shown.extend_from_slice(&bytes[..n]),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

const LINE: usize = 20;
const CHAR: f64 = 8.4;
const EDGE: usize = 18;
const BAR: usize = 34;

/// A terminal window with its own background, so that it looks the same on a light and on a dark page.
fn draw(steps: &[Step]) -> String {
    let mut lines: Vec<(&str, String)> = Vec::new();
    for step in steps {
        let class = if step.typed.starts_with("kill") { "k" } else { "c" };
        lines.push((class, step.typed.clone()));
        lines.extend(step.shown.lines().map(|line| ("o", line.trim_end().to_owned())));
    }
    let width = EDGE * 2 + (f64::from(COLUMNS + 2) * CHAR) as usize;
    let height = BAR + EDGE + lines.len() * LINE + 8;
    let mut svg = format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img" aria-label="A command keeps its output and exit code although its engine and keeper were killed">
<style>text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }} .o {{ fill: #c9d1d9; }} .c {{ fill: #f0f6fc; font-weight: 600; }} .k {{ fill: #ff7b72; font-weight: 600; }} .p {{ fill: #7ee787; }} .n {{ fill: #8b949e; font-weight: 400; }}</style>
<rect x="0.5" y="0.5" width="{inner_width}" height="{inner_height}" rx="8" fill="#0d1117" stroke="#6e7681"/>
<circle cx="20" cy="18" r="5" fill="#6e7681"/><circle cx="38" cy="18" r="5" fill="#6e7681"/><circle cx="56" cy="18" r="5" fill="#6e7681"/>
"##,
        inner_width = width - 1,
        inner_height = height - 1,
    );
    for (n, (class, line)) in lines.iter().enumerate() {
        let y = BAR + EDGE + n * LINE;
        let prompt = if *class == "o" { "" } else { r#"<tspan class="p">$ </tspan>"# };
        let (line, comment) = match line.split_once("    # ") {
            Some((line, comment)) if *class != "o" => (line, format!(r#"<tspan class="n">    # {}</tspan>"#, escaped(comment))),
            _ => (line.as_str(), String::new()),
        };
        // A string into a string does not fail.
        let _ = writeln!(svg, r#"<text x="{EDGE}" y="{y}" class="{class}" xml:space="preserve">{prompt}{}{comment}</text>"#, escaped(line));
    }
    svg + "</svg>\n"
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_typed_and_what_was_shown_are_told_apart() {
        let step = |typed: &str, shown: &str| Step { typed: typed.into(), shown: shown.into() };
        let svg = draw(&[step("echo '<a>'", "<a>\n"), step("kill -9 7", "")]);
        assert!(svg.contains(r#"class="c" xml:space="preserve"><tspan class="p">$ </tspan>echo '&lt;a&gt;'</text>"#), "{svg}");
        assert!(svg.contains(r#"class="o" xml:space="preserve">&lt;a&gt;</text>"#), "{svg}");
        assert!(svg.contains(r#"class="k""#) && svg.ends_with("</svg>\n"), "{svg}");
    }
}
