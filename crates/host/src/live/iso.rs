//! A live system on a medium: a file for a CD, a USB stick, or the virtual drive of a controller.
//!
//! GRUB starts it, from the distribution's packages: one boot loader for BIOS and UEFI, and one menu. The file is an ISO 9660
//! image with two boot entries and a partition table, so that firmware also starts it from a stick. The same live system makes
//! the same bytes: all times are fixed, and the identifiers of the medium come from its content.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::directory::{INITRD, KERNEL, Live};
use super::error::Error;
use crate::hex;
use crate::programs;
use crate::sys::command;
use crate::sys::file::{directory_of, is_replaceable, sync_directory};
use crate::sys::tree;

/// Where the packages of GRUB have their modules.
const GRUB: &str = "/usr/lib/grub";
const BIOS: &str = "i386-pc";
const UEFI: &str = "x86_64-efi";
/// Starts GRUB from a stick; of the same package as the modules for BIOS.
const STICK: &str = "boot_hybrid.img";
/// Programs and files that are needed, each with its package.
const NEEDED: [(&str, &str); 6] = [
    ("xorriso", "xorriso"),
    ("mformat", "mtools"),
    ("mcopy", "mtools"),
    ("grub-mkimage", "grub-common"),
    ("/usr/lib/grub/i386-pc/boot_hybrid.img", "grub-pc-bin"),
    ("/usr/lib/grub/x86_64-efi/linux.mod", "grub-efi-amd64-bin"),
];
/// Parts of GRUB that its menu and the file system of the medium need.
const MODULES: [&str; 13] = [
    "iso9660",
    "part_gpt",
    "part_msdos",
    "fat",
    "search",
    "search_fs_file",
    "normal",
    "test",
    "configfile",
    "linux",
    "echo",
    "serial",
    "terminal",
];
/// Time for a medium of a few gigabytes on a slow disk.
const TIMEOUT: Duration = Duration::from_secs(1800);
/// The time of all files, as in images (`SOURCE_DATE_EPOCH`).
const EPOCH: &str = "1577836800";
const FILE_DATES: [&str; 2] = ["--set_all_file_dates", "=1577836800"];

/// A medium under way: a directory beside the file, gone with this value.
struct Work {
    directory: PathBuf,
}

impl Drop for Work {
    fn drop(&mut self) {
        // The next one of this name removes what is left.
        let _ = tree::remove(&self.directory);
    }
}

