//! Tuning of network cards, on interfaces that the test makes itself.

mod namespaces;

use std::process::Command;

use latlab_host::tuning::Root;
use latlab_host::tuning::items::Item;
use latlab_host::tuning::items::nic::Setting;

#[test]
fn offloads_of_an_interface_are_turned_and_given_back() {
    namespaces::enter("offloads_of_an_interface_are_turned_and_given_back", || {
        let made = Command::new("ip")
            .args([
                "link", "add", "tune0", "type", "veth", "peer", "name", "tune1",
            ])
            .status();
        assert!(made.unwrap().success());
        let root = Root::default();
        for setting in [Setting::Gro, Setting::Gso, Setting::Tso] {
            let item = |interface: &str| Item::Nic {
                interface: interface.into(),
                setting,
            };
            let tune0 = item("tune0");
            let before = tune0.read(&root).unwrap().expect("veth has offloads");
            let other = if before == "on" { "off" } else { "on" };
            tune0.write(&root, other).unwrap();
            assert_eq!(
                tune0.read(&root).unwrap().as_deref(),
                Some(other),
                "{setting}"
            );
            tune0.write(&root, &before).unwrap();
            assert_eq!(tune0.read(&root).unwrap(), Some(before), "{setting}");
            // An interface that vanished has no value, and that is no error.
            assert_eq!(item("gone0").read(&root).unwrap(), None, "{setting}");
        }
        // A veth pair gathers no interrupts.
        let coalescing = Item::Nic {
            interface: "tune0".into(),
            setting: Setting::Coalescing,
        };
        assert_eq!(coalescing.read(&root).unwrap(), None);
    });
}
