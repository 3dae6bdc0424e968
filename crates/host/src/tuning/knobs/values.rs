//! The kernel's words for what is wanted. The catalogue gives every knob one kind of value, so the
//! other kinds do not come here; should one come, it is refused and not guessed.

use latlab_model::profile::{CpuChoice, Wanted};
use latlab_model::units::CpuList;

use super::{Machine, Why};
use crate::tuning::items::nic::Setting;
use crate::tuning::items::{Item, file};

type Text = Result<String, Why>;

fn other(wanted: &Wanted) -> Why {
    let message = format!("`{wanted}` is no value of it");
    Why::Impossible(message, "see `latlab tune show`".into())
}

/// `1` and `0`.
pub fn switch(_: &Machine<'_>, wanted: &Wanted) -> Text {
    match wanted {
        Wanted::Switch(on) => Ok(u8::from(*on).to_string()),
        _ => Err(other(wanted)),
    }
}

/// A number as it is.
pub fn number(_: &Machine<'_>, wanted: &Wanted) -> Text {
    match wanted {
        Wanted::Number(n) => Ok(n.to_string()),
        _ => Err(other(wanted)),
    }
}

/// A word as it is.
pub fn word(_: &Machine<'_>, wanted: &Wanted) -> Text {
    match wanted {
        Wanted::Word(word) => Ok((*word).to_string()),
        _ => Err(other(wanted)),
    }
}

/// Bytes.
pub fn bytes(_: &Machine<'_>, wanted: &Wanted) -> Text {
    match wanted {
        Wanted::Size(size) => Ok(size.0.to_string()),
        _ => Err(other(wanted)),
    }
}

fn duration(wanted: &Wanted, unit: u64, off: &str) -> Text {
    match wanted {
        Wanted::Duration(time) => Ok((time.0 / unit).to_string()),
        Wanted::Switch(false) => Ok(off.to_string()),
        _ => Err(other(wanted)),
    }
}

/// Microseconds; 0 for off.
pub fn microseconds(_: &Machine<'_>, wanted: &Wanted) -> Text {
    duration(wanted, 1_000, "0")
}

/// Microseconds; -1 for off.
pub fn microseconds_or_minus_1(_: &Machine<'_>, wanted: &Wanted) -> Text {
    duration(wanted, 1_000, "-1")
}

/// Nanoseconds; 0 for off.
pub fn nanoseconds(_: &Machine<'_>, wanted: &Wanted) -> Text {
    duration(wanted, 1, "0")
}

/// Hundredths of a second; 0 for off.
pub fn centiseconds(_: &Machine<'_>, wanted: &Wanted) -> Text {
    duration(wanted, 10_000_000, "0")
}

/// Seconds.
pub fn seconds(_: &Machine<'_>, wanted: &Wanted) -> Text {
    duration(wanted, 1_000_000_000, "0")
}

/// The processors of a choice, which may be none.
pub fn cpus(machine: &Machine<'_>, wanted: &Wanted) -> Text {
    match wanted {
        Wanted::Cpus(choice) => Ok(file::list(&machine.cores.of(choice)?)),
        _ => Err(other(wanted)),
    }
}

/// The processors of a choice, at least one: the thing itself cannot be nowhere.
pub fn some_cpus(machine: &Machine<'_>, wanted: &Wanted) -> Result<CpuList, Why> {
    let list = match wanted {
        Wanted::Cpus(choice) => machine.cores.of(choice)?,
        _ => return Err(other(wanted)),
    };
    match list.is_empty() {
        false => Ok(list),
        true => Err(Why::Impossible(
            format!("`{wanted}` leaves it no processor"),
            "name at least one, or `all`".into(),
        )),
    }
}

/// As [`some_cpus`], as text.
pub fn at_least_one_cpu(machine: &Machine<'_>, wanted: &Wanted) -> Text {
    some_cpus(machine, wanted).map(|list| list.to_string())
}

/// The processors that are kept quiet, or all where none are: whom a knob of single processors is for.
pub fn quiet(machine: &Machine<'_>) -> CpuList {
    let cores = machine.cores;
    let chosen = match cores.isolated.is_empty() {
        true => CpuChoice::All,
        false => CpuChoice::Isolated,
    };
    cores.of(&chosen).unwrap_or_else(|_| cores.all())
}

/// Settings of every interface with hardware, or a hypervisor, behind it.
pub fn cards(machine: &Machine<'_>, settings: &[Setting], none: &str) -> Result<Vec<Item>, String> {
    let devices = machine.root.glob("/sys/class/net/*/device");
    let names = devices
        .iter()
        .filter_map(|path| path.parent()?.file_name()?.to_str());
    let mut items = Vec::new();
    for interface in names {
        items.extend(settings.iter().map(|setting| Item::Nic {
            interface: interface.to_string(),
            setting: *setting,
        }));
    }
    match items.is_empty() {
        false => Ok(items),
        true => Err(format!("no network card: {none}")),
    }
}
