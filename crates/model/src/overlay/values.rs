//! Reads single words of the control language: names, addresses, modes.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use super::document::{Mode, Thresholds, Yield};
use super::mistake::Mistake;
use super::words::{Word, Words};
use crate::units::{CpuList, Nanos};

pub(super) fn name(words: &mut Words, kind: &str) -> Result<String, Mistake> {
    let word = words.next(&format!("the name of the {kind}"), "write it here")?;
    valid_name(&word.text).ok_or_else(|| {
        Mistake::new(
            word.column,
            format!("`{}` is no name", crate::diagnostic::shown(&word.text)),
            "1 to 63 letters, digits, dots, dashes and underscores",
        )
    })
}

/// A name of the control language: 1 to 63 letters, digits, dots, dashes and underscores.
pub fn valid_name(text: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let valid = (1..=63).contains(&text.len()) && text.chars().all(fits);
    valid.then(|| text.to_string())
}

pub(super) fn device(word: Word) -> Result<String, Mistake> {
    // The kernel's own rule (dev_valid_name).
    let bad = |c: char| c == '/' || c == ':' || c.is_whitespace() || c.is_control();
    let text = word.text;
    if text.is_empty() || text.len() > 15 || text.contains(bad) || text == "." || text == ".." {
        return Err(Mistake::new(
            word.column,
            format!(
                "`{}` is no name of an interface",
                crate::diagnostic::shown(&text)
            ),
            "1 to 15 bytes without blanks, `/` and `:`",
        ));
    }
    Ok(text)
}

pub(super) fn file(text: &str) -> Option<PathBuf> {
    (!text.is_empty() && !text.contains('\0')).then(|| PathBuf::from(text))
}

pub(super) fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

pub(super) fn cpus(text: &str) -> Option<CpuList> {
    match text {
        "none" => Some(CpuList::default()),
        _ => CpuList::parse(text),
    }
}

pub(super) fn address(text: &str, default_port: Option<u16>) -> Option<SocketAddr> {
    if let Ok(with_port) = text.parse() {
        return Some(with_port);
    }
    let address: IpAddr = text.parse().ok()?;
    Some(SocketAddr::new(address, default_port?))
}

pub(super) const MODES: &str =
    "guest, vmm, adaptive, adaptive:wakeups=10/5/50us or adaptive:rate=10000/1000/10ms";
pub(super) const YIELDS: &str = "immediate, timed:100us or adaptive:100us/50us";
pub(super) const INTERRUPTS: &str = "batch, early or before-data";

pub(super) fn mode(text: &str) -> Option<Mode> {
    let thresholds = match text {
        "guest" => return Some(Mode::GuestDriven),
        "vmm" => return Some(Mode::VmmDriven),
        "adaptive" => Thresholds::default(),
        _ => {
            let (by, bounds) = text.strip_prefix("adaptive:")?.split_once('=')?;
            let mut bounds = bounds.split('/');
            let enter: u32 = bounds.next()?.parse().ok()?;
            let leave: u32 = bounds.next()?.parse().ok()?;
            let time = Nanos::parse(bounds.next()?)?;
            if leave >= enter || bounds.next().is_some() || time.0 == 0 {
                return None;
            }
            match by {
                "wakeups" => Thresholds::Wakeups {
                    enter,
                    leave,
                    idle: time,
                },
                "rate" => Thresholds::Rate {
                    enter,
                    leave,
                    window: time,
                },
                _ => return None,
            }
        }
    };
    Some(Mode::Adaptive(thresholds))
}

pub(super) fn yields(text: &str) -> Option<Yield> {
    if text == "immediate" {
        return Some(Yield::Immediate);
    }
    let (kind, times) = text.split_once(':')?;
    match kind {
        "timed" => Nanos::parse(times).map(|sleep| Yield::Timed { sleep }),
        "adaptive" => {
            let (sleep, after) = times.split_once('/')?;
            let (sleep, after) = (Nanos::parse(sleep)?, Nanos::parse(after)?);
            Some(Yield::Adaptive { sleep, after })
        }
        _ => None,
    }
}
