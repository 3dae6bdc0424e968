//! Names of labs and nodes: containerlab allows nearly any, latlab those of hosts.

use std::collections::{HashMap, HashSet};

use super::remarks::Remarks;
use crate::diagnostic::{Spanned, shown};
use crate::spec::name::{MAX_NAME, dashed};

/// Gives each name of a topology one of its own in the lab.
#[derive(Debug, Default)]
pub(super) struct Names {
    taken: HashSet<String>,
    /// The last number that was put behind a name.
    numbers: HashMap<String, usize>,
}

impl Names {
    /// The name in the lab, which is told where it differs.
    pub(super) fn give(
        &mut self,
        what: &str,
        name: &Spanned<String>,
        remarks: &mut Remarks,
    ) -> String {
        let given = self.free(&plain(name), MAX_NAME);
        if given != name.value {
            let message = format!("{what} `{}` is named `{given}`", shown(name));
            remarks.add(
                name.at,
                message,
                "names are small letters and digits, with hyphens between",
            );
        }
        given
    }

    /// `name`, with a number behind it if it is taken, and at most so long.
    pub(super) fn free(&mut self, name: &str, longest: usize) -> String {
        let mut given = cut(name, longest);
        while !self.taken.insert(given.clone()) {
            let number = self.numbers.entry(name.to_string()).or_insert(1);
            *number += 1;
            let number = format!("-{number}");
            given = cut(name, longest - number.len()) + &number;
        }
        given
    }
}

fn cut(name: &str, longest: usize) -> String {
    let cut: String = name.chars().take(longest).collect();
    cut.trim_end_matches('-').to_string()
}

/// The nearest name that latlab takes.
fn plain(name: &str) -> String {
    let name = dashed(name);
    let is_number = name.bytes().all(|b| b.is_ascii_hexdigit() || b == b'x')
        && name.starts_with(|c: char| c.is_ascii_digit());
    match name.as_str() {
        "" => "n".into(),
        "localhost" | "ip6-localhost" | "ip6-loopback" => format!("n-{name}"),
        _ if is_number => format!("n{name}"),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Mark;

    #[test]
    fn every_name_becomes_one_that_a_host_can_have() {
        let mut names = Names::default();
        let mut remarks = Remarks::default();
        let long = "a-very-long-name-of-some-router-in-a-datacentre";
        let given: Vec<String> = [
            "PC1",
            "pc1",
            "PC-1",
            "br_01|bp1",
            "-",
            "17",
            "localhost",
            "é",
            long,
            long,
        ]
        .map(|name| {
            names.give(
                "node",
                &Spanned::new(name.into(), Mark::new(1, 1)),
                &mut remarks,
            )
        })
        .to_vec();
        assert_eq!(
            given,
            [
                "pc1",
                "pc1-2",
                "pc-1",
                "br-01-bp1",
                "n",
                "n17",
                "n-localhost",
                "n-2",
                "a-very-long-name-of-some-router",
                "a-very-long-name-of-some-route-2",
            ]
        );
        assert_eq!(remarks.sorted().len(), given.len());
    }
}
