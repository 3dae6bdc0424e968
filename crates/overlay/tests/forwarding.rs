//! Where frames go: named cases, and random overlays under random traffic against a reference that
//! only knows the rules.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use latlab_model::overlay::language::parse_file;
use latlab_model::overlay::{Overlay, PortName, Qualifier};
use latlab_overlay::endpoints::{DropReason, PortId};
use latlab_overlay::forwarding::{Decider, Flow, Learned, MoveError, Table, Verdict};
use latlab_overlay::frames::{Batch, NETWORK_UNKNOWN, Offload, Segment};

const BROADCAST: [u8; 6] = [0xff; 6];

fn mac(last: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, last]
}

type Sent = Result<Vec<String>, DropReason>;

struct Switch {
    decider: Decider,
    ids: HashMap<String, PortId>,
    learned: Arc<Learned>,
}

impl Switch {
    fn new(text: &str) -> Switch {
        let overlay = parse_file(text).expect("a good overlay");
        let names = overlay.interfaces.keys().chain(overlay.links.keys());
        let numbered = (0..).map(PortId).zip(names);
        let ids: HashMap<String, PortId> = numbered.map(|(i, n)| (n.clone(), i)).collect();
        let table = Arc::new(Table::compile(&overlay, &ids));
        let learned = Arc::<Learned>::default();
        let mut decider = Decider::new(table, Arc::clone(&learned), 99);
        decider.begin(1_000_000_000);
        Switch {
            decider,
            ids,
            learned,
        }
    }

    /// Compiles another configuration, with the same ports.
    fn install(&mut self, text: &str) {
        let overlay = parse_file(text).expect("a good overlay");
        let table = Table::compile(&overlay, &self.ids);
        self.decider.install(Arc::new(table));
    }

    /// Moves an address of network 7 to a port, as the next batch begins.
    fn relocate(&mut self, address: [u8; 6], to: &str, revision: u64) -> Result<(), MoveError> {
        let moved = self.learned.relocate(7, [address], self.ids[to], revision);
        self.decider.begin(1_000_000_002);
        moved
    }

    fn at(&mut self, second: u64) {
        self.decider.begin(second * 1_000_000_000);
    }

    fn send(&mut self, from: &str, vni: u32, source: [u8; 6], to: [u8; 6]) -> Sent {
        let mut bytes = [0u8; 64];
        bytes[..6].copy_from_slice(&to);
        bytes[6..12].copy_from_slice(&source);
        let bytes: &'static [u8] = bytes.to_vec().leak();
        let mut batch = Batch::new(1);
        let pieces = [Segment::of(bytes)];
        batch
            .push(self.ids[from], vni, Offload::default(), pieces)
            .expect("long enough");
        let (_, verdict) = self.decider.decide(&batch.frames()[0]);
        let ports = match verdict {
            Verdict::One(port) => vec![port],
            Verdict::Many(ports) => ports.to_vec(),
            Verdict::Drop(reason) => return Err(reason),
        };
        let by_id: HashMap<PortId, &String> = self.ids.iter().map(|(n, i)| (*i, n)).collect();
        let mut names: Vec<String> = ports.iter().map(|id| by_id[id].clone()).collect();
        names.sort();
        Ok(names)
    }

    /// Where a used route of network 7 leads, by a review.
    fn review(&mut self, from: &str, source: [u8; 6], to: [u8; 6]) -> Option<PortId> {
        let flow = Flow {
            ingress: self.ids[from],
            network: 7,
            source,
            destination: to,
        };
        self.decider.egress(&flow, true)
    }

    fn local(&mut self, from: &str, source: [u8; 6], to: [u8; 6]) -> Sent {
        self.send(from, NETWORK_UNKNOWN, source, to)
    }
}

fn ports(names: &[&str]) -> Sent {
    Ok(names.iter().map(ToString::to_string).collect())
}

const LEARNING: &str = "
add network lan vni 7
add network other vni 8
add interface a network lan tap ta
add interface b network lan tap tb
add interface c network lan tap tc
add interface x network other tap tx
add link l vxlan 10.0.0.2
add link m vxlan 10.0.0.3
";

