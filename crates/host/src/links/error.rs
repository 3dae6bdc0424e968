//! Errors of links.

use std::path::PathBuf;

use latlab_model::plan::{LinkPlan, NodePlan};

use crate::sys;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("link `{link}`: {source}")]
    Netlink {
        link: String,
        source: latlab_netlink::Error,
    },
    #[error("link `{link}`: {source}")]
    Sys { link: String, source: sys::Error },
    #[error("node `{node}`: {source}")]
    Node {
        node: String,
        source: latlab_netlink::Error,
    },
    #[error(transparent)]
    Namespace(#[from] sys::Error),
    #[error("link `{link}`: its overlay daemon did not start{}", said(log))]
    Overlay { link: String, log: Vec<String> },
    #[error("link `{link}` needs a program of latlab's that is not at {}", path.display())]
    NoOverlay { link: String, path: PathBuf },
    #[error("link `{link}`: cannot write {}: {source}", path.display())]
    File {
        link: String,
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("link `{link}`: nft refused the rules: {reason}")]
    Rules { link: String, reason: String },
    #[error("link `{link}`: this kernel has no `{kind}` queueing discipline")]
    NoQdisc { link: String, kind: &'static str },
    #[error("link `{link}`: the host has no interface `{interface}`")]
    NoInterface { link: String, interface: String },
    #[error("link `{link}`: `{interface}` cannot be divided: {reason}")]
    Undivided {
        link: String,
        interface: String,
        reason: String,
        hint: &'static str,
    },
    #[error("link `{link}`: `{interface}` cannot be given by VFIO: {reason}")]
    NotGiven {
        link: String,
        interface: String,
        reason: String,
        hint: &'static str,
    },
    #[error("{place}: the timestamps of `{interface}` cannot be set: {source}")]
    Unstamped {
        place: String,
        interface: String,
        source: std::io::Error,
    },
    #[error("interface `{interface}` of the host cannot be moved back: {source}")]
    Return {
        interface: String,
        source: latlab_netlink::Error,
    },
    /// A container's network that cannot be made again at another host.
    #[error("the network of node `{node}` cannot be moved: {what}")]
    NotCopied { node: String, what: String },
    #[error("{place}: interface `{interface}` is not ready: {reason}")]
    NotReady {
        place: String,
        interface: String,
        reason: String,
    },
}

impl Error {
    /// For `map_err`: a refusal of the kernel's that is about a link.
    pub(super) fn of_link(link: &LinkPlan) -> impl Fn(latlab_netlink::Error) -> Self {
        move |source| Self::Netlink {
            link: link.name.clone(),
            source,
        }
    }

    /// For `map_err`: a refusal of the kernel's that is about a node.
    pub(super) fn of_node(node: &NodePlan) -> impl Fn(latlab_netlink::Error) -> Self {
        move |source| Self::Node {
            node: node.name.clone(),
            source,
        }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::NoQdisc { .. } => {
                "run it on a kernel with that module, or remove rate, delay, jitter and loss".into()
            }
            Self::Overlay { log, .. } => {
                let own = log
                    .iter()
                    .find_map(|line| line.trim().strip_prefix("hint: "));
                own.unwrap_or("look at the daemon's log below the lab's run directory")
                    .into()
            }
            Self::NoOverlay { .. } => {
                "build it (`cargo build --workspace`), or say where it is with LATLAB_OVERLAY or LATLAB_AGENT"
                    .into()
            }
            Self::Rules { .. } => "`latlab doctor` says whether nftables works here".into(),
            Self::NoInterface { .. } => {
                "`ip link` lists them; another lab may have it, see `latlab inspect`".into()
            }
            Self::Undivided { hint, .. } | Self::NotGiven { hint, .. } => (*hint).into(),
            Self::Unstamped { .. } => {
                "`ethtool -T` says what the card can; leave `timestamps` of the link out".into()
            }
            Self::Return { .. } => "try again, or see `ip link` and `dmesg`".into(),
            Self::NotCopied { .. } => "undo that inside, or move the node without it".into(),
            Self::NotReady { .. } => "look at the node with `ip -s link`, or deploy again".into(),
            Self::Netlink { source, .. } | Self::Node { source, .. }
                if matches!(source.errno(), Some(libc::EEXIST | libc::EADDRINUSE)) =>
            {
                "something else has that name or address; give the interface another one".into()
            }
            _ => "`latlab doctor` says which kinds of links this machine can make".into(),
        }
    }
}

/// The first thing that a program said, for the end of a line.
fn said(log: &[String]) -> String {
    log.first().map_or_else(String::new, |line| {
        format!(": {}", line.strip_prefix("error: ").unwrap_or(line))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemons_error_is_the_reason_and_its_hint_the_hint() {
        let error = |log: &[&str]| Error::Overlay {
            link: "lan".into(),
            log: log.iter().map(ToString::to_string).collect(),
        };
        let told = error(&["error: there is no interface p0", "  hint: make one"]);
        let reason = "link `lan`: its overlay daemon did not start: there is no interface p0";
        assert_eq!(told.to_string(), reason);
        assert_eq!(told.hint(), "make one");
        let silent = error(&[]);
        assert!(silent.to_string().ends_with("did not start"), "{silent}");
        assert!(silent.hint().contains("the daemon's log"));
    }
}
