use std::fs::{File, FileTimes};
use std::path::PathBuf;

use super::*;
use crate::cache::InUse;
use crate::sys::file::Lock;

const DIGEST: &str = "0123456789abcdef0123456789abcdef";
const DAY: Duration = Duration::from_secs(86_400);

struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let dir = std::env::temp_dir().join(format!("latlab-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        Place(dir)
    }

    /// A file, whose first directory below the place is as old as the file.
    fn add(&self, path: &str, days: u32) -> PathBuf {
        let file = self.0.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "x").unwrap();
        self.age(path, days)
    }

    fn age(&self, path: &str, days: u32) -> PathBuf {
        let path = self.0.join(path);
        let time = SystemTime::now() - DAY * days;
        let times = FileTimes::new().set_modified(time).set_accessed(time);
        File::open(&path).unwrap().set_times(times).unwrap();
        path
    }

    fn image(&self, number: u32, days: u32) -> PathBuf {
        let name = format!("images/{number:064x}");
        self.add(&format!("{name}/rootfs/bin/sh"), days);
        self.age(&name, days)
    }

    fn clean(&self, days: Option<u32>, uses: &[LabUse]) -> Cleaned {
        let choice = Choice {
            older_than: days.map(|days| DAY * days),
            dry_run: false,
        };
        clean(&self.0, choice, || Ok::<_, Error>(uses.to_vec())).unwrap()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn used(lab: &str, paths: &[&Path]) -> LabUse {
    LabUse {
        lab: lab.into(),
        paths: Some(paths.iter().map(|path| path.to_path_buf()).collect()),
    }
}

fn kinds(entries: &[Entry]) -> Vec<Kind> {
    let mut kinds: Vec<Kind> = entries.iter().map(|entry| entry.kind).collect();
    kinds.sort();
    kinds
}

#[test]
fn every_kind_is_found_and_nothing_else_removed() {
    let place = Place::new("kinds");
    let stays = [
        place.add("capabilities.json", 99),
        place.add("images/empty/keep", 99),
        place.add("kernels/standard.json", 99),
        place.add("kernels/lock", 99),
        place.add("runs.sqlite", 99),
        place.add("accelerator.json", 99),
        place.add("accelerator.lock", 99),
        place.add("criu.json", 99),
    ];
    place.image(1, 1);
    place.add("images/.make-00ff/tmp/x", 0);
    place.add(&format!("disks/{DIGEST}.squashfs"), 1);
    place.add("disks/x.new", 0);
    place.add("kernels/linux-image-6.1_6.1-1/boot/vmlinuz-6.1", 1);
    place.add(&format!("kernels/vmlinux-{DIGEST}"), 1);
    place.add(&format!("initramfs-{DIGEST}.cpio"), 1);
    place.add(&format!("templates/{DIGEST}/description"), 1);
    place.add("borrowed/criu/4.2/root/bin/criu", 1);
    let all = [
        Kind::Image,
        Kind::Disk,
        Kind::Kernel,
        Kind::Kernel,
        Kind::Initramfs,
        Kind::Template,
        Kind::Program,
        Kind::Rest,
        Kind::Rest,
    ];
    let listed = list(&place.0, &[]).unwrap();
    assert_eq!(kinds(&listed), all);
    assert!(listed.iter().all(|entry| entry.bytes > 0), "{listed:#?}");
    let names: Vec<&str> = listed.iter().map(|entry| entry.name.as_str()).collect();
    assert!(names.contains(&"criu 4.2"), "{names:?}");
    assert_eq!(kinds(&place.clean(None, &[]).removed), all);
    assert!(list(&place.0, &[]).unwrap().is_empty());
    for path in stays {
        assert!(path.exists(), "{}", path.display());
    }
}

#[test]
fn what_was_used_lately_or_a_lab_uses_stays() {
    let place = Place::new("used");
    let [old, new, lent] = [(1, 40), (2, 3), (3, 90)].map(|(n, days)| place.image(n, days));
    let note = |name: &str, image: &Path| {
        let digest = image.file_name().unwrap().to_str().unwrap();
        let path = place.0.join("images/recipes").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, format!("{digest}\n6.1 linux-image-6.1 6.1-1")).unwrap();
        path
    };
    let (gone, kept) = (note("a", &old), note("b", &new));
    let uses = [used("pair", &[&lent.join("rootfs")])];
    let only_told = Choice {
        older_than: Some(DAY * 30),
        dry_run: true,
    };
    let told = clean(&place.0, only_told, || Ok::<_, Error>(uses.to_vec())).unwrap();
    assert_eq!(told.removed.len(), 1);
    assert!(old.exists());
    let cleaned = place.clean(Some(30), &uses);
    assert_eq!(cleaned.removed[0].path, old);
    assert_eq!(cleaned.in_use[0].labs, ["pair"]);
    assert!(!old.exists() && new.exists() && lent.exists());
    assert!(!gone.exists() && kept.exists());
    // A lab of an earlier latlab does not tell what it uses.
    let silent = LabUse {
        lab: "old".into(),
        paths: None,
    };
    assert!(place.clean(None, &[silent]).removed.is_empty());
    assert_eq!(place.clean(None, &uses).removed[0].path, new);
    assert!(lent.exists());
}

