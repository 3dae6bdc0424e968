//! The answer of a host after a start, compared with what was asked for.

use latlab_model::diagnostic::{plain, shown};

use crate::failure::Failure;

/// The agent's words around the command line, on the console (`latlab-agent`, `live.rs`).
const END: &str = " :end";

/// The answer of a live system that was started as `id`, in what its console showed: its command line, or why it failed.
/// None: there is none yet. One that the kernel wrote into is none; the agent says it twice.
pub(super) fn find(console: &[u8], id: &str) -> Option<Result<String, String>> {
    let text = String::from_utf8_lossy(console);
    let begin = format!("latlab: live {id} ");
    let mut pieces = text.split(begin.as_str()).skip(1);
    pieces.find_map(|piece| {
        let line = piece.lines().next()?.trim_end().strip_suffix(END)?;
        match line.split_once(": ")? {
            ("runs with", line) => Some(Ok(line.to_owned())),
            ("failed", reason) => Some(Err(reason.to_owned())),
            _ => None,
        }
    })
}

/// The last line of a console that has words, for a person.
pub(super) fn last_words(console: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(console);
    let line = text.lines().map(str::trim).rfind(|line| !line.is_empty())?;
    Some(shown(&plain(line)))
}

/// Words that are missing, and those that are there unasked.
pub(super) fn differences(wanted: &str, runs: &str) -> (Vec<String>, Vec<String>) {
    let words = |line: &str| -> Vec<String> {
        let words = line.split_whitespace().map(str::to_owned);
        words
            .filter(|word| !word.starts_with("BOOT_IMAGE="))
            .collect()
    };
    let (wanted, runs) = (words(wanted), words(runs));
    let without = |some: &[String], others: &[String]| -> Vec<String> {
        let left = some.iter().filter(|word| !others.contains(word));
        left.cloned().collect()
    };
    (without(&wanted, &runs), without(&runs, &wanted))
}

/// The failure of a host that runs with other parameters.
pub(super) fn differs(host: &str, missing: &[String], foreign: &[String]) -> Failure {
    let mut parts = Vec::new();
    for (what, words) in [("without", missing), ("with", foreign)] {
        if !words.is_empty() {
            parts.push(format!("{what} `{}`", shown(&plain(&words.join(" ")))));
        }
    }
    let message = format!("host `{host}` runs {}", parts.join(" and "));
    Failure::new(
        message,
        "its boot loader reads another file, or its firmware started another system",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_one_of_this_start_and_whole() {
        let console = "\r\nlatlab: live 11 runs with: old :end\r\nlatlab: live 22 runs with: isol[ 2.1] usb 1-1\r\n\
             cpus=1 :end\r\nlatlab: live 22 runs with: quiet isolcpus=1 :end\r\n";
        let said = find(console.as_bytes(), "22").unwrap();
        assert_eq!(said, Ok("quiet isolcpus=1".into()));
        assert_eq!(find(console.as_bytes(), "33"), None);
        let cut = &console[..console.len() - 4];
        assert_eq!(find(cut.as_bytes(), "22"), None);
        let failed = b"latlab: live 22 failed: mount /dev/loop0 on /lower: no memory :end\r\n";
        let reason = find(failed, "22").unwrap().unwrap_err();
        assert_eq!(reason, "mount /dev/loop0 on /lower: no memory");
    }

    #[test]
    fn last_words_are_plain() {
        let words = last_words(b"one\r\n\x1b[2Jpanic\r\n\r\n").unwrap();
        assert!(
            !words.contains('\x1b') && words.ends_with("panic"),
            "{words}"
        );
        assert_eq!(last_words(b"\r\n"), None);
    }

    #[test]
    fn words_are_missing_or_foreign() {
        let (missing, foreign) = differences("a b=1 b=2", "BOOT_IMAGE=/x b=2 a c");
        assert_eq!((missing, foreign), (vec!["b=1".into()], vec!["c".into()]));
    }
}
