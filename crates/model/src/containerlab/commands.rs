//! Commands of nodes. containerlab divides a command into words and starts the first one; latlab hands a line to the
//! node's shell. Both directions keep what reaches the program.

use ipnet::IpNet;

/// The words of a command, divided as containerlab does: quotes, backslashes and comments are a shell's, everything
/// else of a shell is a plain character. None if a quote is not closed.
pub(super) fn split(text: &str) -> Option<Vec<String>> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            ' ' | '\t' | '\r' | '\n' => words.extend(word.take()),
            '#' if word.is_none() => drop(rest.by_ref().find(|c| *c == '\n')),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '\'' => break,
                        c => word.push(c),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match rest.next()? {
                        '"' => break,
                        '\\' => word.push(rest.next()?),
                        c => word.push(c),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(rest.next()?),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Some(words)
}

/// The words as a shell's line.
pub(super) fn joined(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    words.join(" ")
}

/// A word of a shell.
pub(super) fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=:,./@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The words as one of a node's `exec`, which a shell runs: a shell's own script needs no second one.
pub(super) fn exec_line(words: &[String]) -> String {
    match words {
        [shell, flag, script] if ["sh", "/bin/sh"].contains(&shell.as_str()) && flag == "-c" => {
            script.clone()
        }
        _ => joined(words),
    }
}

/// A line of a shell as a command of containerlab.
pub(super) fn without_shell(line: &str) -> String {
    let is_plain = split(line).is_some_and(|words| !words.is_empty() && joined(&words) == line);
    match is_plain {
        true => line.to_string(),
        false => joined(&["sh".into(), "-c".into(), line.into()]),
    }
}

/// Whether a container's command does nothing except keep it.
pub(super) fn only_waits(words: &[String]) -> bool {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["sleep" | "/bin/sleep", _] | ["tail", "-f", "/dev/null"] | ["cat"] => true,
        ["sh" | "ash" | "bash" | "/bin/sh" | "/bin/ash" | "/bin/bash"] => true,
        ["sh" | "ash" | "bash" | "/bin/sh", "-c", script] => {
            split(script).is_some_and(|inner| only_waits(&inner))
        }
        _ => false,
    }
}

/// The effect of a plain command of iproute2 on an interface.
#[derive(Debug, PartialEq)]
pub(super) enum Configures {
    Address(String, IpNet),
    /// The interface comes up.
    Up(String),
}

impl Configures {
    pub(super) fn interface(&self) -> &str {
        match self {
            Configures::Address(interface, _) | Configures::Up(interface) => interface,
        }
    }

    /// None for a command that does anything more.
    pub(super) fn of(words: &[String]) -> Option<Configures> {
        let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
        let family = words
            .get(1)
            .filter(|word| matches!(**word, "-4" | "-6"))
            .copied();
        if family.is_some() {
            words.remove(1);
        }
        let [
            "ip" | "/sbin/ip" | "/usr/sbin/ip" | "/bin/ip",
            object,
            ref rest @ ..,
        ] = words[..]
        else {
            return None;
        };
        match (object, rest) {
            ("address" | "addr" | "a", ["add" | "a", rest @ ..]) => address(rest, family),
            (
                "link" | "l",
                ["set" | "s", "up", "dev", interface] | ["set" | "s", "up", interface],
            ) => Some(Configures::Up((*interface).into())),
            (
                "link" | "l",
                ["set" | "s", "dev", interface, "up"] | ["set" | "s", interface, "up"],
            ) => Some(Configures::Up((*interface).into())),
            _ => None,
        }
    }
}

