//! The distribution: its name and version, and the flavour of its kernel.

/// The value of `key` in an os-release file, without its quotes (os-release(5)).
pub fn os_release(text: &str, key: &str) -> Option<String> {
    let lines = text.lines().map(str::trim_start);
    let value = lines
        .filter_map(|line| line.split_once('='))
        .rfind(|(name, _)| *name == key)?
        .1
        .trim_end();
    let quoted = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    let value = quoted('"').or_else(|| quoted('\'')).unwrap_or(value);
    let mut out = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        if c == '\\' && !escaped {
            escaped = true;
        } else {
            out.push(c);
            escaped = false;
        }
    }
    (!out.is_empty()).then_some(out)
}

/// The flavour of a distribution's kernel, from its release: `standard`, `rt` or `cloud`.
pub fn kernel_flavour(release: &str) -> &'static str {
    let mut words = release.split('-');
    match words.find_map(|word| ["rt", "cloud"].into_iter().find(|known| *known == word)) {
        Some(flavour) => flavour,
        None => "standard",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_quote_as_they_like() {
        let debian = "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n";
        assert_eq!(
            os_release(debian, "PRETTY_NAME").as_deref(),
            Some("Debian GNU/Linux 12 (bookworm)")
        );
        assert_eq!(os_release(debian, "ID").as_deref(), Some("debian"));
        assert_eq!(
            os_release("# NAME=no\nNAME='Arch \\$1'\n", "NAME").as_deref(),
            Some("Arch $1")
        );
        for bad in ["", "ID", "ID=", "ID=\"\"", "ID=\\"] {
            assert_eq!(os_release(bad, "ID"), None, "{bad}");
        }
        assert_eq!(os_release("ID=\"", "ID").as_deref(), Some("\""));
    }

    #[test]
    fn a_kernels_release_tells_its_flavour() {
        assert_eq!(kernel_flavour("6.1.0-37-amd64"), "standard");
        assert_eq!(kernel_flavour("6.1.0-37-rt-amd64"), "rt");
        assert_eq!(kernel_flavour("6.1.0-37-cloud-amd64"), "cloud");
        assert_eq!(kernel_flavour("art"), "standard");
    }
}
