//! Words of a command line that a person gives. They pass through boot loaders' scripts, each with its own notation, so what
//! means something there is refused instead of quoted.

/// Characters that mean something to a shell, to GRUB or to iPXE.
const SPECIAL: &[char] = &[
    '"', '\'', '`', '$', '\\', ';', '|', '&', '<', '>', '(', ')', '{', '}', '#',
];
/// Parameters by which latlab and boot loaders themselves start a system.
const TAKEN: [&str; 3] = ["latlab.", "initrd=", "BOOT_IMAGE="];

/// Reads words. Fails at the first that cannot be one: what, and what to do.
pub fn words(text: &str) -> Result<Vec<String>, (String, String)> {
    let read = text.split_whitespace().map(|word| {
        let plain = word
            .chars()
            .all(|c| c.is_ascii_graphic() && !SPECIAL.contains(&c));
        let shown: String = word.chars().flat_map(char::escape_debug).collect();
        if !plain || word.starts_with('-') {
            let hint =
                "parameters are words as `isolcpus=2-7`, without quotes and signs of a shell";
            return Err((format!("`{shown}` is no kernel parameter"), hint.into()));
        }
        if TAKEN.iter().any(|taken| word.starts_with(taken)) {
            let message = format!("the kernel parameter `{shown}` is not for others to set");
            return Err((message, "leave it out".into()));
        }
        Ok(word.to_owned())
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_parameters_are_words() {
        let text =
            " isolcpus=managed_irq,domain,1-3  crashkernel=512M-2G:64M memmap=4G!8G\tmce=off\n";
        let read = words(text).unwrap();
        let expected = [
            "isolcpus=managed_irq,domain,1-3",
            "crashkernel=512M-2G:64M",
            "memmap=4G!8G",
            "mce=off",
        ];
        assert_eq!(read, expected);
        assert_eq!(words("").unwrap(), [""; 0]);
    }

    #[test]
    fn what_a_boot_loader_would_read_otherwise_is_refused() {
        for text in [
            "a=$(reboot)",
            "a=`b`",
            "a=\"b",
            "a=${net0/mac}",
            "a;b",
            "a\\",
            "-x",
            "a\u{e4}",
            "#",
            "a||b",
        ] {
            let (message, _) = words(text).unwrap_err();
            assert!(
                message.contains("is no kernel parameter"),
                "{text}: {message}"
            );
        }
        for text in ["latlab.live", "initrd=x", "BOOT_IMAGE=y"] {
            assert!(
                words(text).unwrap_err().0.contains("not for others"),
                "{text}"
            );
        }
    }
}
