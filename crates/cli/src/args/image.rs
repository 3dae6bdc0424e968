//! Arguments of `latlab image`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab image tools.yaml
  latlab image tools.yaml --again             (with the packages that the archive has now)
  latlab image tools.yaml --output tools.tar
  latlab image tools.yaml --live /srv/tftp      (for machines that boot from the network)
  latlab image tools.yaml --iso tools.iso       (for machines that boot from a medium)

A description of an image:
  debian: bookworm              # or `ubuntu: noble`
  packages: [iperf3, redis-server]
  files:
    /etc/motd: {text: hello}
    /usr/local/bin/tool: {from: build/tool}
  run: [useradd tester]         # lines for the image's shell, as root, behind all else
  kernel: standard              # also cloud, rt, or linux-image-...: VMs and live systems boot it
  mirror: http://...            # instead of the distribution's own archive and its updates
  components: [main]

Nodes of kind container and vm take it as `image: tools.yaml`, or have it in the lab as a mapping; it is made with the \
first deployment. The same packages and files make the same bytes.

A live system is a kernel and an image in memory: with an iPXE script (boot.ipxe) for a server of TFTP or HTTP, or on \
a medium that starts by BIOS and UEFI. It starts the image's own init, else a shell on the console; `empty` has neither. `latlab host HOST boot` starts machines \
with it.")]
pub struct Image {
    /// The description of the image; with `--live` and `--iso` any image of a lab's nodes but `host`.
    #[arg(value_name = "FILE.yaml")]
    pub file: PathBuf,
    /// Make it also if it was made before. Nodes that are up keep the one that they have.
    #[arg(long)]
    pub again: bool,
    /// Write its archive (tar) into this file, which is replaced; makes it again.
    #[arg(long, short, value_name = "FILE.tar")]
    pub output: Option<PathBuf>,
    /// Make a live system in this directory, which is new or has an earlier one.
    #[arg(long, value_name = "DIR", conflicts_with = "output", group = "system")]
    pub live: Option<PathBuf>,
    /// Write a live system into this file, to be copied onto a USB stick or a CD, or for a controller's virtual drive.
    #[arg(long, value_name = "FILE.iso", conflicts_with_all = ["output", "live"], group = "system")]
    pub iso: Option<PathBuf>,
    /// Its kernel: standard, rt, cloud, or the path of a vmlinuz [default: the description's, else standard].
    #[arg(long, requires = "system")]
    pub kernel: Option<String>,
    /// Its serial console, as kernels name it.
    #[arg(long, requires = "system", default_value = "ttyS0,115200", value_parser = console)]
    pub console: String,
    /// Its kernel parameters, which each start has.
    #[arg(
        long,
        requires = "system",
        value_name = "PARAMETERS",
        default_value = "",
        hide_default_value = true
    )]
    pub cmdline: String,
}

/// A word of a command line.
fn console(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == ',';
    match text.starts_with("tty") && text.chars().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("for example `ttyS1,115200`".into()),
    }
}
