//! An image archive as a table of contents: which file lies where in the tar.
//!
//! Archives are read in place. Only headers are looked at first, so opening one of several
//! gigabytes takes milliseconds and an image that is in the cache already costs no more than that.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::PathBuf;

use super::budget::{Meter, check_name};

/// More members than any image has; bounds the memory that a hostile archive can take.
const MAX_MEMBERS: usize = 1 << 16;

/// Documents (index, manifest, configuration) beyond this are refused; registries do the same.
const MAX_DOCUMENT_BYTES: u64 = 4 << 20;

/// Symbolic links followed from a member to its bytes. `docker save` links equal layers.
const MAX_LINKS: usize = 8;

#[derive(Debug, Clone)]
enum Member {
    Bytes { offset: u64, size: u64 },
    Link(String),
}

#[derive(Debug)]
pub(super) struct Archive<R> {
    source: R,
    members: BTreeMap<String, Member>,
}

impl<R: Read + Seek> Archive<R> {
    pub(super) fn read(source: R) -> Result<Self, String> {
        let meter = Meter::default();
        meter.allow_description();
        let mut tar = tar::Archive::new(meter.of(source));
        let mut members = BTreeMap::new();
        let entries = tar.entries_with_seek().map_err(|e| e.to_string())?;
        for entry in entries {
            let entry = entry.map_err(|e| format!("not a tar file, or a damaged one: {e}"))?;
            // Contents are skipped by seeking, so only descriptions are read here.
            meter.allow_description();
            check_name(&entry.path_bytes())?;
            check_name(&entry.link_name_bytes().unwrap_or_default())?;
            let Some(name) = normal(&entry.path_bytes(), "") else {
                continue;
            };
            let kind = entry.header().entry_type();
            let member = if kind.is_file() {
                Member::Bytes {
                    offset: entry.raw_file_position(),
                    size: entry.size(),
                }
            } else if kind.is_symlink() || kind.is_hard_link() {
                let target = entry.link_name_bytes().unwrap_or_default();
                let base = if kind.is_symlink() { parent(&name) } else { "" };
                let Some(target) = normal(&target, base) else {
                    continue;
                };
                Member::Link(target)
            } else {
                continue;
            };
            members.insert(name, member);
            if members.len() > MAX_MEMBERS {
                return Err(format!("more than {MAX_MEMBERS} members"));
            }
        }
        Ok(Self {
            source: tar.into_inner().into_inner(),
            members,
        })
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.members.contains_key(name)
    }

    /// The bytes of the member `name`, to be read from the start.
    pub(super) fn open(&mut self, name: &str) -> Result<io::Take<&mut R>, String> {
        let mut at = name;
        for _ in 0..MAX_LINKS {
            match self.members.get(at) {
                Some(Member::Link(target)) => at = target,
                Some(Member::Bytes { offset, size }) => {
                    self.source
                        .seek(SeekFrom::Start(*offset))
                        .map_err(|e| e.to_string())?;
                    return Ok((&mut self.source).take(*size));
                }
                None => return Err(format!("`{name}` is missing")),
            }
        }
        Err(format!("`{name}` is a loop of links"))
    }

    pub(super) fn document(&mut self, name: &str) -> Result<Vec<u8>, String> {
        let mut reader = self.open(name)?;
        let expected = reader.limit();
        if expected > MAX_DOCUMENT_BYTES {
            return Err(format!(
                "`{name}` is larger than {MAX_DOCUMENT_BYTES} bytes"
            ));
        }
        let mut bytes = Vec::new();
        let read = reader
            .read_to_end(&mut bytes)
            .map_err(|e| format!("`{name}`: {e}"))?;
        if (read as u64) < expected {
            return Err(format!("`{name}` is cut off"));
        }
        Ok(bytes)
    }
}

fn parent(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// `path`, seen from `base`, without `.` and `..`; `None` if it leaves the archive or is not text.
fn normal(path: &[u8], base: &str) -> Option<String> {
    let path = std::str::from_utf8(path).ok()?;
    let mut parts: Vec<&str> = base.split('/').filter(|p| !p.is_empty()).collect();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(PathBuf::from_iter(parts).to_str()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    fn archive(members: &[(&str, &[u8])], links: &[(&str, &str)]) -> Vec<u8> {
        let mut tar = tar::Builder::new(Vec::new());
        for (name, bytes) in members {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            tar.append_data(&mut header, name, *bytes).unwrap();
        }
        for (name, target) in links {
            let mut header = tar::Header::new_gnu();
            header.set_entry_type(tar::EntryType::Symlink);
            header.set_size(0);
            tar.append_link(&mut header, name, target).unwrap();
        }
        tar.into_inner().unwrap()
    }

    #[test]
    fn members_are_found_and_links_followed() {
        let bytes = archive(
            &[("./index.json", b"{}"), ("a/layer.tar", b"layer")],
            &[
                ("b/layer.tar", "../a/layer.tar"),
                ("loop", "loop"),
                ("out", "../../etc/passwd"),
            ],
        );
        let mut archive = Archive::read(Cursor::new(&bytes)).unwrap();
        assert_eq!(archive.document("index.json").unwrap(), b"{}");
        assert_eq!(archive.document("b/layer.tar").unwrap(), b"layer");
        assert!(
            archive
                .document("loop")
                .unwrap_err()
                .contains("loop of links")
        );
        assert!(!archive.contains("out"));
        assert!(archive.document("missing").unwrap_err().contains("missing"));
    }

    #[test]
    fn damage_is_an_error() {
        let bytes = archive(&[("index.json", &[b'x'; 2000])], &[]);
        let mut cut = Archive::read(Cursor::new(&bytes[..1024])).unwrap();
        assert!(cut.document("index.json").unwrap_err().contains("cut off"));
        assert!(Archive::read(Cursor::new(vec![7; 4096])).is_err());
    }
}