impl Work {
    fn beside(file: &Path) -> Result<Work, Error> {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let directory = file.with_file_name(format!(".{name}.new"));
        tree::remove(&directory).map_err(Error::io("remove", &directory))?;
        fs::create_dir(&directory).map_err(Error::io("make", &directory))?;
        Ok(Work { directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.path(name);
        fs::write(&path, text).map_err(Error::io("write", &path))
    }
}

/// Fails where a medium cannot be made, before the work for it begins.
pub fn check(file: &Path) -> Result<(), Error> {
    if !is_replaceable(file).map_err(Error::io("write", file))? {
        return Err(Error::NoFile(file.to_owned()));
    }
    for (needed, package) in NEEDED {
        let is_there = match needed.starts_with('/') {
            true => Path::new(needed).is_file(),
            false => programs::find(needed).is_some(),
        };
        if !is_there {
            return Err(Error::NoTool { needed, package });
        }
    }
    let directory = directory_of(file);
    fs::read_dir(directory).map_err(Error::io("write into", directory))?;
    Ok(())
}

/// Makes a medium with the live system that `with` makes in a directory; the file is replaced at the end.
pub fn make(
    file: &Path,
    progress: &dyn Fn(&str),
    with: impl FnOnce(&Path) -> Result<Live, Error>,
) -> Result<Live, Error> {
    check(file)?;
    let work = Work::beside(file)?;
    let live = with(&work.path("live"))?;
    progress("writing the medium");
    let new = work.path("medium.iso");
    write(&work, &live, &new)?;
    let done = File::open(&new)
        .and_then(|new| new.sync_all())
        .and_then(|()| fs::rename(&new, file))
        .and_then(|()| sync_directory(directory_of(file)));
    done.map_err(Error::io("write", file))?;
    Ok(live)
}

fn write(work: &Work, live: &Live, new: &Path) -> Result<(), Error> {
    let (kernel, initrd) = (live.file(KERNEL), live.file(INITRD));
    let menu = menu(live);
    let id = identifier(&[&kernel, &initrd], &menu)?;
    work.write("grub.cfg", &menu)?;
    // The menu of this very medium, and not of another one in the machine.
    let mark = format!("/boot/{}", &id[..16]);
    work.write("mark", "")?;
    let early =
        format!("search --no-floppy --set=root --file {mark}\nset prefix=($root)/boot/grub\n");
    work.write("early.cfg", &early)?;
    loader(work, "bios.img", "i386-pc-eltorito", BIOS, &["biosdisk"])?;
    loader(work, "bootx64.efi", UEFI, UEFI, &["efi_gop", "efi_uga"])?;
    partition(work, &id)?;
    let graft = |name: &str, path: &Path| format!("{name}={}", path.display());
    let mut xorriso = tool("xorriso");
    xorriso
        .args([
            "-as",
            "mkisofs",
            "-quiet",
            "-graft-points",
            "-r",
            "-iso-level",
            "3",
        ])
        .args(["-V", "LATLAB", "-partition_offset", "16"])
        .args(FILE_DATES)
        .args(["-c", "boot/grub/boot.cat", "-b", "boot/grub/bios.img"])
        .args(["-no-emul-boot", "-boot-load-size", "4", "-boot-info-table"])
        .args(["--grub2-boot-info", "--grub2-mbr"])
        .arg(Path::new(GRUB).join(BIOS).join(STICK))
        .args(["--efi-boot", "boot/grub/efi.img"])
        .args([
            "-efi-boot-part",
            "--efi-boot-image",
            "--protective-msdos-label",
        ])
        .arg("-o")
        .arg(new)
        .arg(graft("/boot/vmlinuz", &kernel))
        .arg(graft("/boot/initrd.img", &initrd))
        .arg(graft(&mark, &work.path("mark")))
        .args(
            ["grub.cfg", "bios.img", "efi.img"]
                .map(|name| graft(&format!("/boot/grub/{name}"), &work.path(name))),
        );
    run("xorriso", xorriso)
}

/// The menu: one entry, which starts at once. A terminal on the serial port shows it, where the console is there.
fn menu(live: &Live) -> String {
    let serial = live.console().strip_prefix("ttyS").map(|port| {
        let (unit, speed) = port.split_once(',').unwrap_or((port, "9600"));
        let speed: String = speed.chars().take_while(char::is_ascii_digit).collect();
        format!(
            "if serial --unit={unit} --speed={speed}; then\n  terminal_output console serial\nfi\n"
        )
    });
    format!(
        "set timeout=0\n{}menuentry \"Live system, Linux {}\" {{\n  linux /boot/{KERNEL} {}\n  \
         initrd /boot/{INITRD}\n}}\n",
        serial.unwrap_or_default(),
        live.kernel(),
        live.line_of_medium()
    )
}

/// SHA-256 of all that starts from the medium.
fn identifier(files: &[&Path], menu: &str) -> Result<String, Error> {
    let mut digest = Sha256::new();
    digest.update(menu);
    for path in files {
        let mut hash = || -> io::Result<u64> { io::copy(&mut File::open(path)?, &mut digest) };
        hash().map_err(Error::io("read", path))?;
    }
    Ok(hex::digits(&digest.finalize()))
}

/// GRUB in one file, which finds the medium by its mark.
fn loader(
    work: &Work,
    name: &str,
    format: &str,
    modules: &str,
    more: &[&str],
) -> Result<(), Error> {
    let mut mkimage = tool("grub-mkimage");
    mkimage
        .args(["-O", format, "-p", "/boot/grub", "-d"])
        .arg(Path::new(GRUB).join(modules))
        .arg("-c")
        .arg(work.path("early.cfg"))
        .arg("-o")
        .arg(work.path(name))
        .args(MODULES)
        .args(more);
    run("grub-mkimage", mkimage)
}

/// The partition that UEFI starts from.
fn partition(work: &Work, id: &str) -> Result<(), Error> {
    let image = work.path("efi.img");
    let mut format = tool("mformat");
    // The largest size of a floppy disk, which every firmware reads.
    format.args(["-C", "-f", "2880", "-N", &id[..8], "-i"]);
    format.arg(&image).arg("::");
    run("mformat", format)?;
    let mut directories = tool("mmd");
    directories
        .arg("-i")
        .arg(&image)
        .args(["::/EFI", "::/EFI/BOOT"]);
    run("mmd", directories)?;
    let mut copy = tool("mcopy");
    copy.arg("-i")
        .arg(&image)
        .arg(work.path("bootx64.efi"))
        .arg("::/EFI/BOOT/BOOTX64.EFI");
    run("mcopy", copy)
}

fn tool(name: &str) -> Command {
    let mut command = Command::new(programs::find(name).unwrap_or_else(|| name.into()));
    command
        .env("SOURCE_DATE_EPOCH", EPOCH)
        .env("TZ", "UTC")
        .env("MTOOLSRC", "/dev/null");
    command
}

fn run(name: &'static str, command: Command) -> Result<(), Error> {
    let failed = |reason: String| Error::Tool { name, reason };
    let ran = command::ran(command, "", TIMEOUT);
    let (status, said) = ran.map_err(|error| failed(error.to_string()))?;
    match status.success() {
        true => Ok(()),
        false => Err(failed(reason(&said).unwrap_or_else(|| status.to_string()))),
    }
}

/// The line of a tool that says why: xorriso marks it, others say little else.
fn reason(said: &str) -> Option<String> {
    let marks = [" : FATAL : ", " : FAILURE : ", " : SORRY : "];
    let marked = |line: &&str| marks.iter().any(|mark| line.contains(mark));
    let mut lines = said.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.clone().find(marked).or_else(|| lines.next_back())?;
    let text = marks.iter().find_map(|mark| Some(line.split_once(mark)?.1));
    Some(text.unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_menu_has_the_line_without_what_is_for_ipxe() {
        let dir = std::env::temp_dir().join(format!("latlab-menu-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let live = Live::write(&dir, "6.1", "ttyS1,115200n8", &["nosmt".into()]).unwrap();
        let menu = menu(&live);
        for part in [
            "--unit=1 --speed=115200;",
            "  linux /boot/vmlinuz console=tty0 console=ttyS1,115200n8 quiet latlab.live nosmt\n",
        ] {
            assert!(menu.contains(part), "{menu}");
        }
        let live = Live::write(&dir, "6.1", "tty1", &[]).unwrap();
        assert!(!super::menu(&live).contains("serial"));
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn the_reason_is_the_tools_own() {
        let said = "xorriso 1.5.4 : RockRidge filesystem manipulator\n\
                    libburn : FAILURE : Write error on stdio:/x : No space left on device\n\
                    xorriso : NOTE : Tolerated\n";
        assert_eq!(
            reason(said).unwrap(),
            "Write error on stdio:/x : No space left on device"
        );
        assert_eq!(reason("Disk full\n\n").unwrap(), "Disk full");
        assert_eq!(reason(""), None);
    }
}
