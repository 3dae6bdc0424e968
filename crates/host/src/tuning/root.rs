//! The root of the kernel's files: `/`, or a test's tree.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::sys::proc;
use crate::sys::process::MAX_ENVIRON_BYTES;

/// The parent directory of `proc`, `sys` and `dev`. System calls on threads always go to the running kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Root(PathBuf);

impl Default for Root {
    fn default() -> Root {
        Root("/".into())
    }
}

impl Root {
    /// Another root, for tests.
    pub fn at(path: &Path) -> Root {
        Root(path.to_path_buf())
    }

    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    pub fn read(&self, path: impl AsRef<Path>) -> io::Result<String> {
        fs::read_to_string(self.path(path))
    }

    /// The first 8 MiB of a process's environment, each variable ended by a zero byte: any user may declare gigabytes
    /// (prctl(2), PR_SET_MM_ENV_END). Errors: the process is gone, or hidden.
    pub fn environ(&self, pid: u32) -> io::Result<Vec<u8>> {
        let file = self.path(format!("/proc/{pid}/environ"));
        proc::read(file, MAX_ENVIRON_BYTES)
    }

    pub fn has(&self, path: impl AsRef<Path>) -> bool {
        self.path(path).exists()
    }

    /// The names in a directory, numbers in numeric order; none if there is no directory.
    pub fn names(&self, directory: impl AsRef<Path>) -> Vec<String> {
        let entries = fs::read_dir(self.path(directory)).into_iter().flatten();
        let mut names: Vec<String> = entries
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort_by_key(|name| {
            let digits = name.trim_start_matches(|c: char| !c.is_ascii_digit());
            let letters = name[..name.len() - digits.len()].to_string();
            let number = digits.split(|c: char| !c.is_ascii_digit()).next();
            let number = number.and_then(|n| n.parse::<u64>().ok());
            (letters, number, name.clone())
        });
        names
    }

    /// The absolute paths that match; `*` stands for one name in a directory.
    pub fn glob(&self, pattern: &str) -> Vec<PathBuf> {
        let mut found = vec![PathBuf::from("/")];
        for step in pattern.split('/').filter(|s| !s.is_empty()) {
            found = found
                .into_iter()
                .flat_map(|dir| {
                    if !step.contains('*') {
                        return vec![dir.join(step)];
                    }
                    let names = self.names(&dir).into_iter();
                    let fit = names.filter(|name| latlab_model::profile::fits(step, name));
                    fit.map(|name| dir.join(name)).collect()
                })
                .collect();
        }
        found.retain(|path| self.has(path));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_numbers_are_sorted_by_number() {
        let root = std::env::temp_dir().join(format!("latlab-root-{}", std::process::id()));
        for name in ["cpu10", "cpu2", "cpu1", "cpuidle"] {
            fs::create_dir_all(root.join("sys/cpu").join(name)).unwrap();
            fs::write(root.join("sys/cpu").join(name).join("x"), "").unwrap();
        }
        fs::remove_file(root.join("sys/cpu/cpu2/x")).unwrap();
        let at = Root::at(&root);
        let found = at.glob("/sys/cpu/cpu*/x");
        fs::remove_dir_all(&root).unwrap();
        let names: Vec<String> = found.iter().map(|p| p.display().to_string()).collect();
        assert_eq!(
            names,
            ["/sys/cpu/cpu1/x", "/sys/cpu/cpu10/x", "/sys/cpu/cpuidle/x"]
        );
    }
}
