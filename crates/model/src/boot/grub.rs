//! A drop-in for GRUB: `/etc/default/grub.d/*.cfg`, which Debian's `grub-mkconfig` reads after
//! `/etc/default/grub`. It is a piece of shell.

use std::fmt::Write as _;

use super::parameters::{Parameter, command_line};

/// The beginning of the line: parameters of before stay.
const BEFORE: &str = "GRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }";

/// The text of the file. It adds to what is there, so that another drop-in's parameters stay.
pub fn drop_in(profile: &str, parameters: &[Parameter]) -> String {
    let mut text = format!(
        "# Boot parameters of latlab's profile `{profile}`. Put into force with `update-grub` and a boot;\n\
         # taken back by removing this file and doing the same.\n"
    );
    for parameter in parameters {
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "#\n# {}\n#   evidence: {}\n#   risk: {}\n",
            parameter.text, parameter.evidence, parameter.risk
        );
    }
    let line = command_line(parameters);
    if !line.is_empty() {
        let _ = writeln!(text, "{BEFORE}{line}\"");
    }
    text
}

/// The text of the file for words of a command line that a host boots with until they are taken back.
pub fn drop_in_of(words: &[String]) -> String {
    let line = words.join(" ");
    format!(
        "# Boot parameters of `latlab host HOST boot`, which takes them back.\n{BEFORE}{line}\"\n"
    )
}

/// The words that a drop-in of latlab's adds.
pub fn words_of_drop_in(text: &str) -> Vec<String> {
    let lines = text.lines().filter_map(|line| line.strip_prefix(BEFORE));
    let words = lines.flat_map(|line| line.trim_end_matches('"').split_whitespace());
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_parameters_stay_and_reasons_are_comments() {
        let one = Parameter {
            name: "audit",
            text: "audit=0".into(),
            evidence: "somebody",
            risk: "something",
        };
        let text = drop_in("mine", &[one]);
        let code: Vec<&str> = text.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(
            code,
            ["GRUB_CMDLINE_LINUX=\"${GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }audit=0\""]
        );
        assert!(text.contains("#   risk: something\n"));
        assert_eq!(words_of_drop_in(&text), ["audit=0"]);
        let words = ["audit=0".to_owned(), "quiet".to_owned()];
        assert_eq!(words_of_drop_in(&drop_in_of(&words)), words);
        assert!(drop_in("mine", &[]).lines().all(|l| l.starts_with('#')));
    }
}