#[test]
fn a_network_that_learns_is_a_switch() {
    let mut switch = Switch::new(LEARNING);
    let all = ports(&["b", "c", "l", "m"]);
    assert_eq!(switch.local("a", mac(1), BROADCAST), all);
    assert_eq!(switch.local("b", mac(2), mac(1)), ports(&["a"]));
    assert_eq!(switch.local("a", mac(1), mac(2)), ports(&["b"]));
    // Unknown: to all; and known as soon as it has been heard.
    assert_eq!(switch.local("a", mac(1), mac(9)), all);
    assert_eq!(switch.send("l", 7, mac(9), mac(1)), ports(&["a"]));
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["l"]));
    // A moved address invalidates the cached verdict.
    let others = ports(&["a", "b", "l", "m"]);
    assert_eq!(switch.local("c", mac(9), BROADCAST), others);
    switch.decider.begin(1_000_000_001);
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["c"]));
}

#[test]
fn frames_from_a_link_go_to_no_link() {
    let mut switch = Switch::new(LEARNING);
    let local = ports(&["a", "b", "c"]);
    assert_eq!(switch.send("l", 7, mac(9), BROADCAST), local);
    assert_eq!(
        switch.send("m", 7, mac(8), mac(9)),
        Err(DropReason::NoRoute)
    );
    let route = "add route lan any 02:00:00:00:00:09 link l from link m";
    let mut relay = Switch::new(&format!("{LEARNING}{route}\n"));
    assert_eq!(relay.send("m", 7, mac(8), mac(9)), ports(&["l"]));
}

#[test]
fn a_number_that_is_no_network_here_is_dropped() {
    let mut switch = Switch::new(LEARNING);
    let unknown = Err(DropReason::Unknown);
    assert_eq!(switch.send("l", 9, mac(9), BROADCAST), unknown);
    assert_eq!(switch.send("l", 8, mac(9), BROADCAST), ports(&["x"]));
    // The same address in two networks is two addresses.
    switch.local("a", mac(3), BROADCAST).expect("sent");
    assert_eq!(switch.local("x", mac(4), mac(3)), ports(&["l", "m"]));
}

#[test]
fn a_link_carries_the_networks_that_it_names_and_no_others() {
    let text = LEARNING.replace(
        "link m vxlan 10.0.0.3",
        "link m vxlan 10.0.0.3 networks other",
    );
    let mut switch = Switch::new(&text);
    assert_eq!(
        switch.local("a", mac(1), BROADCAST),
        ports(&["b", "c", "l"])
    );
    assert_eq!(switch.local("x", mac(2), BROADCAST), ports(&["l", "m"]));
    // The other host may name a network that was not meant for it: nothing gets in, nothing is learned.
    let nowhere = Err(DropReason::NoRoute);
    assert_eq!(switch.send("m", 7, mac(1), BROADCAST), nowhere);
    assert_eq!(switch.send("m", 7, mac(9), mac(1)), nowhere);
    assert_eq!(switch.local("b", mac(3), mac(1)), ports(&["a"]));
    assert_eq!(switch.send("m", 8, mac(9), mac(2)), ports(&["x"]));
}

#[test]
fn a_bound_address_is_its_owners_alone() {
    let bound = LEARNING.replace("tap tb", "tap tb mac 02:00:00:00:00:02");
    let mut switch = Switch::new(&bound);
    let spoofed = Err(DropReason::Spoofed);
    assert_eq!(switch.local("a", mac(2), BROADCAST), spoofed);
    assert_eq!(switch.send("l", 7, mac(2), BROADCAST), spoofed);
    assert_eq!(switch.local("b", mac(7), BROADCAST), spoofed);
    assert_eq!(switch.local("b", BROADCAST, mac(1)), spoofed);
    // A bound address is known without having sent.
    assert_eq!(switch.local("a", mac(1), mac(2)), ports(&["b"]));
}

#[test]
fn a_moved_address_stays_where_it_was_moved_to() {
    let mut switch = Switch::new(LEARNING);
    switch.local("a", mac(1), BROADCAST).expect("sent");
    switch.local("b", mac(9), BROADCAST).expect("sent");
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["b"]));
    switch.relocate(mac(9), "l", 5).expect("moved");
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["l"]));
    // A late frame of the place before, or of any other, does not take it back before the guest was seen.
    for late in ["b", "c"] {
        switch.local(late, mac(9), BROADCAST).expect("sent");
        switch.at(3);
        assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["l"]), "{late}");
    }
    // The guest is there; the place before stays behind the fence, as long as the guest is heard.
    switch.send("l", 7, mac(9), mac(1)).expect("sent");
    switch.local("b", mac(9), BROADCAST).expect("sent");
    switch.at(4);
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["l"]));
    // A third place is news.
    switch.local("c", mac(9), BROADCAST).expect("sent");
    switch.at(5);
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["c"]));
}

