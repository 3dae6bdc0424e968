//! The targets. Each must return, and checks the parser's promises about accepted input.

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeSet, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use latlab_host::facts::texts;
use latlab_host::images;
use latlab_host::nodes::vm::bzimage;
use latlab_model::containerlab::{self, Surroundings};
use latlab_model::diagnostic::Diagnostics;
use latlab_model::facts::Facts;
use latlab_model::overlay::{Overlay, language};
use latlab_model::plan::{Part, Plan, Room, plan, plan_run, settle, spread};
use latlab_model::profile::Profile;
use latlab_model::results::{Manifest, Summary, Trial};
use latlab_model::spec::yaml::Yaml;
use latlab_model::spec::{DocumentKind, Lab, LabSource, ManagedHosts, Study};
use latlab_model::state::LabState;
use latlab_model::units::{BitsPerSecond, Bytes, CpuList, Nanos};
use latlab_overlay::endpoints::PortId;
use latlab_overlay::frames::{Arena, Batch, Gso, Headers, Offload, Segment, uncompleted};
use latlab_overlay::links;
use latlab_samples::SampleReader;
use latlab_samples::import::{By, Import, Imported, Source};
use latlab_wire::overlay::{Handshake, PrivateHeader, Sealed, Vxlan, record_bytes};
use latlab_wire::{channel as wire_channel, probe, samples};

/// The machines of the model's planning tests.
static MACHINES: LazyLock<[Facts; 2]> = LazyLock::new(|| {
    [
        include_str!("../../crates/model/tests/facts/small.json"),
        include_str!("../../crates/model/tests/facts/large.json"),
    ]
    .map(|text| serde_json::from_str(text).expect("facts"))
});

