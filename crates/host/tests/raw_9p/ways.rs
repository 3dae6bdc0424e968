//! Messages that were thought of, by what is wrong with them.

use super::messages::{
    ATTACH, AUTH, CLUNK, CREATE, FIELDS, FLUSH, FSYNC, GETATTR, LCREATE, LINK, LOCK, LOPEN, MKDIR,
    MKNOD, Message, NO_FID, OPEN, READ, READDIR, READLINK, REMOVE, RENAME, RENAMEAT, SETATTR, STAT,
    STATFS, SYMLINK, UNLINKAT, VERSION, WALK, WRITE, WSTAT, XATTRCREATE, XATTRWALK,
};
use super::{
    Client, INNER, LINK_ABSOLUTE, LINK_OUT, LINUX, MADE, MAXIMUM, PUBLIC, ROOT, UNIX, walk,
};

/// Names that lead out, or nowhere.
pub const NAMES: [&[u8]; 20] = [
    b"..",
    b".",
    b"",
    b"/",
    b"//",
    b"../",
    b"../beside",
    b"../beside/file",
    b"../../../../../../etc/passwd",
    b"/etc/passwd",
    b"inner/..",
    b"inner/../../beside/file",
    b"out/file",
    b"public/../../beside/file",
    b"./../beside/file",
    b"\0",
    b"..\0x",
    b"../beside/file\0x",
    b"beside\xff\xfe\x80",
    b"covered/../../beside/file",
];

fn is_bad(name: &[u8]) -> bool {
    let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
    name.contains(&b'/') || [&b""[..], b".", b".."].contains(&name)
}

fn changes(message: &Message) -> bool {
    ![WALK, XATTRWALK, GETATTR, READLINK, STAT].contains(&message.kind)
}

/// Makes what a case needs; only a writable share can have lost it.
fn restore(client: &mut Client) {
    client.begin();
    if !client.order.writable {
        return;
    }
    let dialect = std::mem::replace(&mut client.dialect, LINUX);
    client.begin();
    client.ask(
        "restore",
        &Message::new(MKDIR).w(ROOT).n("inner").w(0o755).w(0),
    );
    client.ask("restore", &walk(ROOT, MADE, &[]));
    let public = Message::new(LCREATE).w(MADE).n("public").w(1).w(0o644);
    client.ask("restore", &public.w(0));
    client.dialect = dialect;
    client.begin();
}

/// Messages of Linux that hold a name each.
fn linux(name: &[u8]) -> Vec<Message> {
    let new = |kind| Message::new(kind);
    let mut all = vec![
        new(WALK).w(ROOT).w(MADE).names(&[name]),
        new(WALK).w(INNER).w(MADE).names(&[name]),
        new(WALK).w(ROOT).w(MADE).names(&[b"inner", name]),
        new(WALK).w(ROOT).w(MADE).names(&[name, b"beside", b"file"]),
        new(WALK).w(LINK_OUT).w(MADE).names(&[name]),
        new(WALK).w(PUBLIC).w(MADE).names(&[name]),
        new(LCREATE).w(MADE).n(name).w(0o1102).w(0o104_777).w(0),
        new(SYMLINK).w(ROOT).n(name).n("/etc/shadow").w(0),
        new(SYMLINK).w(LINK_OUT).n("new").n(name).w(0),
        new(RENAME).w(PUBLIC).w(INNER).n(name),
        new(RENAME).w(INNER).w(ROOT).n(name),
        new(RENAME).w(PUBLIC).w(LINK_OUT).n(name),
        new(LINK).w(INNER).w(PUBLIC).n(name),
        new(LINK).w(LINK_OUT).w(PUBLIC).n(name),
        new(MKDIR).w(INNER).n(name).w(0o6777).w(0),
        new(MKDIR).w(LINK_OUT).n(name).w(0o777).w(0),
        new(RENAMEAT).w(ROOT).n(name).w(INNER).n("stolen"),
        new(RENAMEAT).w(ROOT).n("public").w(INNER).n(name),
        new(RENAMEAT).w(ROOT).n("public").w(LINK_OUT).n(name),
        new(UNLINKAT).w(ROOT).n(name).w(0),
        new(UNLINKAT).w(ROOT).n(name).w(0x200),
        new(UNLINKAT).w(LINK_OUT).n(name).w(u32::MAX),
        new(XATTRWALK).w(PUBLIC).w(MADE).n(name),
        new(XATTRCREATE).w(PUBLIC).n(name).q(u64::MAX).w(0),
    ];
    // A pipe, devices, a socket, a file.
    for mode in [0o010_666, 0o020_666, 0o060_666, 0o140_777, 0o104_777] {
        all.push(new(MKNOD).w(ROOT).n(name).w(mode).w(1).w(5).w(0));
        all.push(new(MKNOD).w(LINK_OUT).n(name).w(mode).w(254).w(0).w(0));
    }
    all
}

