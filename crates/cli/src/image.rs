//! `latlab image`: makes an image from packages, ahead of the lab that uses it.

use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::images::{Cache, Error, Made, Wish};

use crate::args::Image;
use crate::downloads::Lines;
use crate::failure::{Failure, Outcome, need_root};

pub fn run(args: &Image) -> Outcome {
    need_root(
        "image",
        "packages are installed as root, into a directory of their own",
    )?;
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
        was_there,
    } = made.map_err(failed)?;
    let how = if was_there { "in the cache" } else { "made" };
    println!("{how}: sha256:{digest}");
    println!("{}", root.display());
    Ok(ExitCode::SUCCESS)
}

fn failed(error: Error) -> Failure {
    let hint = error.hint();
    Failure::of(error, hint)
}