pub(crate) fn answer(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// A message without quotations from the input, so that two spellings of one mistake are one answer.
fn words(message: &str) -> String {
    let outside = message
        .split(['`', '"'])
        .step_by(2)
        .collect::<Vec<_>>()
        .concat();
    let letters = outside
        .chars()
        .filter(|c| c.is_ascii_alphabetic() || *c == ' ');
    letters.take(60).collect()
}

/// A mistake has a place in the text, and two lines.
fn check_mistakes(errors: &Diagnostics, text: &str) -> u64 {
    // YAML's line breaks, a lone carriage return among them.
    let lines = text.replace("\r\n", "\n").matches(['\n', '\r']).count() + 2;
    for mistake in errors.iter() {
        let at = mistake.at;
        assert!(
            (1..=lines).contains(&at.line) && at.column >= 1,
            "{mistake:?} of {lines} lines"
        );
        assert!(
            !mistake.hint.is_empty() && !mistake.message.is_empty(),
            "{mistake:?}"
        );
    }
    let rendered = errors.render("f");
    let count = errors.iter().count();
    let shown = rendered.lines().filter(|l| l.starts_with("f:")).count();
    assert!(count > 0 && shown == count, "{rendered}");
    let messages = errors.iter().map(|d| words(&d.message));
    answer(messages.collect::<BTreeSet<_>>())
}

fn check_plan(plan: &Plan) -> u64 {
    let text = serde_json::to_string(plan).expect("a plan is JSON");
    serde_json::from_str::<Plan>(&text).expect("a plan is read as written");
    for (number, link) in plan.links.iter().enumerate() {
        let mut addresses = HashSet::new();
        for end in 0..link.endpoints.len() {
            let (node, interface) = plan.end(number, end);
            assert!(interface.name.len() <= 15, "{}", interface.name);
            for address in &interface.addresses {
                let twice = !addresses.insert(address.addr());
                assert!(!twice, "{address} twice on {} at {}", link.name, node.name);
            }
        }
    }
    for from in plan.nodes.iter().take(4) {
        for to in plan.nodes.iter().take(4) {
            let [from, to] = [from, to].map(|node| node.name.as_str());
            plan.reach(from, to, false);
            plan.reach(from, to, true);
        }
    }
    plan.topology(Default::default());
    let kinds = plan.nodes.iter().map(|n| n.kind());
    answer((
        kinds.collect::<Vec<_>>(),
        plan.links
            .iter()
            .map(|l| l.medium.kind())
            .collect::<Vec<_>>(),
    ))
}

/// The parts of a lab on several hosts.
fn check_parts(lab: &Lab) -> Result<(), Diagnostics> {
    let room = Room {
        cpus: 4,
        memory: Bytes(8 << 30),
    };
    let names = || lab.hosts.iter().map(|host| host.name.value.clone());
    let places = spread(lab, &names().map(|name| (name, room)).collect())?;
    let lab = settle(lab.clone(), &places)?;
    names().try_for_each(|host| Part::of(&lab, &host).map(drop))
}

/// A lab, planned on two machines.
pub fn lab(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let lab = match Lab::parse(&text) {
        Ok(lab) => lab,
        Err(errors) => return check_mistakes(&errors, &text),
    };
    if let (false, Err(errors)) = (lab.hosts.is_empty(), check_parts(&lab)) {
        return check_mistakes(&errors, &text);
    }
    let machines = MACHINES.iter().map(|facts| match plan(&lab, facts) {
        Ok(plan) => check_plan(&plan),
        Err(errors) => check_mistakes(&errors, &text),
    });
    answer(machines.collect::<Vec<_>>())
}

/// A topology of containerlab: its lab is read as written, and exported again.
pub fn containerlab(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let around = Surroundings {
        variable: &|name| (name.len() > 2).then(|| name.to_lowercase()),
        file: &|name| Ok(name.to_string()),
        directory: "",
        image: None,
    };
    let imported = match containerlab::import(&text, &around) {
        Ok(imported) => imported,
        Err(errors) => return check_mistakes(&errors, &text),
    };
    let written = imported.text("f");
    let lab = Lab::parse(&written);
    let lab = lab.unwrap_or_else(|errors| panic!("{}\n{written}", errors.render("lab")));
    let exported = containerlab::export(&lab, Some("image"));
    let exported = exported.unwrap_or_else(|errors| panic!("{}\n{written}", errors.render("lab")));
    let remarks = imported.remarks.sorted();
    let messages = remarks.iter().map(|remark| words(&remark.message));
    answer((
        messages.collect::<BTreeSet<_>>(),
        exported.remarks.is_whole(),
    ))
}

/// A profile of tuning, on a machine of four CPUs.
pub fn profile(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let profile = match Profile::parse(&text, &|_| None) {
        Ok(profile) => profile,
        Err(errors) => return check_mistakes(&errors, &text),
    };
    // An accepted profile has no contradictions, and never isolates every CPU.
    assert!(profile.check().is_ok());
    let online = CpuList::new((0..4).collect());
    match profile.cores_of(&online, None) {
        Ok(cores) => {
            assert!(!cores.housekeeping.is_empty());
            assert!(
                cores
                    .isolated
                    .iter()
                    .all(|cpu| !cores.housekeeping.contains(cpu))
            );
            answer((profile.knobs.len(), profile.boot.len()))
        }
        Err((message, _)) => answer(words(&message)),
    }
}

/// A study with its lab inside, every combination planned.
pub fn study(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let read = Yaml::parse(&text).and_then(|yaml| {
        DocumentKind::of(&yaml);
        ManagedHosts::parse(&text).ok();
        Study::read(&yaml)
    });
    let study = match read {
        Ok(study) => study,
        Err(errors) => return check_mistakes(&errors, &text),
    };
    let LabSource::Inline(lab) = &study.lab else {
        return answer("a file");
    };
    match plan_run(
        &study,
        lab,
        &MACHINES[1],
        &latlab_model::profile::Profile::builtin,
    ) {
        Ok(run) => {
            assert_eq!(run.order().len(), run.trials());
            assert_eq!(run.trials(), run.cells.len() * study.replicates as usize);
            answer(run.labs.iter().map(check_plan).collect::<Vec<_>>())
        }
        Err(errors) => check_mistakes(&errors, &text),
    }
}

/// Commands of the overlay. An accepted command is written so that it reads back; a mistake has its line; a
/// refusal changes nothing.
pub fn overlay_language(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let mut overlay = Overlay::default();
    let mut answers = Vec::new();
    for line in text.lines().take(64) {
        let command = match language::parse(line, &overlay) {
            Ok(Some(command)) => command,
            Ok(None) => continue,
            Err(mistake) => {
                assert!(mistake.column <= line.chars().count() + 2, "{mistake:?}");
                answers.push(words(&mistake.message));
                continue;
            }
        };
        let before = overlay.clone();
        if let Err(refusal) = overlay.apply(&command) {
            assert_eq!(overlay, before, "{refusal}");
            answers.push(words(&refusal.message));
        }
    }
    let written = overlay.to_string();
    let read = language::parse_file(&written).unwrap_or_else(|e| panic!("{e:?} in\n{written}"));
    assert_eq!(read, overlay);
    answer((answers, overlay.interfaces.len(), overlay.links.len()))
}

/// Quantities in human spelling.
pub fn units(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let [mut nanos, mut bytes, mut bits, mut cpus] = [0, 0, 0, 0];
    for line in text.lines() {
        if let Some(read) = Nanos::parse(line) {
            nanos += 1;
            assert!(
                Nanos::parse(&read.to_string()).is_some(),
                "{read} is not read back"
            );
        }
        if let Some(read) = Bytes::parse(line) {
            bytes += 1;
            assert!(
                Bytes::parse(&read.to_string()).is_some(),
                "{read} is not read back"
            );
        }
        if let Some(read) = BitsPerSecond::parse(line) {
            bits += 1;
            assert!(
                BitsPerSecond::parse(&read.to_string()).is_some(),
                "{read} is not read back"
            );
        }
        if let Some(list) = CpuList::parse(line) {
            cpus += 1;
            assert_eq!(CpuList::parse(&list.to_string()).as_ref(), Some(&list));
            assert_eq!(CpuList::new(list.iter().collect()), list);
            assert_eq!(list.iter().count(), list.len());
        }
    }
    answer([nanos, bytes, bits, cpus].map(|n: u32| n.min(3)))
}

/// The JSON documents of the state and run directories.
pub fn documents(data: &[u8]) -> u64 {
    fn read<T: serde::de::DeserializeOwned + serde::Serialize>(data: &[u8]) -> bool {
        let Ok(document) = serde_json::from_slice::<T>(data) else {
            return false;
        };
        let text = serde_json::to_vec(&document).expect("a document is JSON");
        serde_json::from_slice::<T>(&text).expect("a document is read as written");
        true
    }
    let read = [
        read::<Facts>(data),
        read::<Plan>(data),
        read::<LabState>(data),
        read::<Manifest>(data),
        read::<Trial>(data),
        read::<Summary>(data),
    ];
    // The parser's message tells its progress.
    let error = serde_json::from_slice::<Plan>(data)
        .err()
        .map(|e| e.to_string());
    answer((read, words(&error.unwrap_or_default())))
}

/// The command channel between host and guest, in pieces; accepted input encodes to the same bytes.
pub fn channel(data: &[u8]) -> u64 {
    let piece = data.first().map_or(1, |b| usize::from(*b) + 1);
    let mut decoder = wire_channel::Decoder::default();
    let mut kinds = HashSet::new();
    let mut pieces = Vec::new();
    for bytes in data.chunks(piece) {
        decoder.push(bytes);
        pieces.extend(decoder.by_ref());
    }
    let mut whole = Vec::new();
    let mut rest = data;
    loop {
        match wire_channel::decode(rest) {
            wire_channel::Decoded::Message(message, used) => {
                let mut again = Vec::new();
                wire_channel::encode(&message, &mut again).expect("what was decoded fits");
                assert_eq!(again, rest[..used], "{message:?} is encoded otherwise");
                kinds.insert(std::mem::discriminant(&message));
                whole.push(message);
                rest = &rest[used..];
            }
            wire_channel::Decoded::Garbage(count) => {
                assert!(count > 0, "garbage of no bytes");
                rest = &rest[count..];
            }
            wire_channel::Decoded::Incomplete => break,
        }
    }
    assert_eq!(pieces, whole, "in pieces of {piece} bytes");
    let kinds: BTreeSet<u64> = kinds.iter().map(answer).collect();
    answer((kinds, rest.is_empty(), decoder.garbage_bytes() > 0))
}

/// The output of a probe, in pieces.
pub fn probe_output(data: &[u8]) -> u64 {
    let piece = data.first().map_or(1, |b| usize::from(*b) + 1);
    let mut decoder = samples::Decoder::new();
    let mut kinds = Vec::new();
    for bytes in data.chunks(piece) {
        decoder.push(bytes);
        loop {
            match decoder.next_message() {
                Ok(Some(message)) => kinds.push(std::mem::discriminant(&message)),
                Ok(None) => break,
                Err(error) => {
                    return answer((kinds, words(&error.to_string())));
                }
            }
        }
    }
    answer((kinds, decoder.finish().is_ok()))
}

/// The headers inside packets; accepted ones encode to the same bytes.
pub fn probe_header(data: &[u8]) -> u64 {
    let packet = probe::PacketRepr::parse(data);
    if let Ok(repr) = &packet {
        let mut bytes = [0; probe::HEADER_BYTES];
        repr.emit(&mut bytes);
        assert_eq!(bytes, data[..probe::HEADER_BYTES]);
    }
    let transaction = probe::TransactionRepr::parse(data);
    if let Ok(repr) = &transaction {
        let mut bytes = [0; probe::HEADER_BYTES];
        repr.emit(&mut bytes);
        // The reserved byte is ignored.
        bytes[3] = data[3];
        assert_eq!(bytes, data[..probe::HEADER_BYTES]);
    }
    answer((
        packet.is_ok(),
        transaction
            .map(|t| t.kind == probe::TransactionKind::Request)
            .ok(),
    ))
}

/// The bytes as a file for `use_it`, in memory if possible.
fn with_file<T>(data: &[u8], use_it: impl FnOnce(&std::path::Path) -> T) -> T {
    let memory = std::path::Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        memory.to_path_buf()
    } else {
        std::env::temp_dir()
    };
    let path = folder.join(format!("latlab-fuzz-{}", std::process::id()));
    std::fs::write(&path, data).expect("a temporary file");
    let result = use_it(&path);
    std::fs::remove_file(&path).ok();
    result
}

