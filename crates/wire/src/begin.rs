//! The words of `latlab-agent begin` around the output of the program that it runs.

use std::fmt;

/// The line before all output: the program waits for its time to begin.
pub const READY: &str = "latlab-begin ready";
/// The first word of the line behind all output.
const END: &str = "latlab-begin end";

/// How the program ended, and when on its node's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    pub began_ns: u64,
    pub ended_ns: u64,
    /// The exit status of one that ended by itself.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (how, number) = match (self.code, self.signal) {
            (Some(code), _) => ("code", code),
            (None, signal) => ("signal", signal.unwrap_or(0)),
        };
        let (began, ended) = (self.began_ns, self.ended_ns);
        // The output may end within a line.
        write!(f, "\n{END} {began} {ended} {how} {number}")
    }
}

impl End {
    /// Divides what came after [`READY`] into the program's output and its end; `None` where no end was told.
    pub fn split(text: &[u8]) -> Option<(&[u8], End)> {
        let mark = format!("\n{END} ");
        let at = text
            .windows(mark.len())
            .rposition(|window| window == mark.as_bytes())?;
        let line = text[at + mark.len()..]
            .split(|byte| *byte == b'\n')
            .next()?;
        let mut words = std::str::from_utf8(line).ok()?.split(' ');
        let began_ns = words.next()?.parse().ok()?;
        let ended_ns = words.next()?.parse().ok()?;
        let how = words.next()?;
        let number = words.next()?.parse().ok()?;
        let end = End {
            began_ns,
            ended_ns,
            code: (how == "code").then_some(number),
            signal: (how == "signal").then_some(number),
        };
        (began_ns <= ended_ns).then_some((&text[..at], end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_found_behind_the_output_that_it_left_whole() {
        let end = End {
            began_ns: 5,
            ended_ns: 70,
            code: Some(3),
            signal: None,
        };
        for output in [
            "",
            "score: 7",
            "score: 7\n",
            "\nlatlab-begin end 1 2 code 0\n",
        ] {
            let text = format!("{output}{end}\n");
            let (found, read) = End::split(text.as_bytes()).unwrap();
            assert_eq!((found, read), (output.as_bytes(), end));
        }
        for broken in [
            "",
            "score\n",
            "\nlatlab-begin end 9 2 code 0\n",
            "\nlatlab-begin end 1",
        ] {
            assert_eq!(End::split(broken.as_bytes()), None, "{broken:?}");
        }
    }
}
