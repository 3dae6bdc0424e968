//! Templates: guests that were saved when their agent ran and before anything told them apart. Others begin as clones of
//! one ([`super::clone`]) in a tenth of the time of a boot.
//!
//! A template has two files in the cache: the guest's memory, with holes where it was never written, and the state of its
//! devices. QEMU leaves the memory out of that state, because a file has it (capability `x-ignore-shared`). Its name is a
//! digest of all that it depends on: QEMU's program and its arguments, the accelerator, kernel and initramfs. So a
//! template fits the guest that looks for it, or is not found.
//!
//! A template holds whatever a guest's memory holds: only root may read it, and no network sees it.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latlab_model::kinds::GuestRoot;
use latlab_wire::channel::clock_page;
use serde_json::{Value, json};

use super::bzimage::digest;
use super::error::Error;
use super::fingerprint;
use super::guest::Vm;
use super::kernel::{Kernel, Transport};
use super::nic::Nic;
use super::qemu::{Origin, VmConfig};
use super::qmp::Qmp;
use crate::sync::lock;
use crate::sys::cached;
use crate::sys::cgroup_entry::CgroupEntry;
use crate::sys::file::{Lock, make_private, sync_directory};
use crate::sys::sealed;

/// Directory of the cache.
const DIRECTORY: &str = "templates";
const MEMORY: &str = "memory";
const STATE: &str = "state";
/// The template's own description, for people.
const DESCRIPTION: &str = "description";
/// How many are kept, those that were used last. Each takes about 100 MB.
const KEPT: usize = 8;
/// More than any guest's devices have.
const MAX_STATE_BYTES: u64 = 64 << 20;
/// QEMU saves the devices within milliseconds.
const SAVE_TIMEOUT: Duration = Duration::from_secs(30);

/// The templates in the cache, and the memory of those that were used.
pub struct Templates {
    dir: PathBuf,
    memory: Mutex<BTreeMap<PathBuf, Arc<File>>>,
}

pub(super) struct Template {
    dir: PathBuf,
}

impl Templates {
    pub fn new(cache: &Path) -> Self {
        Self {
            dir: cache.join(DIRECTORY),
            memory: Mutex::default(),
        }
    }

    /// The template that `config` can be cloned from; boots and saves it where there is none, with the guest's own
    /// network cards, which its kernel has no driver for yet. `timeout` bounds the boot.
    pub(super) fn of(
        &self,
        config: &VmConfig<'_>,
        cgroup: Option<&CgroupEntry>,
        timeout: Duration,
    ) -> Result<Template, Error> {
        make_private(&self.dir).map_err(Error::io("make directory", &self.dir))?;
        let memory = sealed::empty_memory(config.memory_bytes)?;
        let config = common(config, Origin::Template(memory.as_fd()));
        let description = describe(&config)?;
        let dir = self.dir.join(&digest(description.as_bytes())[..32]);
        let template = Template { dir };
        if template.is_there() {
            return Ok(template);
        }
        // Guests of one lab that need the same template wait for the first of them.
        let lock = Lock::take(&self.dir.join("lock"), timeout + SAVE_TIMEOUT)?;
        let _lock = lock.ok_or_else(|| Error::Template {
            reason: "another one is being made".into(),
        })?;
        if template.is_there() {
            return Ok(template);
        }
        let state = boot_and_save(&config, cgroup, timeout)?;
        template.keep(&memory, &state, &description)?;
        // One that cannot be removed takes room only.
        let when = |path: &Path| cached::used(&path.join(DESCRIPTION));
        let _ = cached::remove_oldest(&self.dir, KEPT, when);
        Ok(template)
    }

    /// The guest's memory: a copy of its own to write, or one for all clones, of which each keeps what it writes.
    pub(super) fn memory(&self, template: &Template, is_own: bool) -> Result<Arc<File>, Error> {
        let path = template.dir.join(MEMORY);
        if is_own {
            return Ok(Arc::new(sealed::memory(&path, false)?));
        }
        let mut known = lock(&self.memory);
        if let Some(file) = known.get(&path) {
            return Ok(Arc::clone(file));
        }
        let file = Arc::new(sealed::memory(&path, true)?);
        known.insert(path, Arc::clone(&file));
        Ok(file)
    }
}

