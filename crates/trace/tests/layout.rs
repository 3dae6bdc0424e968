//! The layouts in `bpf/latlab.h` are those of `latlab_wire::trace`.

use latlab_wire::trace::{
    EVENT_BYTES, EventKind, KERNEL_FRAMES, STACK_BYTES, STACK_SAMPLE_BYTES, STOLEN_BYTES,
    StackSample, TAP_RECORD_BYTES, TEXT_BYTES, WHOLE_SOFTIRQ, vector,
};

const HEADER: &str = include_str!("../bpf/latlab.h");

/// The entries of an enumeration, with their numbers.
fn enumeration(name: &str) -> Vec<(&'static str, u8)> {
    let (_, body) = HEADER.split_once(&format!("enum {name} {{")).unwrap();
    let (body, _) = body.split_once('}').unwrap();
    let entry = |line: &'static str| {
        let (name, number) = line.split_once(" = ")?;
        Some((name.trim(), number.trim_end_matches(',').parse().ok()?))
    };
    body.lines().filter_map(entry).collect()
}

/// The fields of a structure with type and offset, and its size. Only structures without compiler padding can
/// be read so, which is asserted.
fn structure(name: &str) -> (Vec<(String, usize)>, usize) {
    let (_, body) = HEADER.split_once(&format!("struct {name} {{")).unwrap();
    let (body, _) = body.split_once('}').unwrap();
    let mut fields = Vec::new();
    let mut offset = 0;
    for line in body.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if line.starts_with('/') {
            continue;
        }
        let (kind, field) = line.trim_end_matches(';').split_once(' ').unwrap();
        // Comments behind a field.
        let field = field.split(';').next().unwrap();
        let (bytes, count) = match kind {
            _ if field.contains("[KERNEL_FRAMES]") => (8, KERNEL_FRAMES),
            _ if field.contains("[STACK_BYTES]") => (1, STACK_BYTES),
            "__u64" => (8, 1),
            "__u32" => (4, 1),
            "__u16" => (2, 1),
            "__u8" => (1, 1),
            "char" => (1, TEXT_BYTES),
            other => panic!("{other}"),
        };
        assert_eq!(offset % bytes, 0, "{name}.{field} is not aligned");
        fields.push((field.to_string(), offset));
        offset += bytes * count;
    }
    assert_eq!(offset % 8, 0);
    (fields, offset)
}

#[test]
fn kinds_have_the_same_numbers() {
    let kinds = enumeration("event_kind");
    assert_eq!(kinds.len(), EventKind::ALL.len());
    for (kind, (name, number)) in EventKind::ALL.into_iter().zip(kinds) {
        // SoftirqEntry and EVENT_SOFTIRQ_ENTRY
        let flat = |text: &str| text.replace('_', "").to_lowercase();
        assert_eq!(flat(name), flat(&format!("EVENT_{kind:?}")));
        assert_eq!(number, kind as u8);
    }
    assert!(HEADER.contains(&format!("#define EVENT_WHOLE_SOFTIRQ {WHOLE_SOFTIRQ}\n")));
    let vectors = enumeration("vector_kind");
    let expected = [
        vector::LOCAL_TIMER,
        vector::RESCHEDULE,
        vector::CALL_FUNCTION,
        vector::CALL_FUNCTION_SINGLE,
        vector::IRQ_WORK,
        vector::PLATFORM,
        vector::THERMAL,
    ];
    assert_eq!(vectors.iter().map(|v| v.1).collect::<Vec<_>>(), expected);
}

#[test]
fn records_have_the_same_layout() {
    let place = |fields: &[(String, usize)]| -> Vec<usize> { fields.iter().map(|f| f.1).collect() };
    let (fields, size) = structure("event");
    assert_eq!(
        (place(&fields), size),
        (vec![0, 8, 16, 18, 19, 20, 24, 32], EVENT_BYTES)
    );
    let (fields, size) = structure("tap_record");
    assert_eq!(
        (place(&fields), size),
        (vec![0, 8, 12, 14, 16, 20, 24, 28], TAP_RECORD_BYTES)
    );
    let (fields, size) = structure("stolen");
    assert_eq!(
        (place(&fields), size),
        (vec![0, 8, 16, 24, 26, 28], STOLEN_BYTES)
    );
}

#[test]
fn a_stack_has_the_same_layout() {
    let (fields, size) = structure("stack_sample");
    assert_eq!(size, STACK_SAMPLE_BYTES);
    let at = |name: &str| {
        let found = fields.iter().find(|(field, _)| field.starts_with(name));
        found.unwrap().1
    };
    let mut bytes = vec![0u8; size];
    let mut put = |name: &str, value: &[u8]| {
        bytes[at(name)..at(name) + value.len()].copy_from_slice(value);
    };
    for (number, name) in ["time_ns", "ip", "sp", "bp", "lr"].into_iter().enumerate() {
        put(name, &(number as u64 + 1).to_ne_bytes());
    }
    for (number, name) in ["process", "task", "cpu"].into_iter().enumerate() {
        put(name, &(number as u32 + 6).to_ne_bytes());
    }
    put("kernel_bytes", &16u32.to_ne_bytes());
    put("stack_bytes", &3u32.to_ne_bytes());
    put("name", b"forwarder\0");
    put(
        "kernel[",
        &[7u64.to_ne_bytes(), 8u64.to_ne_bytes()].concat(),
    );
    put("stack[", &[1, 2, 3]);
    let sample = StackSample::from_bytes(&bytes);
    let numbers = [sample.time_ns, sample.ip, sample.sp, sample.bp, sample.lr];
    assert_eq!(numbers, [1, 2, 3, 4, 5]);
    assert_eq!((sample.process, sample.task, sample.cpu), (6, 7, 8));
    assert_eq!(
        (sample.name().as_str(), &sample.kernel[..]),
        ("forwarder", &[7, 8][..])
    );
    assert_eq!(sample.stack, [1, 2, 3]);
    // Lengths beyond the record are cut to it.
    bytes[at("kernel_bytes")..][..8].fill(0xff);
    let sample = StackSample::from_bytes(&bytes);
    assert_eq!(
        (sample.kernel.len(), sample.stack.len()),
        (KERNEL_FRAMES, STACK_BYTES)
    );
}