/// Raw samples of a foreign run directory.
pub fn samples_file(data: &[u8]) -> u64 {
    with_file(data, |path| {
        let read = SampleReader::open(path).and_then(SampleReader::read_all);
        let said = match read {
            Ok(samples) => format!("{}", samples.len().min(20)),
            Err(error) => {
                let cause = std::error::Error::source(&error).map(ToString::to_string);
                cause.unwrap_or_else(|| error.to_string())
            }
        };
        answer(words(&said))
    })
}

/// A capture of others: two interfaces of a file, and a file beside itself.
pub fn captures(data: &[u8]) -> u64 {
    with_file(data, |path| {
        let said = |interfaces: [Option<&str>; 2], by| {
            let source = |interface: Option<&str>| Source {
                path: path.to_owned(),
                interface: interface.map(str::to_owned),
            };
            let imported = Imported::read(Import {
                pairs: vec![interfaces.map(source)],
                by,
                name: String::new(),
            });
            match imported {
                Ok(found) => format!("{:?}", found.left_out()),
                Err(error) => error.to_string(),
            }
        };
        let sides = said([Some("0"), Some("1")], By::Packet);
        let same = said([None, None], By::Payload);
        answer((words(&sides), words(&same)))
    })
}

/// A downloaded image.
pub fn image_archive(data: &[u8]) -> u64 {
    images::fuzz::archive(data);
    answer(data.len() / 512)
}

