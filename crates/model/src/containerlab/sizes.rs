//! Sizes of memory, in the units of both.

use crate::spec::reader::FromYaml;
use crate::units::Bytes;

/// A size with containerlab's units, whose letters may be small or capital.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Size(pub Bytes);

impl FromYaml for Size {
    const EXPECTED: &'static str = "a size";
    const EXAMPLE: &'static str = "`512MiB` or `1Gb`";
    fn from_text(text: &str) -> Option<Size> {
        let text = text.trim();
        let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | ','));
        let number = text[..text.len() - unit.len()].replace(',', "");
        let unit = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "b" => "B",
            "k" | "kb" => "kB",
            "ki" | "kib" => "KiB",
            "m" | "mb" => "MB",
            "mi" | "mib" => "MiB",
            "g" | "gb" => "GB",
            "gi" | "gib" => "GiB",
            "t" | "tb" => "TB",
            "ti" | "tib" => "TiB",
            _ => return None,
        };
        Bytes::parse(&format!("{number}{unit}")).map(Size)
    }
}

/// The size in a unit that loses nothing.
pub(super) fn exact(size: Bytes) -> String {
    let units = [
        ("GiB", 1 << 30),
        ("GB", 1_000_000_000),
        ("MiB", 1 << 20),
        ("MB", 1_000_000),
        ("KiB", 1 << 10),
    ];
    let unit = units
        .iter()
        .find(|(_, factor)| size.0 > 0 && size.0 % factor == 0);
    unit.map_or_else(
        || size.0.to_string(),
        |(name, factor)| format!("{}{name}", size.0 / factor),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_written_without_loss() {
        for (bytes, text) in [
            (512 << 20, "512MiB"),
            (1_000_000_000, "1GB"),
            (1 << 30, "1GiB"),
            (1025, "1025"),
            (0, "0"),
        ] {
            assert_eq!(exact(Bytes(bytes)), text);
            assert_eq!(Bytes::parse(text), Some(Bytes(bytes)));
        }
    }

    #[test]
    fn sizes_have_the_units_of_docker() {
        for (text, bytes) in [
            ("1Gb", 1_000_000_000),
            ("1g", 1_000_000_000),
            ("512mib", 512 << 20),
            ("1024", 1024),
        ] {
            assert_eq!(Size::from_text(text), Some(Size(Bytes(bytes))), "{text}");
        }
        for bad in ["", "Gb", "1 parsec", "-1g"] {
            assert_eq!(Size::from_text(bad), None, "{bad}");
        }
    }
}
