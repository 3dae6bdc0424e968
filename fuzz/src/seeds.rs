//! Seeds: files that latlab ships, cases of its tests, and output of its encoders.

use std::fs;
use std::path::{Path, PathBuf};

use latlab_samples::{Sample, SampleWriter};
use latlab_wire::channel::{self, Exec, Message, NetworkConfig, Stream};
use latlab_wire::{probe, samples};

/// A fabric of two hosts, sealed and not.
pub fn fabric() -> Vec<Vec<u8>> {
    let sealed = format!(r#","carrier":"sealed","key":"{}"}}"#, "ab".repeat(32));
    let host = |carrier: &str| {
        format!(
            "/latlab/1/f/networks/lan {{\"vni\":7}}
/latlab/1/f/vnis/7 lan
/latlab/1/f/hosts/a {{\"address\":\"10.0.0.1:51789\"{carrier}
/latlab/1/f/hosts/b {{\"address\":\"10.0.0.2:51789\"{carrier}
/latlab/1/f/connected/b {{}}
/latlab/1/f/addresses/lan/02:00:00:00:00:01 {{\"host\":\"a\",\"interface\":\"vm1\"}}
/latlab/1/f/addresses/lan/02:00:00:00:00:02 {{\"host\":\"b\",\"interface\":\"vm1\"}}
/latlab/1/f/requests/x {{\"network\":\"lan\",\"addresses\":[\"02:00:00:00:00:01\"],\"to\":{{\"host\":\"a\",\"interface\":\"vm1\"}},\"lease\":5}}
/latlab/1/f/connected/b
/latlab/1/f/hosts/b
"
        )
    };
    [
        host(r#","carrier":"udp"}"#),
        host(r#","carrier":"vxlan"}"#),
        host(&sealed),
    ]
    .map(String::into_bytes)
    .to_vec()
}

/// A configuration with every kind of object, and its commands one by one.
pub fn overlay_language() -> Vec<Vec<u8>> {
    let key = "00112233445566778899aabbccddeeff".repeat(2);
    let whole = format!(
        "set dispatch dispatchers 2 cpus 2-3 mode adaptive:rate=10000/1000/10ms idle timed:20us realtime off
add network lan vni 7
add network quiet vni 8 learning off flood 100 age 2s
add interface v1 network lan vhost-user /run/v1.sock mac 52:54:00:00:00:01 mtu 9000 mode vmm
add interface v2 network lan vhost-user \"/run/a b\" client on queues 4 interrupts early cut-through off tx-coalesce 50us kick-coalesce 0s
add interface t0 network quiet tap tap0 netns /run/netns/a queues 2
add interface c0 network lan veth veth0
add link b vxlan 10.0.0.2
add link c udp [fd00::2]:7000 local [fd00::1]:7000
add link d sealed 10.0.0.3 key /etc/k peer {key}
add link e connect 10.0.0.4:5000 certificate a certificate-key b authority c
add link f listen 0.0.0.0:5000 peer 10.0.0.5
add link g listen 0.0.0.0:5001 peer b.example certificate a certificate-key b authority c
add link h direct eth1 network quiet
add route lan any 52:54:00:00:00:09 link b
add route lan not-52:54:00:00:00:01 none interface v1 from link b
set interface v1 interrupts before-data
delete route lan any 52:54:00:00:00:09 link b
delete link c
hold 52:54:00:00:00:01 52:54:00:00:00:02 limit 64kB for 2s
hold 52:54:00:00:00:03 for 2s when-stopped a
hold 52:54:00:00:00:04 for 2s on-close stay
release 52:54:00:00:00:01
move 52:54:00:00:00:01 to link b network lan revision 3
list holds
list moves
"
    );
    let lines = whole.lines().map(|line| line.as_bytes().to_vec());
    std::iter::once(whole.clone().into_bytes())
        .chain(lines)
        .collect()
}

/// A path inside the repository.
fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

/// Files of these folders with this ending, in the order of their names.
fn files(folders: &[&str], ending: &str) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for folder in folders {
        let entries = fs::read_dir(repository(folder))
            .into_iter()
            .flatten()
            .flatten();
        for path in entries.map(|e| e.path()) {
            let name = path.to_string_lossy().into_owned();
            if let (true, Ok(bytes)) = (name.ends_with(ending), fs::read(&path)) {
                found.push((name, bytes));
            }
        }
    }
    found.sort();
    found
}

fn yaml(wants_studies: bool) -> Vec<Vec<u8>> {
    let folders = [
        "labs",
        "studies",
        "crates/model/tests/bad",
        "crates/model/tests/fuzzed",
    ];
    let is_study = |name: &str| name.contains("study") || name.contains("studies");
    let all = files(&folders, ".yaml").into_iter();
    all.filter(|(name, _)| is_study(name) == wants_studies)
        .map(|(_, bytes)| bytes)
        .collect()
}

/// Labs, good and bad.
pub fn labs() -> Vec<Vec<u8>> {
    yaml(false)
}

/// Studies, good and bad.
pub fn studies() -> Vec<Vec<u8>> {
    yaml(true)
}

/// Topologies of containerlab, good and bad.
pub fn topologies() -> Vec<Vec<u8>> {
    let all = files(&["crates/model/tests/containerlab"], ".yaml");
    all.into_iter().map(|(_, bytes)| bytes).collect()
}

/// Profiles of tuning: the built-in ones, and one with every kind of value.
pub fn profiles() -> Vec<Vec<u8>> {
    let all = "name: all\nextends: isolated\ncores: 2-3\nknobs:\n  thp: leave\n  irq-affinity: 0-1\n  \
               huge-pages: 64MiB\n  busy-read: 50us\n  rt-throttling: off\n  memory-lock: [qemu-*, x]\n  \
               threads: {\"ksoftirqd/*\": fifo:2, x: \"deadline:1ms/2ms/2ms\"}\nboot: {idle: poll}\n";
    let names = latlab_model::profile::Profile::builtin_names();
    let built = names
        .into_iter()
        .filter_map(latlab_model::profile::Profile::builtin_text);
    built
        .chain([all])
        .map(|text| text.as_bytes().to_vec())
        .collect()
}

/// Quantities, one a line.
pub fn units() -> Vec<Vec<u8>> {
    let texts = [
        "10ms\n0.5 us\n3µs\n2min",
        "256MiB\n1500\n1GB\n7B",
        "1Gbit/s\n10Mbps\n9bit",
        "0-3,8\n5\n1,2,3\n0-8191",
        "0.1%\n1_000ns\n1..2s\n-1ms",
    ];
    texts.map(|t| t.as_bytes().to_vec()).to_vec()
}

/// Two packets of UDP in pcap, and at two interfaces in pcapng.
pub fn captures() -> Vec<Vec<u8>> {
    let mut frame = vec![2; 12];
    frame.extend([0x08, 0, 0x45, 0, 0, 32, 0, 1, 0x40, 0, 64, 17, 0, 0]);
    frame.extend([
        10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0, 0x20, 0, 0, 12, 0, 0, 1, 2, 3, 4,
    ]);
    frame.extend([0; 2]);
    let length = frame.len() as u32;
    let words = |numbers: &[u32]| {
        numbers
            .iter()
            .flat_map(|n| n.to_le_bytes())
            .collect::<Vec<u8>>()
    };
    let mut pcap = words(&[0xa1b2_3c4d, 0x0004_0002, 0, 0, 65_535, 1]);
    for second in [5, 6] {
        pcap.extend(words(&[second, 7, length, length]));
        pcap.extend(&frame);
    }
    let mut pcapng = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    for _ in 0..2 {
        pcapng.extend(words(&[1, 20, 1, 65_535, 20]));
    }
    let block = 32 + length;
    for interface in [0, 1] {
        pcapng.extend(words(&[
            6,
            block,
            interface,
            0,
            900 + interface,
            length,
            length,
        ]));
        pcapng.extend(&frame);
        pcapng.extend(words(&[block]));
    }
    vec![pcap, pcapng]
}

pub fn documents() -> Vec<Vec<u8>> {
    let folders = ["crates/model/tests/golden", "crates/model/tests/facts"];
    files(&folders, ".json")
        .into_iter()
        .map(|(_, bytes)| bytes)
        .collect()
}

fn renewal() -> channel::Renewal {
    channel::Renewal {
        entropy: vec![7; 64],
        realtime_ns: 1_000,
    }
}

/// One frame of each kind, and all of them in a row.
pub fn channel() -> Vec<Vec<u8>> {
    let exec = Exec {
        argv: vec!["sh".into(), "-c".into(), "true".into()],
        env: vec![("LANG".into(), "C".into())],
        cwd: Some("/".into()),
        uid: Some(0),
        detach: false,
    };
    let (session, stream) = (7, Stream::Stdout);
    let status = channel::ExitStatus::Signal(9);
    let renewal = renewal();
    let messages = [
        Message::Hello {
            version: 1,
            nonce: 42,
        },
        Message::HelloAck {
            version: 1,
            nonce: 42,
            guest_monotonic_ns: 5,
            failure: Some("no root".into()),
        },
        Message::Exec { session, exec },
        Message::Data {
            session,
            stream,
            data: b"hello\n".to_vec(),
        },
        Message::End { session, stream },
        Message::Credit {
            session,
            stream,
            bytes: 4096,
        },
        Message::Signal {
            session,
            signal: 15,
        },
        Message::Exit { session, status },
        Message::Network {
            session,
            config: network(),
        },
        Message::Identify {
            session,
            identity: channel::Identity {
                parameters: "latlab.name=third".into(),
                macs: vec![([2, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 1])],
                renewal: renewal.clone(),
            },
        },
        Message::Renew { session, renewal },
        Message::Done { session },
        Message::Failed {
            session,
            errno: 2,
            message: "start `x`: not found".into(),
        },
        Message::PowerOff,
    ];
    let frame = |message: &Message| {
        let mut bytes = Vec::new();
        channel::encode(message, &mut bytes).expect("a short message fits");
        bytes
    };
    let mut seeds: Vec<Vec<u8>> = messages.iter().map(frame).collect();
    seeds.push(seeds.concat());
    seeds
}

fn network() -> NetworkConfig {
    NetworkConfig {
        interfaces: vec![channel::Interface {
            mac: [2, 0, 0, 0, 0, 1],
            own_mac: None,
            name: "eth0".into(),
            mtu: Some(1500),
            addresses: vec![
                ([10, 0, 0, 1].into(), 24),
                ([0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), 64),
            ],
        }],
        routes: vec![channel::Route {
            destination: ([0, 0, 0, 0].into(), 0),
            gateway: Some([10, 0, 0, 254].into()),
            interface: Some("eth0".into()),
        }],
        hosts: Some("10.0.0.254 router\n".into()),
    }
}

/// A block of records, an error, and both.
pub fn probe_output() -> Vec<Vec<u8>> {
    let record = |sequence| samples::Record {
        sequence,
        flow: 1,
        flags: 0,
        start_ns: 1_000,
        end_ns: 2_000,
    };
    let block = samples::Samples {
        kind: samples::SampleKind::Rr,
        records: (0..3).map(record).collect(),
    };
    let encoded = |message: &samples::Message| {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        bytes
    };
    let mut seeds = vec![
        encoded(&samples::Message::Samples(block)),
        encoded(&samples::Message::Error("cannot bind".into())),
    ];
    seeds.push(seeds.concat());
    // Ready and progress are JSON behind the same header.
    for kind in [1, 2, 4] {
        let json = br#"{"probe":"rr-client","protocol":"udp","phase":"measure"}"#;
        let mut bytes = vec![b'l', b'p', kind, samples::VERSION];
        bytes.extend((json.len() as u32).to_le_bytes());
        bytes.extend(json);
        seeds.push(bytes);
    }
    seeds
}

pub fn probe_header() -> Vec<Vec<u8>> {
    let mut packet = vec![0; probe::HEADER_BYTES];
    let repr = probe::PacketRepr {
        flow: 1,
        sequence: 2,
        intended_ns: 3,
    };
    repr.emit(&mut packet);
    let mut request = vec![0; 100];
    let repr = probe::TransactionRepr {
        kind: probe::TransactionKind::Request,
        sequence: 2,
        message_bytes: 100,
        reply_bytes: 200,
    };
    repr.emit(&mut request);
    vec![packet, request]
}

/// A small file in latlab's format.
pub fn samples_file() -> Vec<Vec<u8>> {
    let path = std::env::temp_dir().join(format!("latlab-fuzz-seed-{}", std::process::id()));
    let write = || -> Result<Vec<u8>, Box<dyn std::error::Error>> {
        let mut writer = SampleWriter::create(&path)?;
        for seq in 0..20 {
            let sent_ns = seq as i64 * 1_000;
            writer.push(&Sample {
                seq,
                intended_ns: sent_ns,
                sent_ns,
                received_ns: (seq != 7).then_some(sent_ns + 500),
                latency_ns: (seq != 7).then_some(500),
                arrival: (seq != 7).then_some(seq as i64),
            })?;
        }
        writer.finish()?;
        Ok(fs::read(&path)?)
    };
    let written = write();
    fs::remove_file(&path).ok();
    vec![written.expect("a small file of samples")]
}

/// A POSIX archive of these files; the kind is tar's letter.
fn tar(entries: &[(&str, u8, &[u8])]) -> Vec<u8> {
    let mut archive = Vec::new();
    for (name, kind, content) in entries {
        let mut header = [0u8; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000755\0");
        header[108..116].copy_from_slice(b"0000000\0");
        header[116..124].copy_from_slice(b"0000000\0");
        header[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
        header[136..148].copy_from_slice(b"00000000000\0");
        header[148..156].copy_from_slice(b"        ");
        header[156] = *kind;
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|b| u32::from(*b)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        archive.extend(header);
        archive.extend(*content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
    archive.resize(archive.len() + 1024, 0);
    archive
}

/// A layer with a file, a folder, a link, a whiteout and a long name.
pub fn image_layer() -> Vec<Vec<u8>> {
    let long = "a-long-name/".repeat(12) + "file\0";
    vec![
        tar(&[("etc/", b'5', b""), ("etc/hostname", b'0', b"box\n")]),
        tar(&[
            ("etc/.wh.hostname", b'0', b""),
            ("var/.wh..wh..opq", b'0', b""),
        ]),
        tar(&[
            ("././@LongLink", b'L', long.as_bytes()),
            ("short", b'0', b"x"),
        ]),
        tar(&[
            ("pax", b'x', b"19 path=etc/motd-a\n"),
            ("link", b'2', b""),
            ("hard", b'1', b""),
        ]),
    ]
}

/// The layer as `docker save` packs it, and in OCI layout.
pub fn image_archive() -> Vec<Vec<u8>> {
    let layer = tar(&[("etc/hostname", b'0', b"box\n")]);
    let docker = br#"[{"Config":"config.json","RepoTags":["box:1"],"Layers":["layer.tar"]}]"#;
    let config =
        br#"{"architecture":"amd64","os":"linux","rootfs":{"type":"layers","diff_ids":[]}}"#;
    let index = br#"{"schemaVersion":2,"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:00","size":2}]}"#;
    vec![
        tar(&[
            ("manifest.json", b'0', docker),
            ("config.json", b'0', config),
            ("layer.tar", b'0', &layer),
        ]),
        tar(&[
            ("oci-layout", b'0', br#"{"imageLayoutVersion":"1.0.0"}"#),
            ("index.json", b'0', index),
            ("blobs/sha256/00", b'0', b"{}"),
        ]),
    ]
}

/// Reports over TCP and UDP, and a failure.
pub fn iperf3() -> Vec<Vec<u8>> {
    let texts = [
        r#"{"intervals":[{"sum":{"start":0,"end":1,"bits_per_second":8e9,"omitted":false}}],"end":{"sum_sent":{"bytes":1000000000,"seconds":1,"retransmits":3,"bits_per_second":8e9},"sum_received":{"bytes":1000000000,"seconds":1,"bits_per_second":8e9}}}"#,
        r#"{"intervals":[],"end":{"sum":{"bytes":1000,"seconds":1,"bits_per_second":8000,"lost_percent":2.5}}}"#,
        r#"{"error":"unable to connect to server: Connection refused"}"#,
    ];
    texts.map(|t| t.as_bytes().to_vec()).to_vec()
}

/// Texts of the kernel and of tools.
pub fn kernel_texts() -> Vec<Vec<u8>> {
    let texts = [
        "processor\t: 0\nmodel name\t: AMD EPYC\nphysical id\t: 0\ncore id\t: 0\nflags\t: fpu hypervisor\n\nprocessor\t: 1\n",
        "MemTotal:       24569912 kB\nHugePages_Total:       0\nHugepagesize:       2048 kB\n",
        "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\nID=debian\n",
        "cpu  10 0 20 300 0 0 0 7 0 0\ncpu0 5 0 10 150 0 0 0 3 0 0\n",
        "25 20 0:22 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n26 25 0:23 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n",
        "tsc hpet [acpi_pm]\n",
        "48K\n",
        "qemu-system-x86_64 version 7.2.15 (Debian 1:7.2)\n",
        "Cpus_allowed_list:\t0-1\n",
        "kernel/net/sched/sch_netem.ko\nkernel/net/sched/sch_netem.ko.xz: a.ko b.ko\n",
    ];
    let mut seeds = texts.map(|t| t.as_bytes().to_vec()).to_vec();
    // The head of an empty bzImage.
    let mut image = vec![0; 0x400];
    image[0x1f1] = 1;
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&0x20f_u16.to_le_bytes());
    image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    image[0x248..0x24c].copy_from_slice(&16_u32.to_le_bytes());
    image[0x24c..0x250].copy_from_slice(&64_u32.to_le_bytes());
    image[0x300..0x306].copy_from_slice(b"6.1.0\0");
    seeds.push(image);
    seeds
}

/// TCP and UDP, with full and partial checksums, behind `virtio_net_hdr`.
pub fn overlay_frames() -> Vec<Vec<u8>> {
    let ethernet = [[2; 6], [4; 6]].concat();
    let ipv4 = |protocol: u8, behind: u8| {
        let mut header = vec![8, 0, 0x45, 0, 0, 20 + behind, 0, 1, 0x40, 0, 64, protocol];
        header.extend([0; 2]);
        header.extend([10, 0, 0, 1, 10, 0, 0, 2]);
        header
    };
    let ipv6 = |next: u8, behind: u8| {
        let mut header = vec![0x86, 0xdd, 0x60, 0, 0, 0, 0, behind, next, 64];
        header.extend([0xfd; 32]);
        header
    };
    let tcp = [
        0, 80, 0, 81, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x19, 1, 0, 0, 0, 0, 0,
    ];
    let udp = [0, 53, 0, 54, 0, 108, 0, 0];
    let payload = [7; 100];
    let frame = |parts: &[&[u8]]| [&ethernet[..], &parts.concat(), &payload].concat();
    let with = |header: [u8; 10], frame: Vec<u8>| [&header[..], &frame].concat();
    vec![
        with(
            [1, 1, 54, 0, 40, 0, 34, 0, 16, 0],
            frame(&[&ipv4(6, 120), &tcp]),
        ),
        with(
            [1, 4, 74, 0, 40, 0, 54, 0, 16, 0],
            frame(&[&ipv6(6, 120), &tcp]),
        ),
        with(
            [1, 5, 42, 0, 40, 0, 34, 0, 6, 0],
            frame(&[&ipv4(17, 108), &udp]),
        ),
        with(
            [1, 0, 0, 0, 0, 0, 34, 0, 6, 0],
            frame(&[&ipv4(17, 108), &udp]),
        ),
        with([0; 10], frame(&[&[0x81, 0, 0, 5], &ipv4(17, 108), &udp])),
        // Behind a hop-by-hop header.
        with(
            [1, 4, 82, 0, 40, 0, 62, 0, 16, 0],
            frame(&[&ipv6(0, 128), &[6, 0, 1, 4, 0, 0, 0, 0], &tcp]),
        ),
    ]
}

/// One datagram of each form, and a frame in two slices.
pub fn overlay_links() -> Vec<Vec<u8>> {
    use latlab_wire::overlay::{Handshake, PrivateHeader, Sealed, Vxlan};
    let framed = |datagrams: &[Vec<u8>]| {
        let each = datagrams.iter().map(|datagram| {
            let length = u16::try_from(datagram.len()).expect("short").to_le_bytes();
            [&length[..], datagram].concat()
        });
        each.collect::<Vec<_>>().concat()
    };
    let carried = |offset: u32, slice: &[u8]| {
        let header = PrivateHeader {
            hops: 2,
            network: 7,
            origin: 99,
            number: 1,
            whole: 60,
            offset,
            offload: [0; 10],
        };
        [&header.encode()[..], slice].concat()
    };
    let vxlan = [&Vxlan { network: 7 }.encode()[..], &[1; 60]].concat();
    let sealed = Sealed {
        session: 1,
        counter: 2,
    };
    let sealed = [&sealed.encode()[..], &[0; 40]].concat();
    let handshake = |answer| {
        let header = Handshake {
            answer,
            sender: 1,
            receiver: 2,
        };
        [&header.encode()[..], &[0; 96]].concat()
    };
    let (front, back) = (carried(0, &[1; 32]), carried(32, &[2; 28]));
    vec![
        framed(&[vxlan]),
        framed(&[carried(0, &[3; 60])]),
        framed(&[back.clone(), front.clone()]),
        framed(&[front.clone(), front, back]),
        framed(&[sealed, handshake(false), handshake(true)]),
        framed(&[[&[0, 0, 0, 100][..], &[0; 96]].concat()]),
    ]
}