#[test]
fn the_place_before_learns_again_after_the_age() {
    let mut switch = Switch::new(&LEARNING.replace("vni 7", "vni 7 age 20s"));
    switch.local("a", mac(1), BROADCAST).expect("sent");
    switch.local("b", mac(9), BROADCAST).expect("sent");
    switch.relocate(mac(9), "l", 1).expect("moved");
    // As long as it was never seen there, for ever.
    switch.at(1000);
    switch.local("b", mac(9), BROADCAST).expect("sent");
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["l"]));
    switch.send("l", 7, mac(9), mac(1)).expect("sent");
    for (second, place) in [(1010, "l"), (1020, "l"), (1030, "b")] {
        switch.at(second);
        switch.local("b", mac(9), BROADCAST).expect("sent");
        switch.at(second);
        assert_eq!(
            switch.local("a", mac(1), mac(9)),
            ports(&[place]),
            "{second}"
        );
    }
}

/// A link's number changes with its host's address. Two hosts may even have changed theirs with each other.
#[test]
fn a_moved_address_follows_the_new_number_of_its_link() {
    let mut switch = Switch::new(LEARNING);
    let [b, l, m] = ["b", "l", "m"].map(|name| switch.ids[name]);
    switch.relocate(mac(8), "l", 1).expect("moved");
    switch.relocate(mac(9), "m", 2).expect("moved");
    switch.relocate(mac(7), "b", 3).expect("moved");
    assert_eq!(switch.local("a", mac(1), mac(8)), ports(&["l"]));
    switch
        .learned
        .renumber_moved(&HashMap::from([(l, m), (m, l)]));
    switch.at(3);
    for (address, place) in [(8, "m"), (9, "l"), (7, "b")] {
        assert_eq!(switch.local("a", mac(1), mac(address)), ports(&[place]));
    }
    // The revision is the one that it was.
    assert!(switch.relocate(mac(8), "b", 1).is_err());
    switch.learned.renumber_moved(&HashMap::from([(m, b)]));
    switch.learned.forget(m);
    switch.at(4);
    assert_eq!(switch.local("a", mac(1), mac(8)), ports(&["b"]));
}

/// A route may have been used long before its source went elsewhere.
#[test]
fn a_review_moves_no_address() {
    let mut switch = Switch::new(LEARNING);
    switch.local("a", mac(1), BROADCAST).expect("sent");
    let to_a = Some(switch.ids["a"]);
    // An address that no port has is learned, and stays known while its route is used.
    assert_eq!(switch.review("l", mac(9), mac(1)), to_a);
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["l"]));
    switch.at(290);
    assert_eq!(switch.review("l", mac(9), mac(1)), to_a);
    switch.at(310);
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["l"]));
    // The guest goes to another host, and tells it by a broadcast.
    switch.send("m", 7, mac(9), BROADCAST).expect("sent");
    switch.at(311);
    assert_eq!(switch.review("l", mac(9), mac(1)), None);
    assert_eq!(switch.review("m", mac(9), mac(1)), to_a);
    switch.at(312);
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["m"]));
    // Nor does a review take an address away from where it was moved to.
    switch.relocate(mac(9), "b", 1).expect("moved");
    switch.at(313);
    assert_eq!(switch.review("b", mac(9), mac(1)), to_a);
    for other in ["l", "m"] {
        assert_eq!(switch.review(other, mac(9), mac(1)), None, "{other}");
    }
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["b"]));
}