/// A layer of an image.
pub fn image_layer(data: &[u8]) -> u64 {
    images::fuzz::layer(data);
    answer(data.len() / 512)
}

/// iperf3's report.
pub fn iperf3(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let said = [false, true].map(|udp| match latlab_measure::iperf::parse(&text, udp) {
        Ok(transfer) => {
            let result = transfer.result;
            assert!(result.bits_per_second.is_finite() && result.seconds.is_finite());
            serde_json::to_string(&result).expect("a result is JSON");
            format!(
                "{} {:?}",
                result.intervals.len().min(5),
                result.retransmits.is_some()
            )
        }
        // An `error` in the report is passed on unchanged: any text is the same answer.
        Err(error) if error.starts_with("it") => error,
        Err(_) => "iperf3's own words".into(),
    });
    answer(said.map(|w| words(&w)))
}

/// Texts of the kernel and tools, and a kernel image.
pub fn kernel_texts(data: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(data);
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let release = bzimage::release(data).map_err(|e| e.to_string());
    let unpacked = bzimage::extract(data).is_ok();
    let cpus = texts::cpuinfo(&text);
    answer((
        texts::meminfo(&text).len().min(8),
        texts::os_release(&text, "PRETTY_NAME").is_some(),
        texts::chosen(&text).is_some(),
        texts::cpu_list(&text).is_some(),
        texts::status_cpu_list(&text, "Cpus_allowed_list").is_some(),
        texts::steal_since_boot(&text).is_some(),
        texts::cgroup_layout(&text),
        (
            texts::cache_size(first).is_some(),
            texts::tool_version(&text).is_some(),
        ),
        cpus.processors.min(8),
        texts::can_be_loaded(rest, first, "sch_netem"),
        (
            release
                .map_err(|e| e.split(':').next().unwrap_or_default().to_string())
                .is_ok(),
            unpacked,
        ),
    ))
}

