//! The store of a fabric, which others may have written.

use latlab_fabric::etcd::{Change, KeyValue};
use latlab_fabric::keys::{Carrier, Host, Keys};
use latlab_fabric::orders::Own;
use latlab_fabric::state::{News, State};
use latlab_model::overlay::{Overlay, language};

use crate::targets::answer;

/// A store of a fabric, of which a key and its value stand on each line. Whatever they are, each order for a daemon is one
/// command of the control language.
pub fn orders(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let keys = Keys::of("f").expect("a name");
    let changes = text.lines().zip(1..).map(|(line, revision)| {
        let (key, value) = line.split_once(' ').unwrap_or((line, ""));
        let (key, value) = (key.into(), value.into());
        match line.contains(' ') {
            true => Change::Put(KeyValue {
                key,
                value,
                revision,
            }),
            false => Change::Delete { key },
        }
    });
    let changes: Vec<Change> = changes.collect();
    let mut state = State::default();
    let news = state.take(&keys, &changes, changes.len() as u64);
    let own = Own {
        name: "a".into(),
        host: state.hosts.get("a").cloned().unwrap_or_else(|| Host {
            address: ([10, 0, 0, 1], 51789).into(),
            carrier: Carrier::Udp,
        }),
        key: Some("/key".into()),
    };
    let empty = Overlay::default();
    let mut lines = own
        .configure(&state, &empty)
        .expect("a daemon without networks");
    lines.extend(
        own.moves(&state, state.places.keys())
            .into_iter()
            .map(|order| order.line),
    );
    for line in &lines {
        let read = language::parse(line, &empty);
        assert!(
            !line.contains('\n') && matches!(read, Ok(Some(_))),
            "{line}: {read:?}"
        );
    }
    let strange = news
        .iter()
        .filter(|one| matches!(one, News::Strange(_)))
        .count();
    let verbs = lines
        .iter()
        .map(|line| line.split(' ').nth(1).map(str::to_owned));
    answer((strange.min(3), news.len().min(9), verbs.collect::<Vec<_>>()))
}