/// The same of 9P2000.u. A rename with a slash is a test of its own.
fn unix(name: &[u8]) -> Vec<Message> {
    let new = |kind| Message::new(kind);
    let mut all = vec![
        new(WALK).w(ROOT).w(MADE).names(&[name]),
        new(WALK).w(INNER).w(MADE).names(&[name]),
        new(WALK).w(LINK_OUT).w(MADE).names(&[name]),
    ];
    // A file, a directory, a link, a hard link, devices, a pipe, a socket, and what is none.
    for (mode, more) in [
        (0o4777, ""),
        (0x8000_0000 | 0o777, ""),
        (0x0200_0000 | 0o777, "/etc/shadow"),
        (0x0100_0000 | 0o777, "2"),
        (0x0100_0000 | 0o777, "4294967295"),
        (0x0080_0000 | 0o666, "b 254 0"),
        (0x0080_0000 | 0o666, "c 1 5"),
        (0x0080_0000 | 0o666, "x"),
        (0x0020_0000 | 0o666, ""),
        (0x0010_0000 | 0o666, ""),
        (u32::MAX, "../beside"),
    ] {
        all.push(new(CREATE).w(MADE).n(name).w(mode).b(2).n(more));
        all.push(new(CREATE).w(LINK_OUT).n(name).w(mode).b(2).n(more));
    }
    if !name.contains(&b'/') {
        all.push(new(WSTAT).w(PUBLIC).stat(u32::MAX, u64::MAX, name));
        all.push(new(WSTAT).w(INNER).stat(0o6777, 1 << 40, name));
    }
    all
}

pub fn names(client: &mut Client) {
    let (long, longest) = (vec![b'n'; 256], vec![b'n'; 65_535]);
    let mut names = NAMES.to_vec();
    names.extend([&long[..], &longest[..]]);
    for name in names {
        let all = match client.dialect {
            LINUX => linux(name),
            _ => unix(name),
        };
        restore(client);
        for message in all {
            if client.order.writable && changes(&message) {
                restore(client);
            }
            let shown = &name[..name.len().min(30)];
            let case = format!("{} {}", message.kind, shown.escape_ascii());
            if [LCREATE, CREATE].contains(&message.kind) {
                client.ask(&case, &walk(ROOT, MADE, &[]));
            }
            let read_only = !client.order.writable && changes(&message);
            // Any name is an attribute's or a link's content, and none leaves a file where it is.
            let of_name = match message.kind {
                XATTRCREATE | SYMLINK => false,
                WSTAT => !name.is_empty(),
                _ => true,
            };
            if read_only || (is_bad(name) && changes(&message) && of_name) {
                client.refused(&case, &message);
            } else {
                client.ask(&case, &message);
            }
            client.explore(&case, MADE);
        }
    }
}