impl Template {
    /// Marks it as used. One of which a removal was cut off is none.
    fn is_there(&self) -> bool {
        let is_whole = [MEMORY, STATE]
            .iter()
            .all(|name| self.dir.join(name).exists());
        is_whole && cached::mark_used(&self.dir.join(DESCRIPTION)).is_ok()
    }

    pub fn state(&self) -> Result<Vec<u8>, Error> {
        let path = self.dir.join(STATE);
        fs::read(&path).map_err(Error::io("read", &path))
    }

    /// Writes it beside its place, and moves it there when it is whole.
    fn keep(&self, memory: &File, state: &[u8], description: &str) -> Result<(), Error> {
        let new = self.dir.with_extension("new");
        let write = || -> io::Result<()> {
            match fs::remove_dir_all(&new) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            DirBuilder::new().mode(0o700).create(&new)?;
            let create = |name: &str| {
                let mut options = OpenOptions::new();
                options.write(true).create_new(true).mode(0o600);
                options.open(new.join(name))
            };
            let bytes = memory.metadata()?.len();
            let file = create(MEMORY)?;
            file.set_len(bytes)?;
            sealed::copy_sparse(memory, &file, bytes)?;
            file.sync_all()?;
            for (name, content) in [(STATE, state), (DESCRIPTION, description.as_bytes())] {
                let mut file = create(name)?;
                io::Write::write_all(&mut file, content)?;
                file.sync_all()?;
            }
            // A part of one may be there, and a rename does not replace it.
            cached::remove(&self.dir)?;
            fs::rename(&new, &self.dir)?;
            sync_directory(self.dir.parent().unwrap_or(Path::new("/")))
        };
        write().map_err(|error| {
            // The rest takes room only, and the next attempt removes it.
            let _ = fs::remove_dir_all(&new);
            Error::io("write", &self.dir)(error)
        })
    }
}

/// Whether a guest with this kernel can be saved: what virtiofs serves cannot.
pub(super) fn check(kernel: &Kernel, root: GuestRoot) -> Result<(), Error> {
    match (root, kernel.transport) {
        (GuestRoot::Disk, _) | (_, Transport::NineP) => Ok(()),
        (GuestRoot::Share, Transport::VirtioFs) => Err(Error::Template {
            reason: format!(
                "kernel {} reaches its root over virtiofs, which QEMU cannot save",
                kernel.release
            ),
        }),
    }
}

/// The hardware address of a template's card.
pub(super) fn mac(index: usize) -> [u8; 6] {
    [0x02, 0, 0, 0, 0, index as u8]
}

/// `config` without what differs between clones.
fn common<'a>(config: &VmConfig<'a>, origin: Origin<'a>) -> VmConfig<'a> {
    let card = |(index, nic): (usize, &Nic<'a>)| Nic {
        mac: mac(index),
        ..nic.clone()
    };
    VmConfig {
        name: "template".into(),
        nics: config.nics.iter().enumerate().map(card).collect(),
        origin,
        ..config.clone()
    }
}

/// All that a template depends on.
fn describe(config: &VmConfig<'_>) -> Result<String, Error> {
    let initramfs = config.initramfs.file_name().unwrap_or_default();
    let lines = [
        fingerprint::of_file(&config.kernel.image)?,
        initramfs.to_string_lossy().into_owned(),
        fingerprint::of(config, &config.arguments())?,
    ];
    Ok(lines.join("\n"))
}

/// Returns the state of the devices; the memory is in the file that the guest had.
fn boot_and_save(
    config: &VmConfig<'_>,
    cgroup: Option<&CgroupEntry>,
    timeout: Duration,
) -> Result<Vec<u8>, Error> {
    let vm = Vm::start(config, cgroup)?;
    let saved = vm.channel(timeout).map(drop).and_then(|()| save(&vm));
    let ended = vm.end();
    let state = saved?;
    ended?;
    Ok(state)
}

