//! Which kernel modules a guest needs, and in which order.
//!
//! The order comes from the modules themselves (`depends=` in their `.modinfo`), because an unpacked
//! package has no `modules.dep` yet: that file is made by `depmod` when a package is installed, which
//! ours never is.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::bzimage;
use crate::sys;

/// The end of a signed module, after the signature and 12 bytes about it.
const SIGNATURE_END: &[u8] = b"~Module signature appended~\n";

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Sys(#[from] sys::Error),
    #[error("the kernel's modules in {} lack '{name}'", dir.display())]
    Absent {
        name: String,
        /// `lib/modules/RELEASE`.
        dir: PathBuf,
    },
    #[error("module '{name}' in {} depends on itself", dir.display())]
    Circle {
        name: String,
        /// `lib/modules/RELEASE`.
        dir: PathBuf,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    pub name: String,
    pub bytes: Vec<u8>,
}

pub struct Modules {
    dir: PathBuf,
    files: HashMap<String, PathBuf>,
    builtin: Vec<String>,
}

impl Modules {
    /// Looks through `lib/modules/RELEASE`.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let mut files = HashMap::new();
        collect(dir, &mut files)?;
        // Absent for a kernel built without modules' tools: then nothing counts as built in.
        let builtin = fs::read_to_string(dir.join("modules.builtin")).unwrap_or_default();
        let builtin = builtin
            .lines()
            .filter_map(|line| name_of(Path::new(line)))
            .collect();
        Ok(Self {
            dir: dir.to_owned(),
            files,
            builtin,
        })
    }

    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name) || self.builtin.iter().any(|builtin| builtin == name)
    }

    /// The modules wanted and all they need, each after what it depends on. What is built in is left
    /// out.
    pub fn in_order(&self, wanted: &[&str]) -> Result<Vec<Module>, Error> {
        let mut order = Vec::new();
        for name in wanted {
            self.add(name, &mut order, &mut Vec::new())?;
        }
        Ok(order)
    }

    fn add(
        &self,
        name: &str,
        order: &mut Vec<Module>,
        above: &mut Vec<String>,
    ) -> Result<(), Error> {
        if order.iter().any(|module| module.name == name) {
            return Ok(());
        }
        let (name, dir) = (name.to_owned(), self.dir.clone());
        if above.contains(&name) {
            return Err(Error::Circle { name, dir });
        }
        let Some(path) = self.files.get(&name) else {
            return if self.builtin.contains(&name) {
                Ok(())
            } else {
                Err(Error::Absent { name, dir })
            };
        };
        let bytes = read(path)?;
        above.push(name.clone());
        for needed in depends(&bytes) {
            self.add(&needed, order, above)?;
        }
        above.pop();
        order.push(Module {
            name,
            bytes: without_signature(bytes),
        });
        Ok(())
    }
}

fn collect(dir: &Path, files: &mut HashMap<String, PathBuf>) -> Result<(), Error> {
    let failed = || sys::Error::of::<io::Error>("list", dir.display());
    for entry in fs::read_dir(dir).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        let path = entry.path();
        // `build` and `source` are links out of the tree.
        if entry.file_type().map_err(failed())?.is_dir() {
            collect(&path, files)?;
        } else if let Some(name) = name_of(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// `kernel/net/9p/9pnet-virtio.ko.xz` is module `9pnet_virtio`.
fn name_of(path: &Path) -> Option<String> {
    let (name, compression) = path.file_name()?.to_str()?.split_once(".ko")?;
    matches!(compression, "" | ".xz" | ".zst" | ".gz").then(|| name.replace('-', "_"))
}

/// Reads a module, decompressed: the guest has neither the tools nor the time.
fn read(path: &Path) -> Result<Vec<u8>, Error> {
    let decompressed = || -> io::Result<Vec<u8>> {
        let bytes = fs::read(path)?;
        let mut out = Vec::new();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("xz") => bzimage::xz(&bytes, &mut out)?,
            Some("zst") => bzimage::zstd(&bytes, &mut out)?,
            Some("gz") => {
                io::copy(&mut flate2::read::GzDecoder::new(&bytes[..]), &mut out)?;
            }
            _ => out = bytes,
        }
        Ok(out)
    };
    let failed = sys::Error::of::<io::Error>("read", path.display());
    Ok(decompressed().map_err(failed)?)
}

/// The names after `depends=` in the module's information, which is a run of NUL-terminated texts.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(at) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let text = &module[at + KEY.len()..];
    let text = text.split(|b| *b == 0).next().unwrap_or_default();
    let text = String::from_utf8_lossy(text);
    text.split(',')
        .filter(|name| !name.is_empty())
        .map(|name| name.replace('-', "_"))
        .collect()
}