/// Paths through a file or a link, and files that are none.
fn odd_files(client: &mut Client) {
    for names in [
        &["public", ".."][..],
        &["public", "..", "beside", "file"],
        &["public", "x"],
        &["out", "file"],
        &["out", "..", "beside", "file"],
        &["absolute", "passwd"],
        &["inner", "..", "..", "beside", "file"],
        &["..", "..", "..", "..", "..", "..", "etc", "passwd"],
        &["beside", "file"],
        &["covered", "file"],
        &[".", ".", "..", ".", "beside", "file"],
    ] {
        restore(client);
        let case = format!("walk {names:?}");
        client.ask(&case, &walk(ROOT, MADE, names));
        client.explore(&case, MADE);
        // In place, so that the fid itself moves.
        client.ask(&case, &walk(INNER, INNER, names));
        client.explore(&case, INNER);
    }
    for name in [
        "out", "absolute", "null", "disk", "pipe", "socket", "covered",
    ] {
        for flags in [
            0,
            1,
            2,
            0o1000,
            0o2000,
            0o100_000,
            0o10_000_000,
            0o20_200_002,
        ] {
            restore(client);
            let case = format!("open {name} {flags:o}");
            client.ask(&case, &walk(ROOT, MADE, &[name]));
            let open = match client.dialect {
                LINUX => Message::new(LOPEN).w(MADE).w(flags),
                _ => Message::new(OPEN).w(MADE).b(flags as u8),
            };
            // A pipe may be opened: it is the share's, and no process is at its other end.
            if ["null", "disk", "socket"].contains(&name) {
                client.refused(&case, &open);
            } else {
                client.ask(&case, &open);
            }
            let read = Message::new(READ).w(MADE).q(0).w(512);
            client.ask(&case, &read);
            client.ask(&case, &Message::new(CLUNK).w(MADE));
        }
    }
}

/// Messages about fids that are not there, are there twice, are of another kind.
fn odd_fids() -> Vec<Message> {
    let new = |kind| Message::new(kind);
    let mut all = vec![
        walk(ROOT, PUBLIC, &["inner"]),
        walk(77, MADE, &["public"]),
        walk(u32::MAX, MADE, &[]),
        walk(ROOT, u32::MAX, &["public"]),
        walk(ROOT, MADE, &["inner"; 17]),
        new(WALK).w(ROOT).w(MADE).h(u16::MAX).n("public"),
        new(ATTACH).w(MADE).w(ROOT).n("root").n("/etc").w(0),
        new(ATTACH)
            .w(MADE)
            .w(u32::MAX)
            .n("root")
            .n("../beside")
            .w(0),
        new(ATTACH).w(ROOT).w(u32::MAX).n("").n("/").w(u32::MAX),
        new(AUTH).w(MADE).n("root").n("/").w(0),
        new(READ).w(PUBLIC).q(0).w(100),
        new(READ).w(PUBLIC).q(u64::MAX).w(u32::MAX),
        new(READ).w(u32::MAX).q(0).w(100),
        new(READDIR).w(PUBLIC).q(0).w(4096),
        new(READDIR).w(ROOT).q(u64::MAX).w(u32::MAX),
        new(WRITE).w(PUBLIC).q(0).w(4).bytes(b"evil"),
        new(WRITE).w(PUBLIC).q(u64::MAX).w(u32::MAX).bytes(b"evil"),
        new(FSYNC).w(ROOT).w(1),
        new(FSYNC).w(u32::MAX).w(0),
        new(READLINK).w(ROOT),
        new(READLINK).w(LINK_OUT),
        new(STATFS).w(LINK_ABSOLUTE),
        new(STATFS).w(u32::MAX),
        new(LOCK)
            .w(PUBLIC)
            .b(9)
            .w(u32::MAX)
            .q(u64::MAX)
            .q(1)
            .w(1)
            .n("x"),
        new(XATTRWALK).w(PUBLIC).w(PUBLIC).n("user.x"),
        new(XATTRWALK).w(LINK_OUT).w(MADE).n(""),
        new(FLUSH).h(1),
        new(FLUSH).h(999),
        new(FLUSH).h(u16::MAX),
    ];
    for mode in [0, 1, 2, 0x10, 0x40, 0x80, 0xff] {
        all.push(new(OPEN).w(PUBLIC).b(mode));
        all.push(new(OPEN).w(LINK_OUT).b(mode));
    }
    for flags in [
        0,
        1,
        2,
        0o100,
        0o1000,
        0o40_000,
        0o1_000_000,
        0o10_000_000,
        u32::MAX,
    ] {
        all.push(new(LOPEN).w(PUBLIC).w(flags));
        all.push(new(LOPEN).w(LINK_ABSOLUTE).w(flags));
    }
    all
}

