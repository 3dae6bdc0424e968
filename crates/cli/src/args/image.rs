//! Arguments of `latlab image`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab image tools.yaml
  latlab image tools.yaml --again             (with the packages that the archive has now)
  latlab image tools.yaml --output tools.tar

A description of an image:
  debian: bookworm              # or `ubuntu: noble`
  packages: [iperf3, redis-server]
  files:
    /etc/motd: {text: hello}
    /usr/local/bin/tool: {from: build/tool}
  run: [useradd tester]         # lines for the image's shell, as root, behind all else
  mirror: http://...            # instead of the distribution's own archive and its updates
  components: [main]

Nodes of kind container and vm take it as `image: tools.yaml`, and it is made with the first \
deployment. The same packages and files make the same bytes.")]
pub struct Image {
    /// The description of the image.
    #[arg(value_name = "FILE.yaml")]
    pub file: PathBuf,
    /// Make it also if it was made before. Nodes that are up keep the one that they have.
    #[arg(long)]
    pub again: bool,
    /// Write its archive (tar) here; makes it again.
    #[arg(long, short, value_name = "FILE.tar")]
    pub output: Option<PathBuf>,
}
