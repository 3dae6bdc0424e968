//! `mmdebstrap`, which installs packages of Debian or Ubuntu into a directory and packs it.
//!
//! This tool runs as root, because packages' scripts do, in mount and process namespaces of its own: whatever ends it, no mount
//! and no process stays.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use latlab_model::spec::Recipe;

use super::own_kernel::{self, ImageKernel, KernelWork};

use crate::programs::quoted;
use crate::sys::spawn::end_with_us;

/// Time of files that are newer: an image does not depend on the hour that it was made in. A later time would be in the
/// future for machines without a clock of their own.
pub(super) const EPOCH: u64 = 1_577_836_800;
/// The status of unshare(1) where there is no such program.
const NOT_FOUND: i32 = 127;
/// Lines that are kept for the reason of a failure.
const MAX_LINES: usize = 200;

/// Directories and files of one making, all in one directory.
pub(super) const FILES: &str = "files.tar";
pub(super) const SCRIPT: &str = "run.sh";
const TEMPORARY: &str = "tmp";

/// Makes the archive `tar` of a recipe in `work`; returns the kernel that is in it. `progress` gets a line for each step.
/// Errors: why, in words.
pub(super) fn make(
    recipe: &Recipe,
    work: &Path,
    tar: &Path,
    progress: &dyn Fn(&str),
) -> Result<Option<ImageKernel>, String> {
    let (keys, package) = recipe.distribution.keyring();
    if !Path::new(keys).exists() {
        return Err(format!(
            "there is no {keys} to check the archive with (package {package})"
        ));
    }
    let kernel = recipe.kernel.as_deref();
    let mut kernel = kernel.map(|which| KernelWork::begin(which, work));
    let temporary = work.join(TEMPORARY);
    std::fs::create_dir(&temporary).map_err(|error| error.to_string())?;
    let mut command = Command::new("unshare");
    command
        .args([
            "--mount",
            "--pid",
            "--ipc",
            "--uts",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "--",
        ])
        .args(arguments(recipe, keys, work))
        .arg(tar)
        .args(&recipe.mirror)
        .env("SOURCE_DATE_EPOCH", EPOCH.to_string())
        .env("TMPDIR", &temporary)
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = end_with_us(&mut command)
        .spawn()
        .map_err(|error| format!("unshare: {error}"))?;
    let said = child
        .stderr
        .take()
        .map_or_else(VecDeque::new, |said| lines(said, kernel.as_mut(), progress));
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.code() {
        Some(0) => Ok(kernel.and_then(KernelWork::end).transpose()?),
        // As of a shell.
        Some(NOT_FOUND) => Err("mmdebstrap is not installed".into()),
        _ => match kernel.and_then(KernelWork::end) {
            Some(Err(reason)) => Err(reason),
            _ => Err(reason(&said).unwrap_or_else(|| format!("mmdebstrap: {status}"))),
        },
    }
}

fn arguments(recipe: &Recipe, keys: &str, work: &Path) -> Vec<String> {
    let mut all: Vec<String> = [
        "mmdebstrap",
        "--mode=root",
        "--variant=minbase",
        "--format=tar",
    ]
    .map(String::from)
    .to_vec();
    // The image appears by a rename behind syncfs(2), so dpkg need not wait for the disk after each file.
    all.push("--dpkgopt=force-unsafe-io".into());
    // Devices of a node come from its runtime.
    all.push("--skip=output/dev".into());
    all.push(format!("--keyring={keys}"));
    all.push(format!("--components={}", recipe.components.join(",")));
    all.extend(
        ["Acquire::Retries \"4\"", "Acquire::http::Timeout \"20\""]
            .map(|option| format!("--aptopt={option}")),
    );
    if !recipe.packages.is_empty() || recipe.kernel.is_some() {
        all.push(format!("--setup-hook={}", check_of(&recipe.packages)));
    }
    if !recipe.packages.is_empty() {
        all.push(format!("--include={}", recipe.packages.join(",")));
    }
    let quoted = |name: &str| quoted(&work.join(name).to_string_lossy());
    if recipe.kernel.is_some() {
        all.extend(own_kernel::hooks(work));
    }
    if !recipe.files.is_empty() {
        all.push(format!("--customize-hook=tar-in {} /", quoted(FILES)));
    }
    if !recipe.run.is_empty() {
        all.push(format!(
            "--customize-hook=chroot \"$1\" /bin/sh -eu < {}",
            quoted(SCRIPT)
        ));
    }
    // Copies of this machine's own.
    all.push("--customize-hook=rm -f \"$1/etc/resolv.conf\" \"$1/etc/hostname\"".into());
    all.push(recipe.suite.clone());
    all
}

/// Has apt resolve the packages before anything is installed: a wrong name is told within seconds.
fn check_of(packages: &[String]) -> String {
    const APT: &str = "APT_CONFIG=\"$MMDEBSTRAP_APT_CONFIG\" apt-get -qq";
    // Without the option, lists that cannot be fetched are a warning.
    let update = format!("{APT} -o APT::Update::Error-Mode=any update >/dev/null");
    if packages.is_empty() {
        return update;
    }
    let packages: Vec<String> = packages.iter().map(|name| format!("'{name}'")).collect();
    let packages = packages.join(" ");
    format!("{update} && {APT} install --simulate {packages} >/dev/null")
}

/// The last lines; each step is also told, and the kernel fetched when it is asked for.
fn lines(
    said: impl Read,
    mut kernel: Option<&mut KernelWork<'_>>,
    progress: &dyn Fn(&str),
) -> VecDeque<String> {
    let mut kept = VecDeque::new();
    for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line).trim().to_owned();
        if let Some(kernel) = kernel.as_mut().filter(|_| line == own_kernel::ASKS) {
            kernel.fetch(progress);
            continue;
        }
        let step = line
            .strip_prefix("I: ")
            .and_then(|step| step.strip_suffix("..."));
        // Its own end is no step.
        if let Some(step) =
            step.filter(|step| !step.contains("tempdir") && !step.contains("signal"))
        {
            progress(step);
        }
        if kept.len() == MAX_LINES {
            kept.pop_front();
        }
        kept.push_back(line);
    }
    kept
}

/// The first error, or the last line of one of the image's own commands, which precedes mmdebstrap's.
fn reason(said: &VecDeque<String>) -> Option<String> {
    let first = said.iter().position(|line| line.starts_with("E: "))?;
    let error = said[first].trim_start_matches("E: ");
    let is_hook = error.contains("setup failed") || error.contains("hook");
    let before = said
        .iter()
        .take(first)
        .rev()
        .find(|line| !line.is_empty() && !line.starts_with("I: "));
    Some(match before.filter(|_| is_hook) {
        Some(line) => line.clone(),
        None => error.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(said: &str) -> Option<String> {
        reason(&said.lines().map(String::from).collect())
    }

    #[test]
    fn the_reason_is_apts_and_not_mmdebstraps() {
        let said = "I: installing remaining packages inside the chroot...\nBuilding dependency tree...\n\
                    E: Unable to locate package no-such\nE: setup failed: E: apt-get -o ... failed\n\
                    E: mmdebstrap failed to run";
        assert_eq!(of(said).unwrap(), "Unable to locate package no-such");
        let said = "I: running --customize-hook in shell: sh -c 'chroot'\n/bin/sh: 3: nothing: not found\n\
                    E: setup failed: E: command failed: chroot";
        assert_eq!(of(said).unwrap(), "/bin/sh: 3: nothing: not found");
        assert_eq!(of("I: done"), None);
    }
}
