//! Versions of tools, as they print them.

/// The version in what a tool prints when asked for it: the first number with a dot in it that
/// begins a word, or follows a `v` or a hyphen (`nftables v1.0.6`, `iproute2-6.1.0`).
pub fn tool_version(output: &str) -> Option<String> {
    let words = output.lines().take(4).flat_map(str::split_whitespace);
    words.filter_map(version_in).next().map(Into::into)
}

fn version_in(word: &str) -> Option<&str> {
    let starts = |(at, c): (usize, char)| {
        let before = word.get(..at)?;
        let begins = before.is_empty() || before == "v" || before.ends_with(['-', '(']);
        (c.is_ascii_digit() && begins).then_some(at)
    };
    let version = word.get(word.char_indices().find_map(starts)?..)?;
    let version = version.trim_end_matches([',', '.', ';', ')']);
    version.contains('.').then_some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_tool_says_its_version_its_own_way() {
        for (said, version) in [
            ("crun version 1.8.1\ncommit: f8a0", "1.8.1"),
            ("runc version 1.1.5+ds1\n", "1.1.5+ds1"),
            (
                "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18+b3)",
                "7.2.22",
            ),
            ("nftables v1.0.6 (Lester Gooch #5)", "1.0.6"),
            ("iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.18", "3.12"),
            ("sockperf, version 3.7-no.git\n", "3.7-no.git"),
            (
                "stress-ng, version 0.15.06 (gcc 12.2.0, x86_64 Linux 6.18)",
                "0.15.06",
            ),
            ("ip utility, iproute2-6.1.0, libbpf 1.1.2", "6.1.0"),
            (
                "Debian 'dpkg-deb' package archive backend version 1.21.22 (amd64).",
                "1.21.22",
            ),
            ("apt 2.6.1 (amd64)", "2.6.1"),
        ] {
            assert_eq!(tool_version(said).as_deref(), Some(version), "{said}");
        }
        for nothing in ["", "usage: tool [options]", "x86_64", "é1.2"] {
            assert_eq!(tool_version(nothing), None, "{nothing}");
        }
    }
}
