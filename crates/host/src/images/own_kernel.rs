//! The kernel of an image: from the archive that the image's packages come from, with its modules in the image.
//!
//! mmdebstrap alone knows that archive, with its keys and package lists. Its first hook asks for the kernel and waits, the
//! package is fetched with mmdebstrap's own configuration of apt, and a later hook copies what was unpacked. Nothing is
//! installed: a kernel's scripts would make an initramfs, which differs from one time to the next, and nodes have latlab's.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde::{Deserialize, Serialize};

use crate::packages::{Archive, kernel};
use crate::programs::quoted;

/// The line with which the hook asks.
pub(super) const ASKS: &str = "latlab: the package lists are there";
/// Names in the directory of one making.
const CONFIG: &str = "apt.conf";
const ANSWER: &str = "answer";
const UNPACKED: &str = "kernel";
const SCRIPT: &str = "kernel.sh";
/// The answer that lets mmdebstrap go on.
const GO_ON: &str = "go on\n";

/// The kernel of an image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageKernel {
    /// `uname -r`.
    pub release: String,
    /// Its package and version.
    pub origin: String,
}

impl ImageKernel {
    pub(crate) fn vmlinuz(&self, root: &Path) -> PathBuf {
        root.join("boot").join(format!("vmlinuz-{}", self.release))
    }

    /// Newer releases have `/lib` as a link to `/usr/lib`, older ones have no modules there.
    pub(crate) fn modules(&self, root: &Path) -> PathBuf {
        let places = ["usr/lib/modules", "lib/modules"];
        let [newer, older] = places.map(|place| root.join(place).join(&self.release));
        match newer.is_dir() {
            true => newer,
            false => older,
        }
    }
}

/// The kernel while its image is made.
pub(super) struct KernelWork<'a> {
    which: &'a str,
    work: &'a Path,
    fetched: Option<Result<ImageKernel, String>>,
    /// The pipe to the hook, which may open its end later.
    pipe: Option<File>,
}

impl<'a> KernelWork<'a> {
    pub fn begin(which: &'a str, work: &'a Path) -> Self {
        // Were it absent, the hook would fail and say so.
        let _ = mknodat(
            CWD,
            work.join(ANSWER),
            FileType::Fifo,
            Mode::from_raw_mode(0o600),
            0,
        );
        KernelWork {
            which,
            work,
            fetched: None,
            pipe: None,
        }
    }

    /// Fetches it, and lets mmdebstrap go on or end.
    pub fn fetch(&mut self, progress: &dyn Fn(&str)) {
        let fetched = self.unpack(progress);
        let answer = if fetched.is_ok() { GO_ON } else { "end\n" };
        self.fetched = Some(fetched);
        if let Err(error) = self.tell(answer) {
            self.fetched = Some(Err(format!("cannot answer mmdebstrap: {error}")));
        }
    }

    fn tell(&mut self, answer: &str) -> io::Result<()> {
        // Opened for both, so that this does not wait for a reader that was killed.
        let mut options = File::options();
        let pipe = options.read(true).write(true);
        let mut pipe = pipe.open(self.work.join(ANSWER))?;
        pipe.write_all(answer.as_bytes())?;
        self.pipe = Some(pipe);
        Ok(())
    }

    fn unpack(&self, progress: &dyn Fn(&str)) -> Result<ImageKernel, String> {
        let archive = Archive::described_by(self.work.join(CONFIG));
        let mut told = |step: crate::packages::Progress| progress(&step.to_string());
        let mut fetch = || {
            let chosen = kernel::choose(&archive, self.which)?;
            let work = self.work.join(UNPACKED);
            let root = kernel::unpack(&archive, &chosen, &work, &mut told)?;
            let release = kernel::release_in(&root, &chosen.package)?;
            Ok::<_, kernel::Error>((root, release, chosen))
        };
        let (root, release, chosen) = fetch().map_err(|error| error.to_string())?;
        let script = self.work.join(SCRIPT);
        fs::write(&script, copying(&root, &release)).map_err(|error| error.to_string())?;
        Ok(ImageKernel {
            release,
            origin: chosen.to_string(),
        })
    }

    /// The kernel that the image has; none if it was not asked for, because something else failed before.
    pub fn end(self) -> Option<Result<ImageKernel, String>> {
        self.fetched
    }
}

/// Hooks that ask for the kernel before anything is installed, and copy it before the image's own files.
pub(super) fn hooks(work: &Path) -> [String; 2] {
    let [config, answer, script] =
        [CONFIG, ANSWER, SCRIPT].map(|name| quoted(&work.join(name).to_string_lossy()));
    let go_on = GO_ON.trim();
    [
        format!(
            "--setup-hook=ln -s \"$MMDEBSTRAP_APT_CONFIG\" {config} && echo '{ASKS}' >&2 && \
             read -r answer < {answer} && [ \"$answer\" = '{go_on}' ]"
        ),
        format!("--customize-hook=/bin/sh -eu {script} \"$1\""),
    ]
}

/// The lines that copy an unpacked kernel, and list its modules where the image can load any.
fn copying(root: &Path, release: &str) -> String {
    let (root, release) = (quoted(&root.to_string_lossy()), quoted(release));
    format!(
        "mkdir -p \"$1/boot\" \"$1/lib/modules\"\n\
         cp -a {root}/boot/. \"$1/boot/\"\n\
         cp -a {root}/lib/modules/. \"$1/lib/modules/\"\n\
         PATH=/usr/sbin:/usr/bin:/sbin:/bin chroot \"$1\" /bin/sh -euc \
         'if command -v depmod >/dev/null; then depmod \"$0\"; fi' {release}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_where_the_release_has_them() {
        let root = std::env::temp_dir().join(format!("latlab-own-kernel-{}", std::process::id()));
        let kernel = ImageKernel {
            release: "6.1".into(),
            origin: "linux-image-6.1 6.1-1".into(),
        };
        fs::create_dir_all(root.join("lib/modules/6.1")).unwrap();
        assert_eq!(kernel.modules(&root), root.join("lib/modules/6.1"));
        fs::create_dir_all(root.join("usr/lib/modules/6.1")).unwrap();
        assert_eq!(kernel.modules(&root), root.join("usr/lib/modules/6.1"));
        assert_eq!(kernel.vmlinuz(&root), root.join("boot/vmlinuz-6.1"));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_hook_gets_its_answer_also_if_it_comes_late() {
        let work = std::env::temp_dir().join(format!("latlab-answer-{}", std::process::id()));
        fs::create_dir_all(&work).unwrap();
        let mut kernel = KernelWork::begin("standard", &work);
        kernel.tell(GO_ON).unwrap();
        let [hook, _] = hooks(&work);
        let script = hook.strip_prefix("--setup-hook=").unwrap();
        let run = |script: &str| {
            let mut shell = std::process::Command::new("sh");
            shell
                .args(["-c", script])
                .env("MMDEBSTRAP_APT_CONFIG", "/x");
            shell.output().unwrap()
        };
        let said = run(script);
        assert!(said.status.success());
        assert_eq!(String::from_utf8(said.stderr).unwrap().trim(), ASKS);
        assert_eq!(fs::read_link(work.join(CONFIG)).unwrap(), Path::new("/x"));
        fs::remove_file(work.join(CONFIG)).unwrap();
        kernel.tell("end\n").unwrap();
        assert!(!run(script).status.success());
        fs::remove_dir_all(work).unwrap();
    }
}
