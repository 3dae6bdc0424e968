//! Words of a shell's command line.

/// A word of a shell.
pub fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_a_quoted_word_as_it_is() {
        assert_eq!(quoted("/a b/$x"), "'/a b/$x'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
