//! The parameters the host puts on the guest's kernel command line for its init. They all begin with
//! `latlab.`, a form the kernel takes for a module's parameter and leaves alone.

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Transport {
    #[default]
    NineP,
    VirtioFs,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub tag: String,
    /// Where it goes in the guest.
    pub path: String,
    pub access: Access,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    ReadOnly,
    Writable,
    /// A file system image on a disk with the tag as its serial number.
    Disk,
    /// The same, which may be written: ext4.
    WritableDisk,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters {
    /// `latlab.name=`: the host name.
    pub name: Option<String>,
    /// `latlab.fs=9p|virtiofs`: how trees arrive.
    pub transport: Transport,
    /// `latlab.root=disk`: the root is a file system image on a disk, not a share.
    pub root_on_disk: bool,
    /// `latlab.ports=`: how many channel ports there are.
    pub ports: usize,
    /// `latlab.share=TAG:ro|rw|disk|ext4:PATH`, any number of times.
    pub shares: Vec<Share>,
    /// `latlab.memory=BYTES:PATH`, any number of times: directories in a memory of their own.
    pub memory: Vec<(u64, String)>,
    /// `latlab.drivers`: load the drivers of network cards of hardware.
    pub drivers: bool,
    /// `latlab.probe`: say on the console that user space runs, and turn the machine off.
    pub probe: bool,
    /// `latlab.template`: mount nothing and wait for an identity on the channel.
    pub template: bool,
    /// `latlab.live`: this is a machine that started from the network, not a guest of a lab.
    pub live: bool,
    /// `latlab.boot=`: by which the one who asked for this start knows it.
    pub boot: Option<String>,
}

impl Parameters {
    /// Reads the text of `/proc/cmdline`. A parameter that makes no sense is reported by its words.
    pub fn parse(line: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for word in line.split_ascii_whitespace() {
            let Some(word) = word.strip_prefix("latlab.") else {
                continue;
            };
            let bad = || format!("kernel parameter 'latlab.{word}' makes no sense to this agent");
            match word.split_once('=') {
                None if word == "drivers" => found.drivers = true,
                None if word == "probe" => found.probe = true,
                None if word == "template" => found.template = true,
                None if word == "live" => found.live = true,
                Some(("boot", id)) => found.boot = Some(id.to_owned()),
                Some(("name", name)) => found.name = Some(name.to_owned()),
                Some(("fs", "9p")) => found.transport = Transport::NineP,
                Some(("fs", "virtiofs")) => found.transport = Transport::VirtioFs,
                Some(("root", "disk")) => found.root_on_disk = true,
                Some(("ports", count)) => found.ports = count.parse().map_err(|_| bad())?,
                Some(("memory", memory)) => {
                    let (bytes, path) = memory.split_once(':').ok_or_else(bad)?;
                    let bytes = bytes.parse().map_err(|_| bad())?;
                    found.memory.push((bytes, path.to_owned()));
                }
                Some(("share", share)) => {
                    let mut parts = share.splitn(3, ':');
                    let (Some(tag), Some(access), Some(path)) =
                        (parts.next(), parts.next(), parts.next())
                    else {
                        return Err(bad());
                    };
                    let access = match access {
                        "ro" => Access::ReadOnly,
                        "rw" => Access::Writable,
                        "disk" => Access::Disk,
                        "ext4" => Access::WritableDisk,
                        _ => return Err(bad()),
                    };
                    let (tag, path) = (tag.to_owned(), path.to_owned());
                    found.shares.push(Share { tag, path, access });
                }
                _ => return Err(bad()),
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hosts_parameters_are_read_among_the_kernels() {
        let line = "console=ttyS0 latlab.name=third latlab.fs=virtiofs latlab.ports=8 quiet \
                    latlab.share=s0:rw:/mnt/a:b latlab.root=disk latlab.share=s1:disk:/lib \
                    latlab.share=s2:ext4:/data latlab.memory=4096:/tmp/x latlab.probe latlab.template \
                    latlab.drivers latlab.live latlab.boot=5f";
        let found = Parameters::parse(line).unwrap();
        assert_eq!(found.name.as_deref(), Some("third"));
        assert_eq!(found.transport, Transport::VirtioFs);
        assert_eq!(found.ports, 8);
        assert!(found.probe && found.template && found.root_on_disk && found.drivers);
        assert!(found.live);
        assert_eq!(found.boot.as_deref(), Some("5f"));
        let share = |tag: &str, path: &str, access| Share {
            tag: tag.into(),
            path: path.into(),
            access,
        };
        let expected = [
            share("s0", "/mnt/a:b", Access::Writable),
            share("s1", "/lib", Access::Disk),
            share("s2", "/data", Access::WritableDisk),
        ];
        assert_eq!(found.shares, expected);
        assert_eq!(found.memory, [(4096, "/tmp/x".to_owned())]);
    }

    #[test]
    fn nonsense_is_named() {
        for word in [
            "ports=many",
            "share=x",
            "share=x:maybe:/y",
            "memory=/y",
            "memory=much:/y",
            "fs=nfs",
            "root=nfs",
            "colour=red",
            "name",
        ] {
            let error = Parameters::parse(&format!("quiet latlab.{word}")).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