#[test]
fn an_older_or_equal_revision_moves_nothing() {
    let mut switch = Switch::new(LEARNING);
    switch.relocate(mac(9), "b", 5).expect("moved");
    for revision in [0, 4, 5] {
        let stale = MoveError::Stale {
            address: mac(9),
            revision: 5,
        };
        assert_eq!(switch.relocate(mac(9), "c", revision), Err(stale));
        assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["b"]));
    }
    // Several addresses move together or not at all.
    let to = switch.ids["c"];
    let both = switch.learned.relocate(7, [mac(8), mac(9)], to, 5);
    assert!(both.is_err());
    let all = ports(&["b", "c", "l", "m"]);
    assert_eq!(switch.local("a", mac(1), mac(8)), all);
    switch.relocate(mac(9), "c", 6).expect("moved");
    assert_eq!(switch.local("a", mac(1), mac(9)), ports(&["c"]));
    // The revision outlives the port.
    switch.learned.forget(to);
    switch.at(3);
    assert_eq!(switch.local("a", mac(1), mac(9)), all);
    assert!(switch.relocate(mac(9), "b", 6).is_err());
    // The same address of another network has revisions of its own.
    let x = switch.ids["x"];
    assert_eq!(switch.learned.relocate(8, [mac(9)], x, 1), Ok(()));
}

#[test]
fn a_bound_address_is_used_only_where_it_was_moved_to() {
    let bound = LEARNING.replace("tap tb", "tap tb mac 02:00:00:00:00:02");
    let mut switch = Switch::new(&bound);
    switch.relocate(mac(2), "l", 1).expect("moved");
    assert_eq!(switch.local("a", mac(1), mac(2)), ports(&["l"]));
    let spoofed = Err(DropReason::Spoofed);
    assert_eq!(switch.local("b", mac(2), BROADCAST), spoofed);
    assert_eq!(switch.local("a", mac(2), BROADCAST), spoofed);
    assert_eq!(switch.send("l", 7, mac(2), mac(1)), ports(&["a"]));
    switch.relocate(mac(2), "b", 2).expect("moved back");
    assert_eq!(switch.local("b", mac(2), mac(1)), ports(&["a"]));
    // The other host sent it before the guest left.
    assert_eq!(switch.send("l", 7, mac(2), mac(1)), ports(&["a"]));
    assert_eq!(switch.send("m", 7, mac(2), mac(1)), spoofed);
    assert_eq!(switch.local("a", mac(1), mac(2)), ports(&["b"]));
    switch.at(4);
    for link in ["l", "m"] {
        assert_eq!(switch.send(link, 7, mac(2), mac(1)), spoofed);
    }
}

/// The other host sent it before it knew that the guest has moved. It comes from a link and has to leave through one.
#[test]
fn only_a_frame_that_waited_or_is_late_goes_from_link_to_link() {
    let mut switch = Switch::new(LEARNING);
    switch.relocate(mac(9), "l", 1).expect("moved");
    let none = Err(DropReason::NoRoute);
    assert_eq!(switch.send("m", 7, mac(8), mac(9)), ports(&["l"]));
    assert_eq!(switch.send("l", 7, mac(8), mac(9)), none, "not back");
    switch.at(3);
    assert_eq!(switch.send("m", 7, mac(8), mac(9)), none);
    let bytes: &'static [u8] = [&mac(9)[..], &mac(8), &[0; 48]].concat().leak();
    for (from, network, expected) in [
        ("m", 7, Ok(switch.ids["l"])),
        ("l", 7, Err(DropReason::NoRoute)),
        // The port has become another network's meanwhile.
        ("x", 7, Err(DropReason::Unknown)),
    ] {
        let mut batch = Batch::new(1);
        let pieces = [Segment::of(bytes)];
        batch
            .push(switch.ids[from], network, Offload::default(), pieces)
            .expect("long enough");
        let found = match switch.decider.decide_released(&batch.frames()[0]).1 {
            Verdict::One(port) => Ok(port),
            Verdict::Drop(reason) => Err(reason),
            other => panic!("{other:?}"),
        };
        assert_eq!(found, expected, "{from}");
    }
}

#[test]
fn an_address_does_not_follow_its_port_into_another_network() {
    let mut switch = Switch::new(LEARNING);
    switch.local("a", mac(1), BROADCAST).expect("sent");
    switch.local("b", mac(2), BROADCAST).expect("sent");
    switch.relocate(mac(3), "b", 1).expect("moved");
    switch.install(&LEARNING.replace("b network lan", "b network other"));
    for address in [mac(2), mac(3)] {
        assert_eq!(switch.local("a", mac(1), address), ports(&["c", "l", "m"]));
    }
}