/// A guest's frame with its virtio-net header: headers, checksums, segmentation.
pub fn overlay_frames(data: &[u8]) -> u64 {
    let Some((header, frame)) = data.split_first_chunk::<{ Offload::BYTES }>() else {
        return 0;
    };
    let layout = Headers::parse(frame);
    let partial = uncompleted(frame).is_some();
    let Ok(offload) = Offload::parse(header, frame.len()) else {
        return answer((layout.is_ok(), partial));
    };
    let mut batch = Batch::new(1);
    // In two stretches, divided by the input.
    let middle = usize::from(header[9]) * 8 % frame.len().max(1);
    let pieces = [&frame[..middle], &frame[middle..]].map(|part| {
        // SAFETY: the input outlives the batch, which ends with this function.
        unsafe { Segment::new(part.as_ptr(), part.len()) }
    });
    if batch.push(PortId(0), 1, offload, pieces).is_err() {
        return 1;
    }
    let frame_in = &batch.frames()[0];
    let mut arena = Arena::default();
    let done = match offload.gso {
        Gso::None => arena.complete(b"prefix", &batch, frame_in).map(|()| 1),
        _ => arena.cut(b"prefix", &batch, frame_in, offload.gso_size),
    };
    if let Ok(count) = done {
        assert_eq!(count, arena.len());
        let mut payload = 0;
        for piece in 0..count {
            let rest: usize = arena.rest(piece).iter().map(|part| part.len()).sum();
            assert_eq!(arena.head(piece).len() + rest, arena.bytes(piece));
            assert!(arena.head(piece).starts_with(b"prefix"));
            payload += arena.bytes(piece) - 6;
        }
        if let (Ok(headers), true) = (layout, count > 1) {
            assert_eq!(
                payload - count * headers.payload,
                frame.len() - headers.payload
            );
        } else {
            assert_eq!(payload, frame.len());
        }
    }
    answer((
        layout.map(|l| (l.ipv6, l.tcp)),
        partial,
        done.map(|count| count.min(4)),
    ))
}

/// Messages of peers, as datagrams behind a length each: every header, and reassembled slices.
pub fn overlay_links(data: &[u8]) -> u64 {
    let mut datagrams = Vec::new();
    let mut rest = data;
    while let Some((length, behind)) = rest.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (datagram, next) = behind.split_at(length);
        datagrams.push(datagram);
        rest = next;
    }
    let mut kinds = BTreeSet::new();
    for datagram in &datagrams {
        if let Ok((header, frame)) = Vxlan::parse(datagram) {
            assert_eq!(header.encode()[4..7], datagram[4..7]);
            assert_eq!(frame.len() + Vxlan::BYTES, datagram.len());
            kinds.insert(0);
        }
        if let Ok((header, slice)) = PrivateHeader::parse(datagram) {
            assert!(header.offset as usize + slice.len() <= header.whole as usize);
            // Reserved bytes are ignored.
            let again = header.encode();
            assert_eq!(again[4..38], datagram[4..38]);
            kinds.insert(1 + u64::from(header.offset == 0));
        }
        if let Ok((header, _)) = Sealed::parse(datagram) {
            assert_eq!(header.encode(), datagram[..Sealed::BYTES]);
            kinds.insert(3);
        }
        if let Ok((header, _)) = Handshake::parse(datagram) {
            assert_eq!(header.encode(), datagram[..Handshake::BYTES]);
            kinds.insert(4 + u64::from(header.answer));
        }
        kinds.insert(6 + answer(record_bytes(datagram).map(|r| r.is_some()).is_ok()) % 2);
    }
    let whole = links::fuzz::reassemble(datagrams.iter().copied());
    answer((kinds, whole.len().min(4)))
}
