//! What is written down for a command that runs in a sandbox. Its environment there is that of the sandbox: of the caller's variables it gets
//! none but those that the request names.

use super::secrets::{Scrub, masks, without_secrets};
use super::{Prepared, StartRequest, bad_spec};
use crate::parts::Parts;
use crate::shell::{self, CommandForm, OutputMode, Shell, Variable};
use outlast_core::{Command, EnvVar, OsText, limits};
use outlast_store::segments::Keep;
use outlast_store::spec::{Kept, Launch};
use outlast_wire::v1::Error;
use outlast_wire::v1::sandbox::SandboxHello;
use std::path::Path;

/// Variables that the sandbox knows better.
const SANDBOXS_OWN: [&[u8]; 2] = [b"PATH", b"PWD"];

/// Makes what is kept, and what the sandbox completes and starts.
pub(super) fn prepare(parts: &Parts, request: StartRequest, sandbox: &SandboxHello) -> Result<Prepared, Error> {
    let scrub = Scrub::new(&request.spec, &parts.redactor);
    prepare_with(parts, request.clone(), sandbox).map_err(|e| scrub.error(e))
}

fn prepare_with(parts: &Parts, request: StartRequest, sandbox: &SandboxHello) -> Result<Prepared, Error> {
    let StartRequest { id, hash, spec, .. } = request;
    let start = sandbox.cwd.as_path();
    let cwd = spec.cwd.as_ref().map_or_else(|| start.to_owned(), |dir| start.join(dir.as_path()));
    let extras: Vec<Variable> = spec.env.iter().map(|v| (v.name.as_bytes().to_vec(), v.value.as_bytes().to_vec())).collect();
    let arguments: Vec<Vec<u8>>;
    let form = match &spec.command {
        Command::Shell(line) => CommandForm::Line(line.as_bytes()),
        Command::Argv(args) => {
            arguments = args.iter().map(|a| a.as_bytes().to_vec()).collect();
            CommandForm::Argv(&arguments)
        }
    };
    let merged = shell::merge(&shell::LaunchInputs {
        caller: &[],
        extras: &extras,
        snapshot: None,
        // The sandbox puts its own in this place.
        shell: &Shell::at("/bin/sh"),
        form,
        mode: if spec.pty { OutputMode::Pty } else { OutputMode::Pipe },
        cwd: &cwd,
        process_id: &id.to_string(),
    })
    .map_err(|e| bad_spec(&e))?;
    let is_given = |name: &[u8]| extras.iter().any(|(given, _)| given == name);
    let env = merged.env.into_iter().filter(|(name, _)| !SANDBOXS_OWN.contains(&name.as_slice()) || is_given(name));
    let keep = Keep { tail: parts.config.log_tail_bytes, ..Keep::default() };
    let launch = Launch {
        program: OsText::default(),
        argv: merged.argv.into_iter().map(Into::into).collect(),
        env: env.map(|(name, value)| EnvVar { name: name.into(), value: value.into() }).collect(),
        cwd: cwd.as_path().into(),
        pty: spec.pty.then_some(limits::PTY_SIZE),
        stdin: spec.stdin,
        timeout: spec.timeout,
        keep,
        home: OsText::default(),
        run_dir: OsText::default(),
        engine: None,
        cgroup: None,
        oom_score_adj: 0,
        grace: parts.config.grace,
        umask: Some(super::USUAL_UMASK),
        nofile: None,
        program_shown: None,
        cwd_shown: shown_cwd(&spec.command, &cwd, &Scrub::new(&spec, &parts.redactor)),
        limits: None,
    };
    let (masks, all_masked) = masks(&spec, &parts.redactor);
    let mut warnings = Vec::new();
    if !all_masked {
        warnings.push(super::NOT_ALL_MASKED.to_owned());
    }
    let (spec, scrubbed) = without_secrets(spec, &parts.redactor);
    let kept = Kept {
        id,
        spec,
        hash,
        accepted_at: parts.now(),
        cwd: cwd.as_path().into(),
        shell: None,
        command_scrubbed: scrubbed.command,
        env_scrubbed: scrubbed.env,
        warnings,
        keep,
        masks,
    };
    Ok(Prepared { kept, launch, failure: None, not_passed_on: Vec::new() })
}

fn shown_cwd(command: &Command, cwd: &Path, scrub: &Scrub<'_>) -> Option<OsText> {
    let cwd = OsText::from(cwd);
    Some(scrub.path(&cwd, command)).filter(|shown| *shown != cwd)
}
