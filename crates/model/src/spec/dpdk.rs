//! `dpdk:` of a node: huge pages of its own, its cores and its ports. What the lab or the machine does not have is refused
//! by the plan.

use super::reader::{FromYaml, Object, read_words};
use crate::diagnostic::{Diagnostics, Spanned, shown};
use crate::kinds::DpdkDriver;
use crate::units::{Bytes, CpuList};

read_words!(DpdkDriver, "a driver of DPDK's ports", "af-packet");

/// Sizes of huge pages (kernel: admin-guide/mm/hugetlbpage); the first one is the default.
const PAGES: [Bytes; 2] = [Bytes(2 << 20), Bytes(1 << 30)];

/// A size of huge pages.
struct PageSize(Bytes);

impl FromYaml for PageSize {
    const EXPECTED: &'static str = "a size of huge pages";
    const EXAMPLE: &'static str = "`2MiB`";
    fn from_text(text: &str) -> Option<Self> {
        let size = Bytes::parse(text)?;
        PAGES.contains(&size).then_some(PageSize(size))
    }
    fn hint(_: &str) -> String {
        format!("{} or {}", PAGES[0], PAGES[1])
    }
}

/// `dpdk:` as written.
#[derive(Debug, Clone, PartialEq)]
pub struct Dpdk {
    /// `hugepages:` memory in huge pages that is the node's alone.
    pub huge_pages: Spanned<Bytes>,
    /// `page:` the size of each.
    pub page: Bytes,
    /// `cores:` CPUs of its threads, of which the first is that of its main thread.
    pub cores: Option<Spanned<CpuList>>,
    /// `devices:` interfaces of the node that are ports of DPDK; all of them if none is named.
    pub devices: Vec<Spanned<String>>,
    /// `driver:` of these.
    pub driver: Option<Spanned<DpdkDriver>>,
}

impl Dpdk {
    pub fn driver(&self) -> DpdkDriver {
        self.driver.map(|driver| driver.value).unwrap_or_default()
    }

    /// Whether an interface of the node is a port of DPDK.
    pub fn has(&self, interface: &str) -> bool {
        self.devices.is_empty() || self.devices.iter().any(|name| name.value == interface)
    }
}

/// Reads `dpdk:` of `o`.
pub(super) fn read(o: &mut Object<'_>, errors: &mut Diagnostics) -> Option<Spanned<Dpdk>> {
    let mut own = o.object("dpdk", errors)?;
    let (what, at) = (own.what.clone(), own.at);
    let huge_pages = own.need::<Bytes>("hugepages", errors);
    let page = own.value("page", errors);
    let page = page.map_or(PAGES[0], |PageSize(size)| size);
    let cores = own.get::<CpuList>("cores", errors);
    let devices = own.list::<String>("devices", errors);
    let driver = own.get::<DpdkDriver>("driver", errors);
    own.finish(errors);
    check_devices(&devices, &what, errors);
    let huge_pages = huge_pages.filter(|size| check_size(size, page, &what, errors))?;
    let dpdk = Dpdk {
        huge_pages,
        page,
        cores,
        devices,
        driver,
    };
    Some(Spanned::new(dpdk, at))
}

fn check_size(size: &Spanned<Bytes>, page: Bytes, what: &str, errors: &mut Diagnostics) -> bool {
    let is_whole = size.0 > 0 && size.0 % page.0 == 0;
    if !is_whole {
        let message = format!("`hugepages` in {what} is {}", size.value);
        let example = Bytes((64 << 20).max(page.0));
        let hint = format!("a multiple of {page}, the size of a page, for example `{example}`");
        errors.add(size.at, message, hint);
    }
    is_whole
}

/// Arguments of DPDK have no quotes: its separators cannot be in a name.
fn check_devices(devices: &[Spanned<String>], what: &str, errors: &mut Diagnostics) {
    for (number, device) in devices.iter().enumerate() {
        if devices[..number].iter().any(|d| d.value == device.value) {
            let message = format!("`devices` in {what} has `{}` twice", shown(device));
            errors.add(device.at, message, "name each interface once");
        }
    }
}
