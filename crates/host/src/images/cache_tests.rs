//! Whole archives made by hand.

use super::super::codec::digest;
use super::*;
use std::io::Write as _;

fn tar_of(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in members {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_uid(rustix::process::geteuid().as_raw().into());
        header.set_gid(rustix::process::getegid().as_raw().into());
        tar.append_data(&mut header, name, *bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap()
}

fn config_of(layers: &[Vec<u8>]) -> Vec<u8> {
    let ids: Vec<String> = layers
        .iter()
        .map(|l| format!("\"{}\"", digest(l)))
        .collect();
    format!(
        r#"{{"config":{{"Env":["A=b"],"Cmd":["/bin/sh"]}},"rootfs":{{"diff_ids":[{}]}}}}"#,
        ids.join(",")
    )
    .into_bytes()
}

/// Blobs by digest, with an index: as `skopeo copy ... oci-archive:` writes it. `spoil` changes the
/// blobs after their digests were taken.
fn oci(layers: &[Vec<u8>], spoil: impl FnOnce(&mut Vec<(String, Vec<u8>)>)) -> Vec<u8> {
    let packed = [gzip(&layers[0]), layers[1].clone()];
    let descriptor = |b: &[u8]| format!(r#"{{"digest":"{}","size":{}}}"#, digest(b), b.len());
    let config = config_of(layers);
    let manifest = format!(
        r#"{{"schemaVersion":2,"config":{},"layers":[{},{}]}}"#,
        descriptor(&config),
        descriptor(&packed[0]),
        descriptor(&packed[1])
    )
    .into_bytes();
    let index = format!(r#"{{"manifests":[{}]}}"#, descriptor(&manifest)).into_bytes();
    let name = |b: &[u8]| format!("blobs/sha256/{}", &digest(b)[7..]);
    let mut blobs: Vec<(String, Vec<u8>)> = vec![("index.json".to_owned(), index)];
    for blob in [manifest, config, packed[0].clone(), packed[1].clone()] {
        blobs.push((name(&blob), blob));
    }
    spoil(&mut blobs);
    let members: Vec<(&str, &[u8])> = blobs.iter().map(|(n, b)| (&**n, &**b)).collect();
    tar_of(&members)
}

fn layers() -> Vec<Vec<u8>> {
    vec![
        tar_of(&[("etc/a", b"lower"), ("etc/b", b"lower")]),
        tar_of(&[("etc/.wh.a", b""), ("etc/c", b"upper")]),
    ]
}

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("latlab-cache-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn archive(&self, bytes: &[u8]) -> PathBuf {
        let path = self.0.join("image.tar");
        fs::write(&path, bytes).unwrap();
        path
    }

    fn cache(&self) -> Cache {
        Cache::new(self.0.join("cache"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn check_contents(root: &Path, config: &ImageConfig) {
    assert!(!root.join("etc/a").exists(), "the upper layer removed it");
    assert_eq!(fs::read(root.join("etc/b")).unwrap(), b"lower");
    assert_eq!(fs::read(root.join("etc/c")).unwrap(), b"upper");
    assert_eq!(config.env, ["A=b"]);
    assert_eq!(config.cmd, ["/bin/sh"]);
}

#[test]
fn an_oci_archive_is_unpacked_once() {
    let scratch = Scratch::new("oci");
    let file = scratch.archive(&oci(&layers(), |_| {}));
    let (root, config) = scratch.cache().unpack(&file).unwrap();
    check_contents(&root, &config);
    fs::write(root.join("mark"), "").unwrap();
    let (again, _) = scratch.cache().unpack(&file).unwrap();
    assert_eq!(again, root);
    assert!(
        root.join("mark").exists(),
        "the second time nothing is unpacked"
    );
}

#[test]
fn leftovers_of_a_killed_process_are_replaced() {
    let scratch = Scratch::new("left");
    let file = scratch.archive(&oci(&layers(), |_| {}));
    let (root, _) = scratch.cache().unpack(&file).unwrap();
    let ready = root.parent().unwrap();
    let name = ready.file_name().unwrap().to_str().unwrap();
    let half = ready.with_file_name(format!(".unpack-{name}"));
    fs::rename(ready, &half).unwrap();
    fs::write(half.join("rootfs/etc/rest"), "").unwrap();
    let others = ready.with_file_name(".unpack-of-another-image");
    fs::create_dir_all(others.join("rootfs")).unwrap();
    let (root, config) = scratch.cache().unpack(&file).unwrap();
    check_contents(&root, &config);
    assert!(!root.join("etc/rest").exists() && !half.exists());
    assert!(!others.exists(), "nobody else would remove it");
}

#[test]
fn several_at_once_agree() {
    let scratch = Scratch::new("race");
    let file = scratch.archive(&oci(&layers(), |_| {}));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let (root, config) = scratch.cache().unpack(&file).unwrap();
                check_contents(&root, &config);
            });
        }
    });
}

#[test]
fn a_docker_archive_is_understood() {
    let scratch = Scratch::new("docker");
    let layers = layers();
    let config = config_of(&layers);
    let manifest = br#"[{"Config":"c.json","RepoTags":["x:y"],"Layers":["1/l.tar","2/l.tar"]}]"#;
    let file = scratch.archive(&tar_of(&[
        ("manifest.json", manifest),
        ("c.json", &config),
        ("1/l.tar", &layers[0]),
        ("2/l.tar", &layers[1]),
    ]));
    let (root, config) = scratch.cache().unpack(&file).unwrap();
    check_contents(&root, &config);
}

#[test]
fn every_spoiled_blob_is_noticed_and_leaves_nothing() {
    let whole = oci(&layers(), |_| {});
    let blobs = 5;
    for index in 0..blobs {
        let scratch = Scratch::new("spoiled");
        let file = scratch.archive(&oci(&layers(), |blobs| {
            let bytes = &mut blobs[index].1;
            // The last bytes of a tar are padding that no reader of members looks at.
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
        }));
        assert_ne!(fs::read(&file).unwrap(), whole);
        let error = scratch.cache().unpack(&file).unwrap_err();
        assert!(matches!(error, Error::Archive { .. }), "{error}");
        let left = fs::read_dir(scratch.0.join("cache")).map_or(0, Iterator::count);
        assert_eq!(left, 0, "blob {index}: {error}");
    }
}

#[test]
fn a_layer_that_reads_otherwise_the_second_time_is_refused() {
    let scratch = Scratch::new("second");
    let root = open_directory(&scratch.0).unwrap();
    let layers = layers();
    let (layer, other) = (&layers[0][..], &layers[1][..]);
    let extract = |second: &[u8]| {
        let mut budget = Budget::of_bytes(1 << 20);
        extract_verified(&root, second, &digest(layer), &mut budget)
    };
    extract(layer).unwrap();
    for second in [&[][..], other, &layer[..layer.len() - 512]] {
        let refused = extract(second).unwrap_err();
        assert!(refused.ends_with("changed while it was read"), "{refused}");
    }
}

#[test]
fn a_file_that_is_no_image_is_refused() {
    let scratch = Scratch::new("none");
    let file = scratch.archive(&tar_of(&[("hello", b"x")]));
    let error = scratch.cache().unpack(&file).unwrap_err().to_string();
    assert!(error.contains("neither `index.json`"), "{error}");
    let file = scratch.archive(b"hello");
    assert!(scratch.cache().unpack(&file).is_err());
}

/// Not a replacement for fuzzing, but it runs with every test: flipped bytes, cut ends.
#[test]
fn damaged_bytes_are_errors_and_not_panics() {
    let layers = layers();
    let archive = oci(&layers, |_| {});
    let zstd =
        ruzstd::encoding::compress_to_vec(&*layers[0], ruzstd::encoding::CompressionLevel::Fastest);
    let mut random: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut next = |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for _ in 0..3000 {
        for (whole, parse) in [
            (&archive, super::super::fuzz::archive as fn(&[u8])),
            (&layers[1], super::super::fuzz::layer),
            (&gzip(&layers[0]), super::super::fuzz::layer),
            (&zstd, super::super::fuzz::layer),
        ] {
            let mut bytes = whole.clone();
            for _ in 0..=next(4) {
                let at = next(bytes.len());
                bytes[at] = next(256) as u8;
            }
            bytes.truncate(bytes.len() - next(bytes.len() / 4));
            parse(&bytes);
        }
    }
}
