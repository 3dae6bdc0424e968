//! `latlab image`: makes an image from packages, ahead of the lab that uses it.

use std::path::Path;
use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::images::{Cache, Error, Image as Root, Made, Wish};
use latlab_host::live;
use latlab_model::boot;

use crate::args::Image;
use crate::downloads::Lines;
use crate::failure::{Failure, Outcome, hinted, need_root};

pub fn run(args: &Image) -> Outcome {
    need_root(
        "image",
        "packages are installed as root, into a directory of their own",
    )?;
    if args.live.is_some() || args.iso.is_some() {
        return make_live(args);
    }
    let cache = Cache::new(Dirs::from_env().cache().join("images"));
    let wish = Wish {
        again: args.again,
        output: args.output.as_deref(),
    };
    let lines = Lines::default();
    let made = cache.make(&args.file, wish, &|step| lines.tell(step));
    let Made {
        root,
        digest,
        kernel,
        was_there,
    } = made.map_err(hinted(Error::hint))?;
    let how = if was_there { "in the cache" } else { "made" };
    let mut text = format!("{how}: sha256:{digest}\n{}\n", root.display());
    if let Some(kernel) = kernel {
        line!(text, "kernel {} ({})", kernel.release, kernel.origin);
    }
    crate::print::document(&text)
}

/// Makes a live system of an image, which may be one of any kind.
fn make_live(args: &Image) -> Outcome {
    let dirs = Dirs::from_env();
    let text = args.file.to_string_lossy();
    let image = Root::find(&text, Path::new("")).map_err(hinted(Error::hint))?;
    let lines = Lines::default();
    let tell = |step: &str| lines.tell(step);
    if let (true, Root::Recipe(file)) = (args.again, &image) {
        let wish = Wish {
            again: true,
            output: None,
        };
        let cache = Cache::new(dirs.cache().join("images"));
        cache.make(file, wish, &tell).map_err(hinted(Error::hint))?;
    }
    let wrong = |(message, hint): (String, String)| Failure::new(message, hint);
    let parameters = boot::words(&args.cmdline).map_err(wrong)?;
    let wish = live::Wish {
        parameters: &parameters,
        image: &image,
        kernel: args.kernel.as_deref(),
        console: &args.console,
    };
    let make = |directory: &Path| live::make(directory, wish, dirs.cache(), &tell);
    let (path, made, how) = match (&args.live, &args.iso) {
        (Some(directory), _) => (directory, make(directory), "boot.ipxe starts"),
        (None, Some(file)) => (file, live::iso::make(file, &tell, make), "starts"),
        (None, None) => return Ok(ExitCode::SUCCESS),
    };
    let made = made.map_err(hinted(live::Error::hint))?;
    println!("{}: {how} Linux {}", path.display(), made.kernel());
    Ok(ExitCode::SUCCESS)
}