#[test]
fn the_most_specific_route_wins_and_equals_share() {
    let mut switch = Switch::new(
        "add network n vni 1 learning off
         add interface a network n tap ta
         add interface b network n tap tb
         add interface c network n tap tc
         add link l vxlan 10.0.0.2
         add route n any 02:00:00:00:00:02 interface b
         add route n 02:00:00:00:00:05 02:00:00:00:00:02 interface c
         add route n any not-02:00:00:00:00:02 link l
         add route n any any interface c
         add route n any ff:ff:ff:ff:ff:ff interface b
         add route n any ff:ff:ff:ff:ff:ff interface c
         add route n 02:00:00:00:00:06 none interface b",
    );
    assert_eq!(switch.local("a", mac(1), mac(2)), ports(&["b"]));
    assert_eq!(switch.local("a", mac(5), mac(2)), ports(&["c"]));
    assert_eq!(switch.local("a", mac(1), mac(3)), ports(&["l"]));
    assert_eq!(switch.local("a", mac(1), BROADCAST), ports(&["b", "c"]));
    // From the link, the route to the link is none; the catch-all is next.
    assert_eq!(switch.send("l", 1, mac(1), mac(3)), ports(&["c"]));
    assert_eq!(switch.local("c", mac(6), mac(2)), ports(&["b"]));
}

#[test]
fn fallback_rules_apply_when_no_other_rule_does() {
    let mut switch = Switch::new(
        "add network n vni 1 learning off
         add interface a network n tap ta
         add interface b network n tap tb
         add link l vxlan 10.0.0.2
         add route n any 02:00:00:00:00:02 interface b
         add route n any none link l",
    );
    assert_eq!(switch.local("a", mac(1), mac(2)), ports(&["b"]));
    assert_eq!(switch.local("a", mac(1), mac(3)), ports(&["l"]));
    let nowhere = Err(DropReason::NoRoute);
    assert_eq!(switch.send("l", 1, mac(1), mac(3)), nowhere);
}

#[test]
fn broadcasts_are_limited_and_other_frames_are_not() {
    let mut switch = Switch::new(&LEARNING.replace("vni 7", "vni 7 flood 5"));
    let all = switch.local("b", mac(2), BROADCAST);
    assert_eq!(all, ports(&["a", "c", "l", "m"]));
    let flood = |_: &i32| switch.local("a", mac(1), BROADCAST).is_ok();
    assert_eq!((0..100).filter(flood).count(), 5);
    let limited = Err(DropReason::Limited);
    assert_eq!(switch.local("a", mac(1), mac(9)), limited);
    assert_eq!(switch.local("a", mac(1), mac(2)), ports(&["b"]));
    assert_eq!(switch.local("b", mac(2), BROADCAST), all);
}

/// A small generator of numbers (xorshift), so that a failure names a seed that repeats it.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u8) -> u8 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        u8::try_from((self.0 >> 11) % u64::from(n)).expect("below a byte")
    }

    fn port(&mut self, net: u8) -> String {
        match self.below(4) {
            0 => "link l".into(),
            1 => "link m".into(),
            _ => format!("interface i{net}{}", self.below(3)),
        }
    }

    fn qualifier(&mut self, net: u8) -> String {
        match self.below(5) {
            0 => "any".into(),
            1 => "none".into(),
            2 => format!("not-02:00:00:00:0{net}:0{}", self.below(6)),
            _ => format!("02:00:00:00:0{net}:0{}", self.below(6)),
        }
    }

    fn overlay(&mut self) -> String {
        let mut text = String::new();
        for net in 0..3 {
            let learning = ["on", "off"][usize::from(self.below(2))];
            let vni = net + 10;
            text += &format!("add network n{net} vni {vni} learning {learning} flood 4000000000\n");
            for port in 0..3 {
                text += &format!("add interface i{net}{port} network n{net} tap t{net}{port}");
                if self.below(3) == 0 {
                    text += &format!(" mac 02:00:00:00:0{net}:0{port}");
                }
                text += "\n";
            }
        }
        text += "add link l vxlan 10.0.0.2\nadd link m vxlan 10.0.0.3\n";
        text += "add link d direct e0 network n0\n";
        for _ in 0..self.below(12) {
            let net = self.below(3);
            let (source, destination) = (self.qualifier(net), self.qualifier(net));
            let (to, from) = (self.port(net), self.port(net));
            let mut line = format!("add route n{net} {source} {destination} {to}");
            if to != from && self.below(2) == 0 {
                line += &format!(" from {from}");
            }
            let longer = format!("{text}{line}\n");
            if parse_file(&longer).is_ok() {
                text = longer;
            }
        }
        text
    }
}

