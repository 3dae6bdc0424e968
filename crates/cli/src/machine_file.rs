//! The machine's file (`machine.yaml`): ports and cables of this machine under names of their own.

use std::path::PathBuf;

use latlab_host::facts::pci_driver;
use latlab_model::diagnostic::Diagnostics;
use latlab_model::facts::{Facts, Wiring};
use latlab_model::plan::wiring;
use latlab_model::spec::MachineFile;

use crate::failure::Failure;

/// Where the file is, and its text; none where there is no file.
fn read() -> Result<Option<(PathBuf, String)>, Failure> {
    let named = std::env::var_os("LATLAB_MACHINE").filter(|name| !name.is_empty());
    let is_named = named.is_some();
    let path = named.map_or_else(|| Wiring::FILE.into(), PathBuf::from);
    match std::fs::read_to_string(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => Ok(None),
        Err(error) => Err(Failure::new(
            format!("cannot read the machine's file {}: {error}", path.display()),
            match is_named {
                true => "`LATLAB_MACHINE` names it; unset it, or name a file that is there",
                false => "check the file's permissions",
            },
        )),
    }
}

/// Adds what the file says to the facts of this machine. A port that is not as the file says is left to the labs that
/// ask for it. Errors: a file that cannot be read.
pub fn add_to(facts: &mut Facts) -> Result<(), Failure> {
    let Some((path, text)) = read()? else {
        return Ok(());
    };
    let name = path.display().to_string();
    let file = MachineFile::parse(&text).map_err(|all| {
        let first = all.iter().next().map_or("", |one| one.message.as_str());
        Failure::new(
            format!("the machine's file {name} has a mistake: {first}"),
            format!("`latlab validate {name}` tells all with their places"),
        )
    })?;
    let wired = wiring(
        &file,
        &name,
        facts,
        &pci_driver,
        &mut Diagnostics::default(),
    );
    facts.wiring = Some(wired);
    Ok(())
}
