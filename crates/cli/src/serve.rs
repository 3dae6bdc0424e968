//! `latlab serve`: the explorer, a local web page over a directory of runs. Needs no root.

use std::path::PathBuf;
use std::process::ExitCode;

use latlab_explorer::{ServeError, Server, Settings};
use latlab_host::dirs::Dirs;

use crate::args::Serve;
use crate::failure::{Failure, Hint, Outcome, hinted};
use crate::signals::stop_flag;

pub fn run(args: &Serve) -> Outcome {
    let runs = std::fs::canonicalize(&args.runs);
    let runs = runs.map_err(|source| {
        let error =
            anyhow::Error::new(source).context(format!("cannot serve {}", args.runs.display()));
        Failure::of(
            error,
            "name the directory in which `latlab run` makes its run directories",
        )
    })?;
    let settings = Settings {
        cache: cache()?,
        runs,
        listen: args.listen,
    };
    let server = Server::start(settings).map_err(hinted(hint))?;
    let stop = stop_flag()?;
    let mut text = format!("{}\n", server.url());
    line!(text, "serving {}; Ctrl-C ends it", server.runs().display());
    if !server.is_local() {
        text.push_str("Other machines reach this address, and the connection is not encrypted: prefer ssh -L.\n");
    }
    crate::print::out(&text)?;
    server
        .serve(stop)
        .hint("start it again; the runs and the index are unharmed")?;
    Ok(ExitCode::SUCCESS)
}

fn hint(error: &ServeError) -> &'static str {
    match error {
        ServeError::Listen { .. } => {
            "name another address or port, for example `--listen 127.0.0.1:0` for a free one"
        }
        ServeError::Runs { .. } => "name a directory that you can read",
        ServeError::Index(_) => "LATLAB_CACHE_DIR names another directory for the index",
        _ => "this is a fault of latlab or of the kernel",
    }
}

/// The directory of the index: with root latlab's own cache, for others theirs.
fn cache() -> Result<PathBuf, Failure> {
    let set = |name: &str| {
        std::env::var_os(name)
            .filter(|value| !value.is_empty())
            .map(PathBuf::from)
    };
    if rustix::process::geteuid().is_root() || set("LATLAB_CACHE_DIR").is_some() {
        return Ok(Dirs::from_env().cache().to_owned());
    }
    let home = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
    let home = home.ok_or_else(|| {
        Failure::new(
            "there is no place for the index of the runs",
            "set LATLAB_CACHE_DIR to a directory",
        )
    })?;
    Ok(home.join("latlab"))
}
