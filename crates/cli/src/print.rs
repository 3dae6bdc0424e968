//! The only place that writes to the terminal. Output contains text from guests, containers, peers and foreign
//! files, whose control characters a terminal would obey: they are escaped.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use latlab_model::diagnostic::plain;
use latlab_report::terminal::Look;

use crate::failure::{Failure, Outcome};

/// Prints a document. Errors: it cannot be written, or its reader is gone.
pub fn out(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(shown(text).as_bytes());
    let written = written.and_then(|()| out.flush());
    written.map_err(|error| unwritten("standard output", &error))
}

/// As [`out`], as the last that a verb does.
pub fn document(text: &str) -> Outcome {
    out(text).map(|()| ExitCode::SUCCESS)
}

/// As [`out`], before an exit code that tells more than success: a reader that is gone does not take that code away.
pub fn out_if_read(text: &str) -> Result<(), Failure> {
    match out(text) {
        Err(failure) if failure.is_broken_pipe() => Ok(()),
        printed => printed,
    }
}

/// The failure of an output of this process. The error's kind stays, by which a reader that is gone is known.
pub fn unwritten(output: &str, error: &io::Error) -> Failure {
    let told = format!("cannot write to {output}: {error}");
    let hint = "what is missing there is lost; look whether its file system is full";
    Failure::of(io::Error::new(error.kind(), told), hint)
}

/// Prints to the standard error; a failure is ignored.
pub fn err(text: &str) {
    let _ = io::stderr().write_all(shown(text).as_bytes());
}

/// Colours on a terminal, unless NO_COLOR is set (no-color.org).
pub fn look() -> Look {
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    Look {
        colour: wanted && io::stdout().is_terminal(),
    }
}

/// Begin and end of a colour sequence (ECMA-48, SGR).
const COLOUR: (&str, char) = ("\x1b[", 'm');

/// Escapes control characters, except for latlab's own colours.
fn shown(text: &str) -> String {
    let mut all = String::with_capacity(text.len());
    let mut parts = text.split(COLOUR.0);
    all += &plain(parts.next().unwrap_or_default());
    for part in parts {
        match part.split_once(COLOUR.1) {
            Some((number, rest)) if is_colour(number) => {
                all += &format!("{}{number}{}{}", COLOUR.0, COLOUR.1, plain(rest));
            }
            _ => all += &plain(&format!("{}{part}", COLOUR.0)),
        }
    }
    all
}

/// Reset, bold, dim, or a colour of the letters.
fn is_colour(number: &str) -> bool {
    let number = number.parse::<u8>().ok().filter(|_| number.len() <= 2);
    number.is_some_and(|n| matches!(n, 0..=2 | 30..=37 | 90..=97))
}

// These shadow the standard library's macros, so that all output of this crate passes through this file. They are for
// words about what was done, which are not worth a failure. A document is printed by `out`.
macro_rules! print {
    ($($text:tt)*) => { drop($crate::print::out(&format!($($text)*))) };
}
macro_rules! println {
    ($($text:tt)*) => { drop($crate::print::out(&(format!($($text)*) + "\n"))) };
}
/// Appends a line to a text that is printed as a whole, so that a closed pipe is an error and not a panic.
macro_rules! line {
    ($out:expr) => {
        $out.push('\n')
    };
    ($out:expr, $($text:tt)*) => {{
        $out.push_str(&format!($($text)*));
        $out.push('\n');
    }};
}
macro_rules! eprint {
    ($($text:tt)*) => { $crate::print::err(&format!($($text)*)) };
}
macro_rules! eprintln {
    ($($text:tt)*) => { $crate::print::err(&(format!($($text)*) + "\n")) };
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn control_characters_are_escaped_except_latlabs_colours() {
        // Title, clear, cursor, conceal, C1's CSI, DEL, a carriage return, right-to-left override.
        let hostile = "\x1b]0;x\x07 \x1b[2J \x1b[1A \x1b[8mhidden \u{9b}31m \x7f \r \u{202e}abc";
        let text = shown(hostile);
        assert!(
            !text.chars().any(|c| c.is_control() || c == '\u{202e}'),
            "{text}"
        );
        assert!(text.contains("\\u001b]0;x\\u0007 \\u001b[2J"), "{text}");
        let ours = "\x1b[1mbold\x1b[0m\ta\n\x1b[31mred\x1b[0m µ →\n";
        assert_eq!(shown(ours), ours);
        assert_eq!(shown("\x1b"), "\\u001b");
        // In a string of JSON that is the same character.
        let json = serde_json::json!(["\u{9b}\u{202e}\x7f"]).to_string();
        let back: Vec<String> = serde_json::from_str(&shown(&json)).unwrap();
        assert_eq!(back, ["\u{9b}\u{202e}\x7f"]);
    }
}
