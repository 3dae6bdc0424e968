//! Paths as words of a shell's.

use std::path::Path;

pub(super) fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_back_what_was_quoted() {
        for path in ["/a b/$c", "/it's/`x`", "/\\n\"'"] {
            let mut shell = std::process::Command::new("sh");
            shell
                .arg("-c")
                .arg(format!("printf %s {}", quoted(Path::new(path))));
            assert_eq!(shell.output().unwrap().stdout, path.as_bytes());
        }
    }
}