fn save(vm: &Vm) -> Result<Vec<u8>, Error> {
    let (ours, theirs) = UnixStream::pair().map_err(|source| Error::Template {
        reason: format!("cannot make a socket: {source}"),
    })?;
    let mut qmp = vm.qmp()?;
    leave_memory_out(&mut qmp)?;
    qmp.execute_with("getfd", &json!({"fdname": "state"}), &[theirs.as_fd()])?;
    drop(theirs);
    qmp.execute("migrate", &json!({"uri": "fd:state"}))?;
    let mut state = Vec::new();
    ours.set_read_timeout(Some(SAVE_TIMEOUT))
        .and_then(|()| ours.take(MAX_STATE_BYTES).read_to_end(&mut state))
        .map_err(|source| Error::Template {
            reason: format!("QEMU did not save the devices: {source}"),
        })?;
    let answer = qmp.execute("query-migrate", &json!({}))?;
    match answer.get("status").and_then(Value::as_str) {
        Some("completed") => {
            unmap_clock_page(&mut state)?;
            Ok(state)
        }
        status => {
            let reason = answer.get("error-desc").and_then(Value::as_str);
            let reason = reason.or(status).unwrap_or("no reason");
            Err(Error::Template {
                reason: format!("QEMU could not save the devices: {reason}"),
            })
        }
    }
}

/// Sets the address of the clock page in the state to zero. QEMU compares the addresses of memory that it leaves out
/// (`ram_load_precopy`), before it loads the devices; but the clock page is a PCI device's, and has its address from that.
fn unmap_clock_page(state: &mut [u8]) -> Result<(), Error> {
    // `ram_save_setup`: the block's name, its length, its address.
    let mut words = b"/clock".to_vec();
    words.extend((clock_page::PAGE_BYTES as u64).to_be_bytes());
    let mut found = state.windows(words.len()).enumerate();
    let mut places = found.by_ref().filter(|(_, window)| *window == words);
    let start = match (places.next(), places.next()) {
        (Some((start, _)), None) => start + words.len(),
        _ => {
            return Err(Error::Template {
                reason: "QEMU's state lists the clock page in another form".into(),
            });
        }
    };
    if let Some(address) = state.get_mut(start..start + size_of::<u64>()) {
        address.fill(0);
    }
    Ok(())
}

/// On both sides: the guest's memory is in a file and not in the state. Nothing is announced to networks.
pub(super) fn leave_memory_out(qmp: &mut Qmp) -> Result<(), Error> {
    let capabilities = json!([{"capability": "x-ignore-shared", "state": true}]);
    qmp.execute(
        "migrate-set-capabilities",
        &json!({"capabilities": capabilities}),
    )?;
    qmp.execute("migrate-set-parameters", &json!({"announce-rounds": 0}))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_takes_the_place_of_a_part_of_one() {
        let name = format!("latlab-template-{}", std::process::id());
        let cache = std::env::temp_dir().join(name);
        let template = Template {
            dir: cache.join("digest"),
        };
        for part in [MEMORY, STATE, DESCRIPTION] {
            fs::create_dir_all(&template.dir).unwrap();
            fs::write(template.dir.join(part), "old").unwrap();
            assert!(!template.is_there(), "{part}");
            let memory = sealed::empty_memory(1 << 16).unwrap();
            template.keep(&memory, b"new", "description").unwrap();
            assert!(template.is_there());
            assert_eq!(template.state().unwrap(), b"new");
            assert_eq!(fs::read_dir(&cache).unwrap().count(), 1);
            fs::remove_dir_all(&template.dir).unwrap();
        }
        fs::remove_dir(cache).unwrap();
    }

    #[test]
    fn the_clock_page_loses_its_address_and_nothing_else_changes() {
        let mut state = b"\x03ram\0\0\0\0\x10\0\0\0\0\0\0\0\0\0\0\0\x120000:00:05.0/clock".to_vec();
        state.extend(4096_u64.to_be_bytes());
        let before = state.len();
        state.extend(0xfebf_0000_u64.to_be_bytes());
        state.extend(b"rest");
        let mut expected = state.clone();
        expected[before..before + 8].fill(0);
        unmap_clock_page(&mut state).unwrap();
        assert_eq!(state, expected);
        assert!(unmap_clock_page(&mut state[..before - 1]).is_err());
    }
}
