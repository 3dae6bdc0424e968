//! Layers made by hand, among them hostile ones.

use super::*;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

/// A directory for one test, gone at its end.
struct Scratch {
    path: PathBuf,
    root: OwnedFd,
}

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("latlab-layer-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("root")).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let root = rustix::fs::open(path.join("root"), flags, Mode::empty()).unwrap();
        Self { path, root }
    }

    fn at(&self, inside: &str) -> PathBuf {
        self.path.join("root").join(inside)
    }

    fn apply(&self, layer: &[u8]) -> Result<(), String> {
        let mut budget = Budget::of_bytes(1 << 20);
        let mut again = budget.clone();
        remove(self.root.as_fd(), &scan(layer, &mut budget)?)?;
        extract(self.root.as_fd(), layer, &mut again)
    }

    fn text(&self, inside: &str) -> String {
        fs::read_to_string(self.at(inside)).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

enum Item<'a> {
    Dir(&'a str, u32),
    File(&'a str, &'a str, u32),
    Symlink(&'a str, &'a str),
    Hardlink(&'a str, &'a str),
}

/// A tar with the names exactly as given, which the `tar` crate's own writer would refuse.
fn layer(items: &[Item<'_>]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for item in items {
        let (name, kind, target, text, mode) = match item {
            Item::Dir(name, mode) => (name, EntryType::Directory, "", "", *mode),
            Item::File(name, text, mode) => (name, EntryType::Regular, "", *text, *mode),
            Item::Symlink(name, target) => (name, EntryType::Symlink, *target, "", 0o777),
            Item::Hardlink(name, target) => (name, EntryType::Link, *target, "", 0o644),
        };
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(text.len() as u64);
        header.set_mode(mode);
        header.set_mtime(1_000_000_000);
        header.set_uid(rustix::process::geteuid().as_raw().into());
        header.set_gid(rustix::process::getegid().as_raw().into());
        let raw = header.as_gnu_mut().unwrap();
        raw.name[..name.len()].copy_from_slice(name.as_bytes());
        raw.linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_cksum();
        tar.append(&header, text.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

#[test]
fn files_links_modes_and_times_are_as_in_the_layer() {
    let scratch = Scratch::new("plain");
    let items = [
        Item::Dir("./", 0o755),
        Item::Dir("etc/", 0o750),
        Item::File("etc/conf", "one", 0o4711),
        Item::File("made/on/the/way", "deep", 0o600),
        Item::Symlink("link", "/etc/conf"),
        Item::Hardlink("hard", "/etc/conf"),
    ];
    scratch.apply(&layer(&items)).unwrap();
    let conf = fs::metadata(scratch.at("etc/conf")).unwrap();
    assert_eq!(conf.permissions().mode() & 0o7777, 0o4711);
    assert_eq!(conf.mtime(), 1_000_000_000);
    assert_eq!(conf.ino(), fs::metadata(scratch.at("hard")).unwrap().ino());
    assert_eq!(scratch.text("made/on/the/way"), "deep");
    assert_eq!(
        fs::read_link(scratch.at("link")).unwrap(),
        Path::new("/etc/conf")
    );
    let etc = fs::metadata(scratch.at("etc")).unwrap();
    assert_eq!((etc.mode() & 0o7777, etc.mtime()), (0o750, 1_000_000_000));
}

#[test]
fn a_higher_layer_replaces_and_whiteouts_remove() {
    let scratch = Scratch::new("whiteout");
    let lower = [
        Item::File("keep", "1", 0o644),
        Item::File("gone", "1", 0o644),
        Item::File("dir/a/b", "1", 0o644),
        Item::File("opaque/old", "1", 0o644),
        Item::File("changes/kind", "1", 0o644),
    ];
    scratch.apply(&layer(&lower)).unwrap();
    let upper = [
        Item::File(".wh.gone", "", 0o644),
        Item::File("dir/.wh.a", "", 0o644),
        // Members of the same layer stay, whether it stands before or after the marker.
        Item::File("opaque/before", "2", 0o644),
        Item::File("opaque/.wh..wh..opq", "", 0o644),
        Item::File("opaque/after", "2", 0o644),
        Item::File(".wh..wh.plnk", "", 0o644),
        Item::File("changes", "now a file", 0o644),
        Item::File(".wh.never-there", "", 0o644),
    ];
    scratch.apply(&layer(&upper)).unwrap();
    assert_eq!(scratch.text("keep"), "1");
    assert!(!scratch.at("gone").exists());
    assert!(scratch.at("dir").is_dir() && !scratch.at("dir/a").exists());
    let mut names: Vec<_> = fs::read_dir(scratch.at("opaque"))
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["after", "before"]);
    assert_eq!(scratch.text("changes"), "now a file");
    let all = fs::read_dir(scratch.at("")).unwrap();
    assert!(
        all.flatten()
            .all(|e| !e.file_name().as_bytes().starts_with(b".wh."))
    );
}

#[test]
fn a_directory_takes_the_place_of_what_is_none_and_hides_nothing_else() {
    let opaque = layer(&[
        Item::Dir("current", 0o755),
        Item::File("current/.wh..wh..opq", "", 0o644),
        Item::File("current/new", "2", 0o644),
    ]);
    let below = [
        Item::Symlink("current", "v1"),
        Item::File("current", "1", 0o644),
        Item::Symlink("current", "nowhere"),
    ];
    for (number, below) in below.into_iter().enumerate() {
        let scratch = Scratch::new(&format!("opaque-{number}"));
        let lower = [
            Item::Dir("v1", 0o755),
            Item::File("v1/data", "1", 0o644),
            below,
        ];
        scratch.apply(&layer(&lower)).unwrap();
        scratch.apply(&opaque).unwrap();
        assert_eq!(scratch.text("v1/data"), "1");
        assert!(!scratch.at("v1/new").exists());
        assert!(!scratch.at("current").is_symlink());
        assert_eq!(scratch.text("current/new"), "2");
    }
}

#[test]
fn links_of_a_lower_layer_lead_inside_the_image() {
    let scratch = Scratch::new("inside");
    let outside = scratch.path.join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "safe").unwrap();
    let absolute = outside.to_str().unwrap();
    let lower = [
        Item::Dir("usr/lib", 0o755),
        Item::Symlink("lib", "usr/lib"),
        Item::Symlink("abs", absolute),
        Item::Symlink("up", "../outside"),
    ];
    scratch.apply(&layer(&lower)).unwrap();

    scratch
        .apply(&layer(&[Item::File("lib/so", "1", 0o644)]))
        .unwrap();
    assert_eq!(
        scratch.text("usr/lib/so"),
        "1",
        "an ordinary link to a directory is followed"
    );
    assert!(
        fs::symlink_metadata(scratch.at("lib"))
            .unwrap()
            .is_symlink()
    );

    // Escapes: through an absolute link, a climbing one, a whiteout behind one.
    for hostile in [
        [Item::File("abs/victim", "owned", 0o644)],
        [Item::File("up/victim", "owned", 0o644)],
        [Item::File("abs/.wh.victim", "", 0o644)],
        [Item::File("up/.wh..wh..opq", "", 0o644)],
        [Item::Hardlink("stolen", "up/victim")],
        [Item::Hardlink("stolen", "abs/victim")],
    ] {
        // Refused, or made inside the image: either is right, touching the outside is not.
        let _ = scratch.apply(&layer(&hostile));
        let read = fs::read_to_string(outside.join("victim")).unwrap();
        assert_eq!(read, "safe");
        assert_eq!(fs::metadata(outside.join("victim")).unwrap().nlink(), 1);
    }
}

#[test]
fn paths_that_climb_are_refused() {
    for hostile in [
        [Item::File("../escape", "x", 0o644)],
        [Item::File("a/../../escape", "x", 0o644)],
        [Item::Hardlink("a", "../../etc/passwd")],
        [Item::File("/", "root as a file", 0o644)],
        [Item::Hardlink("a", "/")],
        [Item::File("x/.wh...", "", 0o644)],
        [Item::File("x/.wh.", "", 0o644)],
    ] {
        let scratch = Scratch::new("climb");
        assert!(scratch.apply(&layer(&hostile)).is_err());
        assert!(!scratch.path.join("escape").exists());
    }
}

#[test]
fn a_file_replaces_a_link_instead_of_writing_through_it() {
    let scratch = Scratch::new("through");
    let victim = scratch.path.join("victim");
    fs::write(&victim, "safe").unwrap();
    let items = [
        Item::Symlink("f", victim.to_str().unwrap()),
        Item::File("f", "mine", 0o644),
    ];
    scratch.apply(&layer(&items)).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "safe");
    assert_eq!(scratch.text("f"), "mine");
}

#[test]
fn damaged_layers_are_errors() {
    let good = layer(&[Item::File("a", &"x".repeat(2000), 0o644)]);
    assert!(Scratch::new("cut").apply(&good[..1024]).is_err());
    assert!(scan(&[0x55; 1024][..], &mut Budget::of_bytes(0)).is_err());
    assert!(
        scan(&[][..], &mut Budget::of_bytes(0)).unwrap().is_empty(),
        "an empty layer changes nothing"
    );
}

/// A tar of one member whose header says `size`, with `bytes` after it.
fn member(kind: EntryType, name: &str, size: u64, bytes: &[u8]) -> Vec<u8> {
    let mut header = tar::Header::new_gnu();
    header.set_path(name).unwrap();
    header.set_entry_type(kind);
    header.set_size(size);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_cksum();
    let mut tar = header.as_bytes().to_vec();
    tar.extend_from_slice(bytes);
    tar.resize(tar.len().next_multiple_of(512), 0);
    tar
}

/// Nothing may be read of such a member: it has no end.
struct Endless(Vec<u8>, usize);

impl Read for Endless {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let given = self.0.get(self.1..).unwrap_or_default();
        let length = given.len().min(buf.len());
        buf[..length].copy_from_slice(&given[..length]);
        let length = if length == 0 {
            buf.fill(b'a');
            buf.len()
        } else {
            length
        };
        self.1 += length;
        assert!(self.1 < 16 << 20, "read on and on");
        Ok(length)
    }
}

