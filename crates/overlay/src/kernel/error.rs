//! Errors of the kernel path.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot load the kernel path: {0}")]
    Load(String),
    #[error("cannot {action} of the kernel path: {reason}")]
    Map {
        action: &'static str,
        reason: String,
    },
    #[error("cannot {action} interface #{device}: {reason}")]
    Attach {
        action: &'static str,
        device: u32,
        reason: String,
    },
    #[error("interface #{0} is no veth or netkit whose other end is in another network namespace")]
    NoContainer(u32),
    #[error("interface #{0} is a netkit of mode l3, which carries no Ethernet frames")]
    NoFrames(u32),
    #[error(
        "interface #{0} is the peer of its netkit pair, and programs are put at the primary end only"
    )]
    NotPrimary(u32),
    #[error("the kernel path `{name}` was made by another version of this program")]
    OtherVersion { name: String },
    #[error("the name `{0}` is longer than {most} bytes", most = super::layout::NAME_BYTES)]
    Name(String),
}

impl Error {
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Error::Load(_) => {
                "`latlab doctor` says what of BPF works here; without it containers use the \
                 daemon's taps"
            }
            Error::Map { .. } => "is the daemon root, and the memory limit high enough?",
            Error::Attach { .. } => "is the interface in the daemon's own network namespace?",
            Error::NoContainer(_) => {
                "make a veth pair, move one end into the container and name the other one"
            }
            Error::NoFrames(_) => "make it with `ip link add NAME type netkit mode l2 …`",
            Error::NotPrimary(_) => {
                "make the pair the other way round: `ip link add NAME type netkit mode l2 peer name eth0 netns \
                 CONTAINER`, and name NAME"
            }
            Error::OtherVersion { .. } => {
                "stop the old daemon and take its programs away, `bpftool net` shows them: `bpftool \
                 net detach tcx_ingress dev IF` (or `netkit_peer`), or `tc qdisc del dev IF clsact`"
            }
            Error::Name(_) => "take a shorter one",
        }
    }
}