#[test]
fn a_killed_removal_is_finished_by_the_next_one() {
    let place = Place::new("killed");
    place.add("images/.remove-00ff/rootfs/bin/sh", 0);
    assert_eq!(kinds(&place.clean(Some(30), &[]).removed), [Kind::Rest]);
    assert_eq!(fs::read_dir(place.0.join("images")).unwrap().count(), 0);
}

#[test]
fn a_killed_proof_leaves_nothing_for_ever() {
    let place = Place::new("proofs");
    place.add(".criu-4711/log", 0);
    place.add("accelerator-4711.log", 0);
    let cleaned = place.clean(Some(30), &[]);
    assert_eq!(kinds(&cleaned.removed), [Kind::Rest, Kind::Rest]);
    // One that is at work keeps its own.
    place.add(".criu-4712/log", 0);
    let held = Lock::take(&place.0.join("criu.lock"), Duration::ZERO).unwrap();
    assert!(matches!(
        alone(&place.0, Duration::ZERO),
        Err(Error::Busy(_))
    ));
    drop(held);
}

#[test]
fn links_lead_to_what_is_anothers() {
    let place = Place::new("links");
    let other = Place::new("links-other");
    let file = other.add(&format!("vmlinux-{DIGEST}"), 99);
    std::os::unix::fs::symlink(&other.0, place.0.join("kernels")).unwrap();
    assert!(place.clean(None, &[]).removed.is_empty());
    assert!(file.exists());
}

#[test]
fn nothing_is_removed_while_entries_are_taken_or_made() {
    let place = Place::new("busy");
    let image = place.image(1, 99);
    let try_now = || match alone(&place.0, Duration::ZERO) {
        Ok(_) => true,
        Err(Error::Busy(_)) => false,
        Err(error) => panic!("{error}"),
    };
    let held = InUse::share(&place.0).unwrap();
    // Two may take at once.
    drop(InUse::share(&place.0).unwrap());
    assert!(!try_now());
    drop(held);
    let made = Lock::take_directory(&place.0.join("images"), Duration::ZERO);
    assert!(!try_now());
    drop(made);
    assert!(try_now() && image.exists());
}

#[test]
fn images_beyond_the_bound_go_but_for_those_of_labs() {
    let place = Place::new("bound");
    let images: Vec<PathBuf> = (0..20).map(|n| place.image(n, n)).collect();
    let uses = [used("pair", &[&images[19].join("rootfs/bin/sh")])];
    keep_bounds(&place.0, || Ok::<_, Error>(uses.to_vec())).unwrap();
    let left: Vec<usize> = (0..20).filter(|n| images[*n].exists()).collect();
    let expected: Vec<usize> = (0..16).chain([19]).collect();
    assert_eq!(left, expected);
}

#[test]
fn disks_beyond_the_bound_go_but_for_those_of_the_last_day() {
    let place = Place::new("disks");
    let disk = |number: u32, days: u32| place.add(&format!("disks/{number:032x}.squashfs"), days);
    let disks: Vec<PathBuf> = (0..20).map(|n| disk(n, n.saturating_sub(17))).collect();
    keep_bounds(&place.0, || Ok::<_, Error>(Vec::new())).unwrap();
    let left: Vec<usize> = (0..20).filter(|n| disks[*n].exists()).collect();
    assert_eq!(left, (0..18).collect::<Vec<usize>>());
}
