//! Network interfaces: their names, and for those with a device behind them what it can do.

use latlab_model::facts::Nic;

use super::machine::Source;
use crate::sys::feature;

/// The names of all interfaces of this network namespace.
pub(super) fn names(source: &Source) -> Vec<String> {
    let listed = latlab_netlink::Handle::open().and_then(|mut handle| handle.links());
    match listed {
        Ok(links) => links.into_iter().map(|link| link.name).collect(),
        // sysfs shows the namespace it was mounted in, which is nearly always ours.
        Err(_) => source.names("sys/class/net"),
    }
}

/// The interfaces with a device behind them.
pub(super) fn read(source: &Source) -> Vec<Nic> {
    let all = source.names("sys/class/net").into_iter();
    let with_device = all.filter(|name| {
        let device = source.path(&format!("sys/class/net/{name}/device"));
        device.exists()
    });
    with_device.map(|name| read_one(source, name)).collect()
}

fn read_one(source: &Source, name: String) -> Nic {
    let at = format!("sys/class/net/{name}");
    let driver = source.path(&format!("{at}/device/driver")).read_link().ok();
    let driver = driver.and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let number = |file: &str| source.number(&format!("{at}/{file}"));
    Nic {
        driver,
        // -1 while unknown, which is no number of this type.
        speed_mbit: number("speed").and_then(|speed| speed.try_into().ok()),
        carrier: number("carrier") == Some(1),
        sriov_vfs: number("device/sriov_totalvfs").unwrap_or_default() as u32,
        hardware_timestamps: feature::stamps_received_packets(&name).ok(),
        numa_node: number("device/numa_node").and_then(|node| node.try_into().ok()),
        name,
    }
}