#[test]
fn descriptions_without_end_are_not_kept_in_memory() {
    for kind in [
        EntryType::GNULongName,
        EntryType::GNULongLink,
        EntryType::XHeader,
    ] {
        let bomb = Endless(member(kind, "long", 1 << 40, b""), 0);
        let error = scan(bomb, &mut Budget::of_bytes(u64::MAX)).unwrap_err();
        assert!(error.contains("describes a member"), "{kind:?}: {error}");
    }
}

#[test]
fn layers_too_large_are_refused_before_they_are_read() {
    for kind in [
        EntryType::Regular,
        EntryType::Directory,
        EntryType::XGlobalHeader,
    ] {
        let bomb = Endless(member(kind, "large", 1 << 40, b""), 0);
        let error = scan(bomb, &mut Budget::of_bytes(1 << 30)).unwrap_err();
        assert!(error.contains("more than 1024 MiB"), "{kind:?}: {error}");
    }
    // A sparse file is as large as it says, however little of it there is.
    let mut sparse = member(EntryType::GNUSparse, "sparse", 0, b"");
    let octal = |number: u64| format!("{number:011o}\0");
    sparse[386..398].copy_from_slice(octal((1 << 33) - 1).as_bytes());
    sparse[398..410].copy_from_slice(octal(0).as_bytes());
    sparse[483..495].copy_from_slice(octal((1 << 33) - 1).as_bytes());
    let mut header = tar::Header::from_byte_slice(&sparse[..512]).clone();
    header.set_cksum();
    let error = scan(&header.as_bytes()[..], &mut Budget::of_bytes(1 << 30)).unwrap_err();
    assert!(error.contains("more than 1024 MiB"), "{error}");
}

