//! Arguments of `latlab cache`.

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::format::Format;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  latlab cache
  latlab cache clean                    (what was not used for 30 days)
  latlab cache clean --older-than 12h
  latlab cache clean --all --dry-run

The cache has images, file systems for VMs, kernels, initramfs, templates of clones and borrowed programs. All of it \
is made or fetched again when it is needed. What a deployed lab uses is never removed.")]
pub struct Cache {
    #[command(subcommand)]
    pub action: Option<CacheAction>,
    /// Output format.
    #[arg(long, value_enum, default_value_t, global = true)]
    pub format: Format,
}

#[derive(Debug, Subcommand)]
pub enum CacheAction {
    /// Remove what no deployed lab uses, and tell how much was freed.
    Clean(CacheClean),
}

#[derive(Debug, Args)]
pub struct CacheClean {
    /// Only what was not used for so long: a number with d, h or min.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = age, conflicts_with = "all")]
    pub older_than: Duration,
    /// All that no deployed lab uses.
    #[arg(long)]
    pub all: bool,
    /// Only show what would be removed.
    #[arg(long)]
    pub dry_run: bool,
}

fn age(text: &str) -> Result<Duration, String> {
    let units = [("d", 86_400), ("h", 3600), ("min", 60)];
    let read = units.iter().find_map(|(unit, seconds)| {
        let number: u32 = text.strip_suffix(unit)?.trim().parse().ok()?;
        Some(Duration::from_secs(u64::from(number) * seconds))
    });
    read.ok_or_else(|| "for example `30d`, `12h` or `90min`".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit() {
        assert_eq!(age("30d"), Ok(Duration::from_secs(30 * 86_400)));
        assert_eq!(age("0d"), Ok(Duration::ZERO));
        assert_eq!(age("90min"), Ok(Duration::from_secs(5400)));
        for text in ["30", "d", "-1d", "1.5h", "99999999999d"] {
            assert!(age(text).is_err(), "{text}");
        }
    }
}