/// `10.0.0.1/24 dev eth1`, in either order.
fn address(rest: &[&str], family: Option<&str>) -> Option<Configures> {
    let (address, interface) = match rest {
        [address, "dev", interface] | ["dev", interface, address] => (address, interface),
        _ => return None,
    };
    let address: IpNet = address.parse().ok()?;
    let agrees = family.is_none_or(|family| (family == "-6") == address.addr().is_ipv6());
    agrees.then(|| Configures::Address((*interface).into(), address))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        split(text).unwrap()
    }

    #[test]
    fn commands_are_divided_into_words_as_containerlab_does() {
        for (text, expected) in [
            (
                "ip link set eth1 up",
                &["ip", "link", "set", "eth1", "up"][..],
            ),
            (
                r#"bash -c 'echo "a b" > /x'"#,
                &["bash", "-c", r#"echo "a b" > /x"#],
            ),
            (r#"a "b \"c" d\ e"#, &["a", r#"b "c"#, "d e"]),
            ("a '' \"\"", &["a", "", ""]),
            ("a # b\nc d#e", &["a", "c", "d#e"]),
            ("a > b && c", &["a", ">", "b", "&&", "c"]),
            ("", &[]),
        ] {
            assert_eq!(words(text), expected, "{text}");
        }
        for open in ["a 'b", "a \"b", "a \\", "\"\\"] {
            assert_eq!(split(open), None, "{open}");
        }
    }

    #[test]
    fn a_shell_gives_the_program_the_same_words() {
        for (text, line) in [
            (
                "ip route add 10.0.0.0/8 via 10.0.0.1",
                "ip route add 10.0.0.0/8 via 10.0.0.1",
            ),
            ("echo a > b", "echo a '>' b"),
            ("sh -c 'echo a > b'", "echo a > b"),
            (r#"bash -c "echo $X it's""#, r"bash -c 'echo $X it'\''s'"),
        ] {
            assert_eq!(exec_line(&words(text)), line);
        }
    }

    #[test]
    fn a_line_of_a_shell_is_the_same_after_both_ways() {
        for line in [
            "ip route add 10.0.0.0/8 via 10.0.0.1",
            "echo 1 > /proc/sys/net/ipv4/ip_forward",
            "echo 'a  b' && sleep 1 &",
            "bash -c 'echo a'",
            "echo \"$HOME\" # a",
        ] {
            let there = without_shell(line);
            assert_eq!(exec_line(&words(&there)), line, "{there}");
        }
    }

    #[test]
    fn plain_commands_of_iproute2_are_known() {
        let address = |interface: &str, address: &str| {
            Some(Configures::Address(
                interface.into(),
                address.parse().unwrap(),
            ))
        };
        for text in [
            "ip addr add 10.0.0.1/24 dev eth1",
            "ip address add dev eth1 10.0.0.1/24",
            "ip -4 a add 10.0.0.1/24 dev eth1",
            "/sbin/ip a a 10.0.0.1/24 dev eth1",
        ] {
            assert_eq!(
                Configures::of(&words(text)),
                address("eth1", "10.0.0.1/24"),
                "{text}"
            );
        }
        let six = Configures::of(&words("ip -6 addr add fd00::1/64 dev eth1"));
        assert_eq!(six, address("eth1", "fd00::1/64"));
        for text in [
            "ip link set eth1 up",
            "ip link set up dev eth1",
            "ip l set dev eth1 up",
        ] {
            assert_eq!(
                Configures::of(&words(text)),
                Some(Configures::Up("eth1".into())),
                "{text}"
            );
        }
        for text in [
            "ip addr add 10.0.0.1 dev eth1",
            "ip addr add 10.0.0.1/24 brd + dev eth1",
            "ip -6 addr add 10.0.0.1/24 dev eth1",
            "ip addr del 10.0.0.1/24 dev eth1",
            "ip link set eth1 mtu 1400",
            "ip route add default via 10.0.0.1",
            "sh -c 'ip link set eth1 up'",
            "ip",
            "",
        ] {
            assert_eq!(Configures::of(&words(text)), None, "{text}");
        }
    }

    #[test]
    fn a_command_that_only_waits_is_known() {
        for text in [
            "sleep infinity",
            "tail -f /dev/null",
            "bash",
            "ash -c \"sleep 9999\"",
            "sh -c 'bash -c bash'",
        ] {
            assert!(only_waits(&words(text)), "{text}");
        }
        for text in [
            "nginx",
            "ash -c \"echo $X > /tmp/x && sleep 9999\"",
            "sleep 1 2",
            "sh -c 'sh -c \"a b c\"'",
        ] {
            assert!(!only_waits(&words(text)), "{text}");
        }
    }
}
