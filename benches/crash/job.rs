//! The jobs that run when the manager is killed.

use crate::bench_suite::queries::is_alive;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the jobs may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// A shell line with known output. Half of the jobs print all the time, half only at their end.
pub(super) struct Job {
    pub(super) number: usize,
    pub(super) code: i32,
    pub(super) output: String,
    prints: bool,
    lived: usize,
}

impl Job {
    pub(super) fn new(number: usize, lived: usize) -> Self {
        let prints = number % 2 == 1;
        let mut output = String::new();
        for line in 1..=lived * 5 {
            if prints {
                output += &format!("line {line}\n");
            }
        }
        // An exit code that a program does not invent.
        Self { number, code: 11 + (number % 50) as i32, output: output + "last\n", prints, lived }
    }

    /// The shell line. It leaves a file in `dir` when it ends by itself.
    pub(super) fn line(&self, dir: &Path) -> String {
        let what = match self.prints {
            true => format!("for i in $(seq {}); do echo line $i || exit 1; sleep 0.2; done", self.lived * 5),
            false => format!("sleep {}", self.lived),
        };
        format!("echo $$ > {}; {what}; echo last || exit 1; : > {}; exit {}", self.pid(dir).display(), self.mark(dir).display(), self.code)
    }

    /// How many seconds it runs.
    pub(super) fn lived(&self) -> usize {
        self.lived
    }

    pub(super) fn came_to_its_end(&self, dir: &Path) -> bool {
        self.mark(dir).exists()
    }

    /// Whether it has begun and not ended.
    fn is_alive(&self, dir: &Path) -> bool {
        let pid = std::fs::read_to_string(self.pid(dir)).unwrap_or_default();
        pid.trim().parse().is_ok_and(is_alive)
    }

    fn pid(&self, dir: &Path) -> PathBuf {
        dir.join(format!("pid-{}", self.number))
    }

    fn mark(&self, dir: &Path) -> PathBuf {
        dir.join(format!("done-{}", self.number))
    }
}

/// How many jobs are alive a second from now.
pub(super) fn alive(jobs: &[Job], dir: &Path) -> usize {
    std::thread::sleep(Duration::from_secs(1));
    jobs.iter().filter(|job| job.is_alive(dir)).count()
}

/// Waits until no job is alive, and counts those that ended by themselves.
pub(super) fn until_over(jobs: &[Job], dir: &Path) -> usize {
    let began = Instant::now();
    loop {
        if !jobs.iter().any(|job| job.is_alive(dir)) || began.elapsed() > PATIENCE {
            return jobs.iter().filter(|job| job.came_to_its_end(dir)).count();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// How many jobs were announced once and with their own code, given lines of a number and a code.
pub(super) fn announced(jobs: &[Job], told: &[(usize, i32)]) -> usize {
    jobs.iter().filter(|job| told.iter().filter(|(number, _)| *number == job.number).eq([&(job.number, job.code)])).count()
}
