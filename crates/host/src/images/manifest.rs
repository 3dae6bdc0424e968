//! The documents of an image: from an archive to the list of its layers.
//!
//! Two layouts are understood: the OCI image layout (`index.json`, blobs by digest) and the older
//! one of `docker save` (`manifest.json`). Recent Docker writes both into one archive; the first is
//! preferred, because there every byte is named by its digest.
//! Source: OCI Image Format Specification 1.1.

use std::io::{Read, Seek};

use serde::Deserialize;

use super::archive::Archive;
use super::codec;
use super::config::ImageConfig;

const MAX_DEPTH: usize = 4;

/// More layers than any tool writes.
const MAX_LAYERS: usize = 512;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    /// Names the image: digest of its manifest, or of its configuration where that is all there is.
    pub digest: String,
    pub config: ImageConfig,
    /// Lowest first.
    pub layers: Vec<LayerRef>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerRef {
    pub member: String,
    /// Digest of the member's bytes, where the layout gives it.
    pub digest: Option<String>,
    /// Digest of the decompressed bytes.
    pub diff_id: String,
}

#[derive(Deserialize)]
struct Index {
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    #[serde(default)]
    layers: Vec<Descriptor>,
}

#[derive(Deserialize, Clone)]
struct Descriptor {
    #[serde(rename = "mediaType", default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    platform: Option<Platform>,
}

#[derive(Deserialize, Clone)]
struct Platform {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
}

#[derive(Deserialize)]
struct ConfigDocument {
    #[serde(default)]
    architecture: String,
    #[serde(default)]
    os: String,
    #[serde(default)]
    config: Option<ImageConfig>,
    rootfs: Rootfs,
}

#[derive(Deserialize)]
struct Rootfs {
    diff_ids: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerItem {
    config: String,
    layers: Vec<String>,
}

/// Finds the image of this machine's architecture in `archive`.
pub(super) fn find<R: Read + Seek>(archive: &mut Archive<R>) -> Result<Found, String> {
    if archive.contains("index.json") {
        find_oci(archive)
    } else if archive.contains("manifest.json") {
        find_docker(archive)
    } else {
        Err(
            "not an image: it holds neither `index.json` (OCI) nor `manifest.json` (docker save)"
                .to_owned(),
        )
    }
}

fn find_oci<R: Read + Seek>(archive: &mut Archive<R>) -> Result<Found, String> {
    let mut index: Index = parse("index.json", &archive.document("index.json")?)?;
    for _ in 0..MAX_DEPTH {
        let chosen = choose(&index.manifests)?;
        let bytes = blob(archive, &chosen.digest)?;
        if chosen.media_type.contains("index") || chosen.media_type.contains("manifest.list") {
            index = parse(&chosen.digest, &bytes)?;
            continue;
        }
        let manifest: Manifest = parse(&chosen.digest, &bytes)?;
        let config = blob(archive, &manifest.config.digest)?;
        let config = read_config(&manifest.config.digest, &config, manifest.layers.len())?;
        let layers = manifest.layers.iter().zip(config.rootfs.diff_ids);
        let layers = layers.map(|(layer, diff_id)| {
            let member = blob_member(&layer.digest)?;
            Ok(LayerRef {
                member,
                digest: Some(layer.digest.clone()),
                diff_id,
            })
        });
        return Ok(Found {
            digest: chosen.digest,
            config: config.config.unwrap_or_default(),
            layers: layers.collect::<Result<_, String>>()?,
        });
    }
    Err(format!("indexes are nested deeper than {MAX_DEPTH}"))
}

fn find_docker<R: Read + Seek>(archive: &mut Archive<R>) -> Result<Found, String> {
    let bytes = archive.document("manifest.json")?;
    let items: Vec<DockerItem> = parse("manifest.json", &bytes)?;
    let [item] = items.as_slice() else {
        return Err(not_one(items.len()));
    };
    let bytes = archive.document(&item.config)?;
    let config = read_config(&item.config, &bytes, item.layers.len())?;
    let layers = item.layers.iter().zip(config.rootfs.diff_ids);
    let layers = layers.map(|(member, diff_id)| LayerRef {
        member: member.clone(),
        digest: None,
        diff_id,
    });
    Ok(Found {
        digest: codec::digest(&bytes),
        layers: layers.collect(),
        config: config.config.unwrap_or_default(),
    })
}

/// Why an archive of several images is refused.
fn not_one(images: usize) -> String {
    format!("it holds {images} images; save exactly one")
}

/// The entry for this machine; a single entry needs no platform.
fn choose(manifests: &[Descriptor]) -> Result<Descriptor, String> {
    let ours = |d: &&Descriptor| {
        d.platform
            .as_ref()
            .is_some_and(|p| p.os == "linux" && p.architecture == architecture())
    };
    match manifests {
        [] => Err("its index lists no image".to_owned()),
        [only] => Ok(only.clone()),
        several if several.iter().all(|d| d.platform.is_none()) => Err(not_one(several.len())),
        several => several.iter().find(ours).cloned().ok_or_else(|| {
            format!(
                "none of its {} images is for linux/{}",
                several.len(),
                architecture()
            )
        }),
    }
}

/// Go's name for this machine's architecture.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn read_config(name: &str, bytes: &[u8], layers: usize) -> Result<ConfigDocument, String> {
    let config: ConfigDocument = parse(name, bytes)?;
    let (os, arch) = (config.os.as_str(), config.architecture.as_str());
    if !matches!(os, "" | "linux") || !(arch.is_empty() || arch == architecture()) {
        return Err(format!(
            "the image is for {os}/{arch}, not for linux/{}",
            architecture()
        ));
    }
    let known = config.rootfs.diff_ids.len();
    if known != layers {
        return Err(format!(
            "the manifest lists {layers} layers, the configuration {known}"
        ));
    }
    if layers > MAX_LAYERS {
        return Err(format!("it has more than {MAX_LAYERS} layers"));
    }
    for diff_id in &config.rootfs.diff_ids {
        hex(diff_id)?;
    }
    Ok(config)
}

