//! The kernel's text for a wanted value. The catalogue gives every knob one kind of value; another kind is refused.

use latlab_model::profile::Wanted;
use latlab_model::units::CpuList;

use super::files;
use super::knob::{KnobError, Machine};
use crate::tuning::items::{Item, Setting};

type Text = Result<String, KnobError>;

fn other(wanted: &Wanted) -> KnobError {
    let message = format!("`{wanted}` is no value of it");
    KnobError::Impossible(message, "see `latlab tune show`".into())
}

/// `1` and `0`.
pub fn switch(_: &Machine<'_>, wanted: &Wanted) -> Text {
    match wanted {
        Wanted::Switch(on) => Ok(u8::from(*on).to_string()),
        _ => Err(other(wanted)),
    }
}

pub fn number(_: &Machine<'_>, wanted: &Wanted) -> Text {
    match wanted {
        Wanted::Number(n) => Ok(n.to_string()),
        _ => Err(other(wanted)),
    }
}

pub fn word(_: &Machine<'_>, wanted: &Wanted) -> Text {
    match wanted {
        Wanted::Word(word) => Ok((*word).to_string()),
        _ => Err(other(wanted)),
    }
}

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

/// The CPUs of a choice, which may be none.
pub fn cpus(machine: &Machine<'_>, wanted: &Wanted) -> Text {
    match wanted {
        Wanted::Cpus(choice) => Ok(files::list(&machine.cores.of(choice)?)),
        _ => Err(other(wanted)),
    }
}

/// The CPUs of a choice, at least one: an interrupt or thread needs one.
pub fn some_cpus(machine: &Machine<'_>, wanted: &Wanted) -> Result<CpuList, KnobError> {
    let list = match wanted {
        Wanted::Cpus(choice) => machine.cores.of(choice)?,
        _ => return Err(other(wanted)),
    };
    if list.is_empty() {
        let message = format!("`{wanted}` leaves it no CPU");
        let hint = "name at least one, or `all`".into();
        return Err(KnobError::Impossible(message, hint));
    }
    Ok(list)
}

/// As [`some_cpus`], as text.
pub fn at_least_one_cpu(machine: &Machine<'_>, wanted: &Wanted) -> Text {
    some_cpus(machine, wanted).map(|list| list.to_string())
}

/// The CPUs of a per-CPU knob: the isolated ones, or all if none are isolated.
pub fn quiet(machine: &Machine<'_>) -> CpuList {
    let cores = machine.cores;
    match cores.isolated.is_empty() {
        true => cores.all(),
        false => cores.isolated.clone(),
    }
}

/// Settings of every interface with a device behind it, physical or virtual.
pub fn cards(machine: &Machine<'_>, settings: &[Setting], none: &str) -> Result<Vec<Item>, String> {
    let devices = machine.root.glob("/sys/class/net/*/device");
    let names = devices
        .iter()
        .filter_map(|path| path.parent()?.file_name()?.to_str());
    let items = names.flat_map(|interface| {
        settings.iter().map(move |setting| Item::Nic {
            interface: interface.to_string(),
            setting: *setting,
        })
    });
    files::some(items, format!("no network card: {none}"))
}
