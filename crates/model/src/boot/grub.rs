//! A drop-in for GRUB: `/etc/default/grub.d/*.cfg`, which Debian's `grub-mkconfig` reads after
//! `/etc/default/grub`. It is a piece of shell.

use std::fmt::Write as _;

use super::parameters::{Parameter, command_line};

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
        let _ = writeln!(
            text,
            "GRUB_CMDLINE_LINUX=\"${{GRUB_CMDLINE_LINUX:+$GRUB_CMDLINE_LINUX }}{line}\""
        );
    }
    text
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
        assert!(drop_in("mine", &[]).lines().all(|l| l.starts_with('#')));
    }
}