fn blob<R: Read + Seek>(archive: &mut Archive<R>, digest: &str) -> Result<Vec<u8>, String> {
    let bytes = archive.document(&blob_member(digest)?)?;
    let actual = codec::digest(&bytes);
    if actual == digest {
        Ok(bytes)
    } else {
        Err(format!("blob {digest} has digest {actual}"))
    }
}

fn blob_member(digest: &str) -> Result<String, String> {
    Ok(format!("blobs/sha256/{}", hex(digest)?))
}

/// The 64 digits of a SHA-256 digest; they become file names, so nothing else passes.
pub(super) fn hex(digest: &str) -> Result<&str, String> {
    digest
        .strip_prefix("sha256:")
        .filter(|h| h.len() == 64 && h.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')))
        .ok_or_else(|| format!("`{digest}` is not a SHA-256 digest"))
}

fn parse<'a, T: Deserialize<'a>>(name: &str, bytes: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(bytes).map_err(|e| format!("`{name}`: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(arch: &str) -> Descriptor {
        Descriptor {
            media_type: String::new(),
            digest: format!("sha256:{arch}"),
            platform: Some(Platform {
                architecture: arch.to_owned(),
                os: "linux".to_owned(),
            }),
        }
    }

    #[test]
    fn the_machines_own_architecture_is_chosen() {
        let several = [descriptor("s390x"), descriptor(architecture())];
        assert_eq!(
            choose(&several).unwrap().digest,
            format!("sha256:{}", architecture())
        );
        let refused = |manifests: &[Descriptor]| choose(manifests).err().unwrap();
        let others = [descriptor("s390x"), descriptor("mips")];
        let reason = format!("none of its 2 images is for linux/{}", architecture());
        assert_eq!(refused(&others), reason);
        let unnamed = others.map(|other| Descriptor {
            platform: None,
            ..other
        });
        assert_eq!(refused(&unnamed), "it holds 2 images; save exactly one");
        assert!(choose(&[]).is_err());
        assert!(
            choose(&[descriptor("s390x")]).is_ok(),
            "the configuration decides then"
        );
        let foreign = br#"{"architecture":"s390x","os":"linux","rootfs":{"diff_ids":[]}}"#;
        let error = read_config("c", foreign, 0).err().unwrap();
        assert!(error.starts_with("the image is for linux/s390x"), "{error}");
    }

    #[test]
    fn null_lists_are_empty() {
        let config: ImageConfig =
            serde_json::from_str(r#"{"Env":null,"Cmd":["sh"],"WorkingDir":"/w"}"#).unwrap();
        assert_eq!(config.cmd, ["sh"]);
        assert_eq!(config.working_dir, "/w");
        assert!(config.env.is_empty());
    }

    #[test]
    fn only_digests_become_file_names() {
        let good = format!("sha256:{}", "0a".repeat(32));
        assert!(hex(&good).is_ok());
        for bad in [
            "",
            "sha256:",
            "sha256:../../etc",
            &good[..70],
            &good.to_uppercase(),
        ] {
            assert!(hex(bad).is_err(), "{bad}");
        }
    }
}