/// The outputs of the most specific rules, without tables.
fn reference(
    overlay: &Overlay,
    net: &str,
    from: &str,
    source: [u8; 6],
    to: [u8; 6],
) -> BTreeSet<String> {
    let is = |q: Qualifier, a: [u8; 6]| match q {
        Qualifier::Is(m) => (m.0 == a, 3),
        Qualifier::Not(m) => (m.0 != a, 2),
        Qualifier::Any => (true, 1),
        Qualifier::None => (true, 0),
    };
    let is_link = |name: &str| overlay.links.contains_key(name);
    let mut found: Vec<((bool, i32, i32), String)> = Vec::new();
    for route in overlay.routes.iter().filter(|r| r.network == net) {
        let (source_fits, source_rank) = is(route.source, source);
        let (fits, rank) = is(route.destination, to);
        let out = route.to.name();
        let passes = match route.from.as_ref().map(PortName::name) {
            Some(named) => named == from && out != from,
            None => out != from && !(is_link(out) && is_link(from)),
        };
        if source_fits && fits && passes {
            // `none` matches what nothing else does, unless the destination is exact.
            let otherwise = rank != 3 && (source_rank == 0 || rank == 0);
            found.push(((!otherwise, rank, source_rank), out.to_string()));
        }
    }
    let best = found.iter().map(|(rank, _)| *rank).max();
    let wins = found.into_iter().filter(|(rank, _)| Some(*rank) == best);
    wins.map(|(_, name)| name).collect()
}

#[test]
fn random_traffic_stays_in_its_network_and_follows_the_rules() {
    let mut followed = 0;
    for seed in 1..=300_u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let text = random.overlay();
        let overlay = parse_file(&text).expect("a good overlay");
        let mut switch = Switch::new(&text);
        for _ in 0..200 {
            let net = random.below(3);
            let from = random.port(net);
            let from = from.split_once(' ').expect("two words").1;
            let source = [2, 0, 0, 0, net, random.below(6)];
            let to = match random.below(5) {
                0 => BROADCAST,
                _ => [2, 0, 0, 0, net, random.below(6)],
            };
            let name = format!("n{net}");
            let Ok(outputs) = switch.send(from, u32::from(net) + 10, source, to) else {
                continue;
            };
            for out in &outputs {
                assert_ne!(out, from, "seed {seed}: back to where it came from");
                if let Some(interface) = overlay.interfaces.get(out) {
                    assert_eq!(interface.network, name, "seed {seed}: leaked to {out}");
                }
                assert!(out != "d" || net == 0, "seed {seed}: leaked to n0's wire");
            }
            if !overlay.networks[&name].learning {
                let expected = reference(&overlay, &name, from, source, to);
                let got: BTreeSet<String> = outputs.into_iter().collect();
                assert_eq!(
                    got, expected,
                    "seed {seed}: {from} {source:?} to {to:?}\n{text}"
                );
                followed += 1;
            }
        }
    }
    assert!(followed > 1000, "the rules were hardly ever asked");
}

/// An address that a guest has made up.
fn invented(number: u64) -> [u8; 6] {
    let b = number.to_be_bytes();
    [2, b[3], b[4], b[5], b[6], b[7]]
}

#[test]
fn a_guest_that_invents_addresses_fills_its_own_share_only() {
    let ports_of = |port| format!("add interface p{port} network lan tap t{port}\n");
    let text: String = (0..16).map(ports_of).collect();
    let mut switch = Switch::new(&format!("add network lan vni 7\n{text}"));
    for port in 0..15 {
        for number in 0..4096 {
            let source = invented(port << 16 | number);
            let _ = switch.local(&format!("p{port}"), source, BROADCAST);
        }
    }
    for number in 0..10_000 {
        let _ = switch.local("p0", invented(1 << 32 | number), BROADCAST);
    }
    // Its neighbours are known, and newcomers become so.
    assert_eq!(
        switch.local("p15", mac(1), invented(3 << 16 | 5)),
        ports(&["p3"])
    );
    assert_eq!(
        switch.local("p3", invented(3 << 16 | 5), mac(1)),
        ports(&["p15"])
    );
}
