//! Direct links through a real kernel.

mod space;

use std::sync::Arc;

use latlab_overlay::endpoints::{Counters, DropReason};
use latlab_overlay::links::direct;
use space::{LINK, Space, Switch, addresses, everything, pair};

fn switch(space: &Space) -> (Switch, Arc<Counters>) {
    let counters = Arc::new(Counters::default());
    let counted = counters.clone();
    let switch = Switch::start(space, "tap0", 1500, 7, move || {
        direct::open(&direct::DirectConfig {
            id: LINK,
            device: "wire",
            netns: None,
            network: 7,
            counters: counted,
        })
        .unwrap()
    });
    addresses(space, "tap0", 1, 1500);
    (switch, counters)
}

/// The guest behind the tap and the host at the other end of the wire are on one Ethernet.
#[test]
fn a_guest_is_on_the_hosts_own_ethernet() {
    if !space::can("direct") {
        return;
    }
    for as_cards_do in [false, true] {
        let (a, b) = pair(1500);
        if as_cards_do {
            space::as_cards_do(&a);
            space::as_cards_do(&b);
        }
        // The near end belongs to the link alone.
        a.ip("address flush dev wire");
        let (_switch, counters) = switch(&a);
        addresses(&b, "wire", 2, 1500);
        everything(&a, &b, "wire", 1500);
        for reason in DropReason::ALL {
            assert_eq!(counters.dropped(reason), 0, "{}", reason.name());
        }
    }
}

#[test]
fn an_interface_that_is_not_there_is_refused() {
    if !space::can("direct") {
        return;
    }
    let space = Space::new();
    let refused = space.run(|| {
        let config = direct::DirectConfig {
            id: LINK,
            device: "nowhere0",
            netns: None,
            network: 7,
            counters: Arc::default(),
        };
        direct::open(&config).err().map(|error| error.kind())
    });
    // ENODEV
    assert!(refused.is_some(), "{refused:?}");
}
