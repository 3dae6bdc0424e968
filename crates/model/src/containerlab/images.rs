//! Images. containerlab names those of a registry, latlab an archive, which skopeo makes of one.

const SUFFIX: &str = ".tar";

/// The archive beside a lab that holds the image.
pub(super) fn archive(reference: &str) -> String {
    dashed(reference) + SUFFIX
}

/// The name under which an archive's image can be loaded. None for what is no archive.
pub(super) fn reference(image: &str) -> Option<String> {
    let file = image.rsplit('/').next().unwrap_or(image);
    let name = dashed(file.strip_suffix(SUFFIX)?).to_ascii_lowercase();
    let name = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    (!name.is_empty()).then(|| name.to_string())
}

fn dashed(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let dashed: String = text
        .chars()
        .map(|c| if plain(c) { c } else { '-' })
        .collect();
    // A name that begins with a dot is hidden, and one with a dash an option.
    dashed.trim_start_matches(['.', '-']).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_of_a_registry_has_an_archive_of_its_name() {
        assert_eq!(archive("alpine:3"), "alpine-3.tar");
        assert_eq!(
            archive("quay.io/frrouting/frr:10.5.1"),
            "quay.io-frrouting-frr-10.5.1.tar"
        );
        assert_eq!(archive("../../etc/x"), "etc-x.tar");
        assert_eq!(reference("images/alpine-3.tar"), Some("alpine-3".into()));
        assert_eq!(archive(&reference("alpine-3.tar").unwrap()), "alpine-3.tar");
        for none in ["host", "empty", "rootfs", ".tar", "x/"] {
            assert_eq!(reference(none), None, "{none}");
        }
    }
}