/// Messages that change something, whose names are good ones.
fn writes(client: &Client) -> Vec<Message> {
    let new = |kind| Message::new(kind);
    let mut all = vec![
        new(REMOVE).w(PUBLIC),
        new(REMOVE).w(ROOT),
        new(REMOVE).w(LINK_OUT),
    ];
    if client.dialect == UNIX {
        for (mode, length, name) in [
            (u32::MAX, u64::MAX, "moved"),
            (0o6777, u64::MAX, ""),
            (u32::MAX, 0, ""),
            (u32::MAX, 1 << 62, ""),
            (0x8000_0000, u64::MAX, ""),
        ] {
            for fid in [ROOT, PUBLIC, LINK_OUT, u32::MAX] {
                all.push(new(WSTAT).w(fid).stat(mode, length, name.as_bytes()));
            }
        }
        return all;
    }
    // Each attribute alone, and all of them: mode, owner, group, size, times.
    for mask in [1, 2, 4, 8, 0x10, 0x20, 0x90, 0x120, 0x1ff, u32::MAX] {
        for fid in [ROOT, PUBLIC, LINK_OUT, LINK_ABSOLUTE] {
            let set = new(SETATTR).w(fid).w(mask).w(0o6777).w(7).w(7);
            all.push(set.q(1 << 62).q(1).q(1).q(1).q(1));
        }
    }
    for name in [
        "user.x",
        "trusted.overlay.opaque",
        "security.capability",
        "system.posix_acl_access",
    ] {
        for fid in [ROOT, PUBLIC, LINK_OUT] {
            all.push(new(XATTRCREATE).w(fid).n(name).q(4).w(0));
        }
    }
    all.extend([
        new(RENAME).w(ROOT).w(INNER).n("x"),
        new(RENAME).w(INNER).w(INNER).n("x"),
        new(LINK).w(INNER).w(INNER).n("x"),
        new(LINK).w(ROOT).w(LINK_ABSOLUTE).n("x"),
        new(LINK).w(ROOT).w(u32::MAX).n("x"),
        new(RENAMEAT).w(PUBLIC).n("x").w(PUBLIC).n("y"),
    ]);
    all
}

pub fn fids(client: &mut Client) {
    odd_files(client);
    for message in odd_fids() {
        restore(client);
        let case = format!("fids: {} {:x?}", message.kind, message.body);
        for _ in 0..2 {
            client.ask(&case, &message);
        }
        client.explore(&case, MADE);
        client.explore(&case, PUBLIC);
        for fid in [PUBLIC, PUBLIC, ROOT, ROOT, u32::MAX] {
            client.ask(&case, &Message::new(CLUNK).w(fid));
        }
        client.explore(&case, ROOT);
    }
    for message in writes(client) {
        restore(client);
        let case = format!("writes: {} {:x?}", message.kind, message.body);
        if client.order.writable {
            client.ask(&case, &message);
        } else {
            client.refused(&case, &message);
        }
        // An extended attribute is written when its fid ends.
        let write = Message::new(WRITE).w(PUBLIC).q(0).w(8).bytes(&[1; 8]);
        client.ask(&case, &write);
        client.explore(&case, PUBLIC);
    }
}

