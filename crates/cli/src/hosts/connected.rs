//! All hosts of a lab, connected and checked, before they are told what to do.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use latlab_model::diagnostic::Diagnostics;
use latlab_model::kinds::Carrier;
use latlab_model::plan::{Room, settle, spread};
use latlab_model::spec::Lab;

use super::inspect::labs_in;
use super::record::{Host, Record};
use super::remote::{Answer, each};
use super::session::{About, Session};
use crate::failure::Failure;

/// Why the hosts are told nothing.
pub enum Refused {
    /// Mistakes in the lab.
    Mistakes(Diagnostics),
    Failure(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Failure(failure)
    }
}

/// The connections; they end with this.
pub struct Connected {
    pub record: Record,
    /// The hosts of nodes that leave the choice.
    pub places: BTreeMap<String, String>,
    sessions: Vec<Session>,
    /// The hosts' public keys, where they are needed.
    keys: BTreeMap<String, String>,
}

impl Connected {
    /// Connects to the hosts of a lab, whose text has `size` bytes. With `is_new`, no host may have a lab of that name.
    /// `chosen` are the hosts of nodes that leave the choice, where it was made before.
    pub fn open(
        lab: &Lab,
        size: usize,
        is_new: bool,
        chosen: Option<&BTreeMap<String, String>>,
    ) -> Result<Connected, Refused> {
        let record = Record::of(lab);
        let mut links = lab.links.iter();
        let is_sealed = links.any(|link| link.carrier() == Carrier::Sealed);
        let opened = each(&record.hosts, |host| Session::open(host, is_sealed, size));
        let (sessions, found) = check(&record, is_new, opened)?;
        let places = match chosen {
            Some(places) => places.clone(),
            None => spread(lab, &found.rooms).map_err(Refused::Mistakes)?,
        };
        let lab = settle(lab.clone(), &places).map_err(Refused::Mistakes)?;
        Ok(Connected {
            record: Record::of(&lab),
            places,
            sessions,
            keys: found.keys,
        })
    }

    /// Has latlab on every host do `verb` with its part of the lab, whose text is its input. When `stop` is set, it is told
    /// to end and waited for.
    pub fn tell(
        self,
        verb: &[&str],
        text: &str,
        stop: &AtomicBool,
        on_answer: &(dyn Fn(&Host, &Answer) + Sync),
    ) -> (Record, Vec<Answer>) {
        let (record, keys, places) = (self.record, &self.keys, &self.places);
        let answers = each(record.hosts.iter().zip(self.sessions), |(host, session)| {
            let part = of_part(host, keys, places);
            let words = verb.iter().copied().chain(part.iter().map(String::as_str));
            let words: Vec<&str> = words.collect();
            let answer = session.tell(&words, text, stop);
            on_answer(host, &answer);
            answer
        });
        (record, answers)
    }
}

/// The options that tell a host which part is its own.
fn of_part(
    host: &Host,
    keys: &BTreeMap<String, String>,
    places: &BTreeMap<String, String>,
) -> Vec<String> {
    let mut words = vec!["--host".to_string(), host.name.clone()];
    for (name, key) in keys.iter().filter(|(name, _)| **name != host.name) {
        words.extend(["--peer-key".to_string(), format!("{name}={key}")]);
    }
    for (node, host) in places {
        words.extend(["--place".to_string(), format!("{node}={host}")]);
    }
    words
}

/// The hosts' words about themselves, by their names.
#[derive(Default)]
struct Found {
    /// Public keys, where they were asked for.
    keys: BTreeMap<String, String>,
    rooms: BTreeMap<String, Room>,
}

/// Every host must answer, with this version, before anything is changed. Returns the connections with what the hosts are.
fn check(
    record: &Record,
    is_new: bool,
    opened: Vec<Result<(Session, About), Answer>>,
) -> Result<(Vec<Session>, Found), Failure> {
    let mut sessions = Vec::new();
    let mut all = Found::default();
    let mut reasons = Vec::new();
    for (host, opened) in record.hosts.iter().zip(opened) {
        let found = opened.map_err(|answer| unlike(&answer.output).unwrap_or(answer.reason()));
        let checked = found.and_then(|(session, about)| {
            if let Some(unlike) = unlike(&about.version) {
                return Err(unlike);
            }
            match labs_in(&about.labs)?.contains_key(&record.lab) {
                true if is_new => Err(format!("lab `{}` is deployed there already", record.lab)),
                _ => Ok((session, about)),
            }
        });
        match checked {
            Ok((session, about)) => {
                sessions.push(session);
                all.rooms.insert(host.name.clone(), about.room);
                if !about.key.is_empty() {
                    all.keys.insert(host.name.clone(), about.key);
                }
            }
            Err(reason) => reasons.push(format!("host `{}`: {reason}", host.name)),
        }
    }
    if reasons.is_empty() {
        return Ok((sessions, all));
    }
    let hint = "nothing was changed; every host needs ssh for root (or sudo without a password) and this latlab";
    Err(Failure::new(reasons.join("; "), hint))
}

/// The version in the first line of a host's output, if it is another than this.
fn unlike(output: &str) -> Option<String> {
    let own = format!("latlab {}", env!("CARGO_PKG_VERSION"));
    let version = output.lines().next().filter(|version| *version != own)?;
    Some(format!("it has {version}, and this is {own}"))
}
