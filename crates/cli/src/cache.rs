//! `latlab cache`: what is kept to work faster the next time, and its removal.

use std::process::ExitCode;

use latlab_host::cache::{self, Choice, Entry};
use latlab_host::dirs::Dirs;
use latlab_host::lab;
use serde_json::{Value, json};

use crate::args::{Cache, CacheAction, CacheClean};
use crate::failure::{Failure, Outcome, explain, need_root};
use crate::format::Format;
use crate::{print, table};

const HEADER: [&str; 5] = ["KIND", "NAME", "SIZE", "LAST USED", "USED BY"];
/// Digits of a digest that tell entries apart.
const DIGITS: usize = 12;

pub fn run(args: &Cache) -> Outcome {
    need_root("cache", "images are root's alone to read")?;
    let dirs = Dirs::from_env();
    match &args.action {
        None => {
            let uses = lab::uses_of_cache(&dirs).map_err(explain)?;
            let entries = cache::list(dirs.cache(), &uses).map_err(explain)?;
            if entries.is_empty() && args.format == Format::Table {
                return print::document(&format!(
                    "the cache is empty: {}\n",
                    dirs.cache().display()
                ));
            }
            print(&entries, args.format)?;
            if args.format == Format::Table {
                eprintln!("{} in {}", total(&entries), dirs.cache().display());
            }
        }
        Some(CacheAction::Clean(clean)) => remove(&dirs, clean, args.format)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(dirs: &Dirs, args: &CacheClean, format: Format) -> Result<(), Failure> {
    let choice = Choice {
        older_than: (!args.all).then_some(args.older_than),
        dry_run: args.dry_run,
    };
    let cleaned = cache::clean(dirs.cache(), choice, || lab::uses_of_cache(dirs));
    let cleaned = cleaned.map_err(explain)?;
    if format != Format::Table || args.dry_run && !cleaned.removed.is_empty() {
        print(&cleaned.removed, format)?;
    }
    for entry in &cleaned.in_use {
        let (name, labs) = (short(&entry.name), entry.labs.join(", "));
        eprintln!("note: {} {name} stays: {labs} uses it", entry.kind);
    }
    let what = if args.dry_run { "would free" } else { "freed" };
    eprintln!("{what} {}", total(&cleaned.removed));
    Ok(())
}

fn total(entries: &[Entry]) -> String {
    let bytes = entries.iter().map(|entry| entry.bytes).sum();
    match entries.len() {
        1 => format!("{}, 1 entry", size(bytes)),
        count => format!("{}, {count} entries", size(bytes)),
    }
}

fn print(entries: &[Entry], format: Format) -> Result<(), Failure> {
    let cells = |entry: &Entry| {
        vec![
            entry.kind.to_string(),
            short(&entry.name),
            size(entry.bytes),
            minute(&entry.used_at()),
            match entry.labs.is_empty() {
                true => "-".into(),
                false => entry.labs.join(", "),
            },
        ]
    };
    let rows: Vec<Vec<String>> = entries.iter().map(cells).collect();
    let text = match format {
        Format::Json => {
            let all: Vec<Value> = entries.iter().map(document).collect();
            serde_json::to_string_pretty(&all)? + "\n"
        }
        Format::Csv => table::csv(&HEADER, &rows),
        Format::Table => table::render(&HEADER, &rows),
    };
    print::out(&text)
}

fn document(entry: &Entry) -> Value {
    json!({
        "kind": entry.kind,
        "name": entry.name,
        "path": entry.path,
        "bytes": entry.bytes,
        "used": entry.used_at(),
        "labs": entry.labs,
    })
}

/// A name whose digest is long enough to tell it from others.
fn short(name: &str) -> String {
    let is_digest = |part: &str| part.len() >= 32 && part.bytes().all(|b| b.is_ascii_hexdigit());
    let parts = name.split_inclusive(['-', '.', ' ']);
    let shorten = |part: &str| {
        let bare = part.trim_end_matches(['-', '.', ' ']);
        match is_digest(bare) {
            true => format!("{}{}", &bare[..DIGITS], &part[bare.len()..]),
            false => part.to_owned(),
        }
    };
    parts.map(shorten).collect()
}

fn size(bytes: u64) -> String {
    let mib = bytes as f64 / f64::from(1 << 20);
    match mib {
        small if small < 10.0 => format!("{small:.1} MiB"),
        middle if middle < 10_000.0 => format!("{middle:.0} MiB"),
        large => format!("{:.1} GiB", large / 1024.0),
    }
}

/// RFC 3339 up to the minute, for people.
fn minute(time: &str) -> String {
    let minute = time.rsplit_once(':').map_or(time, |(minute, _)| minute);
    minute.replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_long_as_tells_them_apart() {
        let digest = "0123456789abcdef0123456789abcdef";
        assert_eq!(short(digest), "0123456789ab");
        assert_eq!(
            short(&format!("initramfs-{digest}.cpio")),
            "initramfs-0123456789ab.cpio"
        );
        assert_eq!(
            short("linux-image-6.1.0-37-amd64_6.1.140-1"),
            "linux-image-6.1.0-37-amd64_6.1.140-1"
        );
    }

    #[test]
    fn sizes_have_three_digits_or_so() {
        assert_eq!(size(0), "0.0 MiB");
        assert_eq!(size(5_000_000), "4.8 MiB");
        assert_eq!(size(400 << 20), "400 MiB");
        assert_eq!(size(12 << 30), "12.0 GiB");
    }
}