/// Lengths that are not the message's, and bodies that end too early.
pub fn sizes(client: &mut Client) {
    client.begin();
    let getattr = Message::new(GETATTR).w(ROOT).q(u64::MAX);
    for length in [0, 1, 6, 7, 8, 100, 0x7fff_ffff, u32::MAX] {
        client.ask_raw("length", &getattr.encoded_as(length), 8192);
        client.begin();
    }
    let whole = getattr.encoded();
    for cut in 1..whole.len() {
        client.ask_raw("cut", &whole[..cut], 8192);
        client.begin();
    }
    for room in [0, 1, 6, 7, 8, 11, 20, 100] {
        client.ask_raw("room", &whole, room);
        client.begin();
        let list = Message::new(READDIR).w(ROOT).q(0).w(8192);
        client.ask("room", &Message::new(LOPEN).w(ROOT).w(0));
        client.ask_raw("room", &list.encoded(), room);
        client.begin();
    }
    for kind in 0..=u8::MAX {
        let case = format!("kind {kind}");
        for body in [&[][..], &[0; 2], &[0; 40], &[0xff; 3], &[0xff; 40]] {
            client.ask(&case, &Message::raw(kind, body));
        }
        client.begin();
    }
}

/// Several messages at once that are about the same.
pub fn at_once(client: &mut Client) {
    let new = |kind| Message::new(kind);
    let clunk = new(CLUNK).w(PUBLIC);
    let open = match client.dialect {
        LINUX => new(LOPEN).w(PUBLIC).w(0),
        _ => new(OPEN).w(PUBLIC).b(0),
    };
    let read = new(READ).w(PUBLIC).q(0).w(4096);
    let remove = new(REMOVE).w(PUBLIC);
    let again = new(VERSION).w(MAXIMUM).n(client.dialect);
    let again_short = new(VERSION).w(0).n("x");
    let flush = |tag| new(FLUSH).h(tag).tagged(9);
    let made = walk(ROOT, MADE, &["inner"]);
    for batch in [
        vec![&open, &clunk, &read, &clunk],
        vec![&open, &open, &read, &read, &clunk, &open],
        vec![&made, &made, &made, &clunk, &made],
        vec![&clunk, &clunk, &clunk, &open],
        vec![&remove, &read, &open, &clunk, &remove],
        vec![&open, &again, &read, &clunk, &open],
        vec![&again, &again, &made, &again],
        vec![&again_short, &open, &read],
    ] {
        for same in [true, false] {
            restore(client);
            let tagged = batch.iter().enumerate().map(|(index, message)| {
                let tag = if same { 1 } else { index as u16 + 1 };
                (*message).clone().tagged(tag).encoded()
            });
            let mut messages: Vec<Vec<u8>> = tagged.collect();
            for tag in [1, 2, 9] {
                messages.push(flush(tag).encoded());
            }
            client.ask_at_once("at once", &messages, 8192);
        }
    }
}

/// Before the server was asked for a dialect.
pub fn before_a_version(client: &mut Client) {
    for (kind, fields) in FIELDS {
        if kind == VERSION {
            continue;
        }
        client.ask_raw("reset", &[0], 8192);
        let body = vec![0; 8 * fields.len()];
        client.ask("before a version", &Message::raw(kind, &body));
        client.explore("before a version", ROOT);
    }
}

/// Dialects and sizes that are none.
pub fn versions(client: &mut Client) {
    let long = "9".repeat(65_535);
    for name in [
        "",
        "9P2000",
        "9P2000.u",
        "9P2000.L",
        "9P2000.Lx",
        "\0",
        &long,
    ] {
        for size in [0, 1, 23, 4095, 4096, u32::MAX] {
            let case = format!("version {size} {:.9}", name.escape_debug().to_string());
            client.ask(&case, &Message::new(VERSION).w(size).n(name));
            client.explore(&case, ROOT);
            let attach = Message::new(ATTACH).w(ROOT).w(NO_FID).n("root").n("");
            client.ask(&case, &attach.w(0));
            client.ask(&case, &walk(ROOT, MADE, &["public"]));
            client.explore(&case, MADE);
            client.explore(&case, ROOT);
        }
    }
}