#[test]
fn names_longer_than_a_path_and_members_without_number_are_refused() {
    let name = [b"a/".repeat(3000), vec![0]].concat();
    let mut tar = member(EntryType::GNULongName, "long", name.len() as u64, &name);
    tar.extend(member(EntryType::Regular, "x", 0, b""));
    let error = scan(&*tar, &mut Budget::of_bytes(0)).unwrap_err();
    assert!(error.contains("longer than a path"), "{error}");
    let one = member(EntryType::Regular, "x", 0, b"");
    let many = Read::take(Repeated(one), 1_000_001 * 512);
    let error = scan(many, &mut Budget::of_bytes(0)).unwrap_err();
    assert!(error.contains("more members"), "{error}");
}

/// A member again and again.
struct Repeated(Vec<u8>);

impl Read for Repeated {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let length = buf.len().min(512);
        buf[..length].copy_from_slice(&self.0[..length]);
        self.0.rotate_left(length);
        Ok(length)
    }
}

#[test]
fn images_bring_no_devices_but_whiteouts() {
    let device = |kind, major, minor| {
        let mut header = tar::Header::from_byte_slice(&member(kind, "dev", 0, b"")).clone();
        header.set_device_major(major).unwrap();
        header.set_device_minor(minor).unwrap();
        header.set_uid(rustix::process::geteuid().as_raw().into());
        header.set_gid(rustix::process::getegid().as_raw().into());
        header.set_cksum();
        header.as_bytes().to_vec()
    };
    let scratch = Scratch::new("devices");
    for (kind, major, minor) in [
        (EntryType::Block, 254, 0),
        (EntryType::Block, 0, 0),
        (EntryType::Char, 1, 1),
        (EntryType::Char, 0, 1),
    ] {
        let error = scratch.apply(&device(kind, major, minor)).unwrap_err();
        assert!(error.contains("images may not bring"), "{error}");
        assert!(!scratch.at("dev").exists());
    }
    if rustix::process::geteuid().is_root() {
        scratch.apply(&device(EntryType::Char, 0, 0)).unwrap();
        assert_eq!(fs::symlink_metadata(scratch.at("dev")).unwrap().rdev(), 0);
    }
}
