//! `latlab destroy`: by name or all; the journal is enough.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use latlab_host::dirs::Dirs;
use latlab_host::lab;

use crate::args::Destroy;
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::hosts::{self, record::Record};

pub fn run(args: &Destroy) -> Outcome {
    need_root(
        "destroy",
        "it removes network namespaces, links and cgroups",
    )?;
    let dirs = Dirs::from_env();
    let names = if args.all {
        let mut names = lab::list(&dirs).map_err(explain)?;
        if !args.here {
            names.extend(Record::list(&dirs)?);
        }
        names.sort();
        names.dedup();
        names
    } else {
        args.labs.clone()
    };
    if args.all && names.is_empty() {
        println!("no labs are deployed");
        return Ok(ExitCode::SUCCESS);
    }
    if args.all && !args.yes && !agreed(&names)? {
        println!("nothing was removed");
        return Ok(ExitCode::SUCCESS);
    }
    // A failure of one lab must not prevent the removal of the others.
    let mut failures = Vec::new();
    for name in &names {
        let record = match args.here {
            true => Ok(None),
            false => Record::read(&dirs, name),
        };
        let on_hosts = record.transpose().map(|record| {
            let destroyed = hosts::destroy::run(&dirs, record?);
            destroyed.map(|()| println!("removed lab `{name}` from its hosts"))
        });
        if let Some(destroyed) = on_hosts {
            failures.extend(destroyed.err());
            continue;
        }
        match lab::destroy(&dirs, name) {
            Ok(Some(removed)) => {
                for warning in &removed.warnings {
                    eprintln!("latlab: {warning}");
                }
                println!("removed lab `{name}`");
            }
            Ok(None) => println!("no lab `{name}` is deployed"),
            Err(error) => failures.push(explain(error)),
        }
    }
    let last = failures.pop();
    for failure in failures {
        eprint!("{failure}");
    }
    last.map_or(Ok(ExitCode::SUCCESS), Err)
}

fn agreed(names: &[String]) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() {
        let message = format!(
            "`destroy --all` would remove {} and there is no terminal for confirmation",
            names.join(", ")
        );
        return Err(Failure::new(message, "add -y"));
    }
    print!("remove {}? [y/N] ", names.join(", "));
    std::io::stdout().flush()?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