/// Cuts a module's signature off. The kernels we boot do not insist on one, and verifying RSA
/// signatures costs a guest under software emulation as much as loading the modules themselves.
fn without_signature(mut module: Vec<u8>) -> Vec<u8> {
    const ABOUT_BYTES: usize = 12;
    let cut = || -> Option<usize> {
        let rest = module.strip_suffix(SIGNATURE_END)?;
        let (rest, about) = rest.split_last_chunk::<ABOUT_BYTES>()?;
        let length = u32::from_be_bytes([about[8], about[9], about[10], about[11]]);
        rest.len().checked_sub(length as usize)
    };
    if let Some(length) = cut() {
        module.truncate(length);
    }
    module
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, modules: &[(&str, &str)], builtin: &str) -> PathBuf {
        let dir =
            std::env::temp_dir().join(format!("latlab-modules-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("kernel/sub")).unwrap();
        fs::write(dir.join("modules.builtin"), builtin).unwrap();
        for (file, depends) in modules {
            let text = format!("\x7fELF\0license=GPL\0depends={depends}\0name=x\0");
            fs::write(dir.join("kernel/sub").join(file), text).unwrap();
        }
        dir
    }

    fn names(modules: &[Module]) -> Vec<&str> {
        modules.iter().map(|module| module.name.as_str()).collect()
    }

    #[test]
    fn dependencies_come_before_a_module_and_once() {
        let dir = tree(
            "order",
            &[("a-b.ko", "base"), ("c.ko", "a-b,base"), ("base.ko", "")],
            "kernel/lib/inside.ko\n",
        );
        let modules = Modules::open(&dir).unwrap();
        let found = modules.in_order(&["inside", "c", "a_b"]).unwrap();
        assert_eq!(names(&found), ["base", "a_b", "c"]);
        assert!(modules.has("inside") && modules.has("a_b") && !modules.has("other"));
        let error = modules.in_order(&["other"]).unwrap_err();
        assert!(error.to_string().contains("'other'"), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_circle_ends() {
        let dir = tree("circle", &[("a.ko", "b"), ("b.ko", "a")], "");
        let error = Modules::open(&dir).unwrap().in_order(&["a"]).unwrap_err();
        assert!(matches!(error, Error::Circle { .. }), "{error}");
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn compressed_names_count() {
        assert_eq!(
            name_of(Path::new("x/9pnet-virtio.ko.zst")).unwrap(),
            "9pnet_virtio"
        );
        assert_eq!(name_of(Path::new("x/9p.ko.xz")).unwrap(), "9p");
        assert_eq!(name_of(Path::new("x/modules.order")), None);
        assert_eq!(name_of(Path::new("x/a.ko.debug")), None);
    }

    #[test]
    fn a_signature_is_cut_off_and_nothing_else() {
        let mut signed = b"module".to_vec();
        signed.extend_from_slice(b"SIGNATURE");
        signed.extend_from_slice(&[1, 2, 3, 0, 0, 0, 0, 0, 0, 0, 0, 9]);
        signed.extend_from_slice(SIGNATURE_END);
        assert_eq!(without_signature(signed), b"module");
        assert_eq!(without_signature(b"module".to_vec()), b"module");
        let mut short = vec![0xff; 12];
        short.extend_from_slice(SIGNATURE_END);
        assert_eq!(without_signature(short.clone()), short);
    }
}
