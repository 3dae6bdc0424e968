//! The used parts of iperf3's JSON. The text comes from a foreign program in a node, so every field is
//! optional and none is trusted to be there.

use serde::Deserialize;

use latlab_model::results::StreamResult;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    error: Option<String>,
    intervals: Vec<Interval>,
    end: End,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Interval {
    sum: Sum,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct End {
    /// UDP: what was sent, and the share that the receiver missed.
    sum: Option<Sum>,
    sum_sent: Option<Sum>,
    sum_received: Option<Sum>,
    cpu_utilization_percent: Cpu,
}

/// iperf3's own `getrusage` over wall time: 100 is one CPU.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Cpu {
    host_total: Option<f64>,
    remote_total: Option<f64>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default)]
struct Sum {
    start: f64,
    end: f64,
    seconds: f64,
    bytes: f64,
    bits_per_second: f64,
    retransmits: Option<u64>,
    lost_percent: Option<f64>,
    #[serde(rename = "omitted")]
    is_warmup: bool,
}

impl Sum {
    /// The part of a sum that arrived. Versions before 3.11 have no other of UDP (esnet/iperf, issue 584).
    fn without_lost(self) -> Sum {
        let share = 1.0 - self.lost_percent.unwrap_or(0.0) / 100.0;
        Sum {
            bytes: self.bytes * share,
            bits_per_second: self.bits_per_second * share,
            ..self
        }
    }
}

/// The result, and about how many bytes arrived in the warm-up before it.
#[derive(Debug)]
pub struct Transfer {
    pub result: StreamResult,
    pub warmup_bytes: u64,
}

/// Reads the client's JSON. Errors: iperf3's own words, or what is missing.
pub fn parse(text: &str, udp: bool) -> Result<Transfer, String> {
    let document: Document =
        serde_json::from_str(text).map_err(|e| format!("its output is not its JSON ({e})"))?;
    if let Some(error) = document.error {
        return Err(error);
    }
    let end = document.end;
    let received = end
        .sum_received
        .clone()
        .or_else(|| end.sum.clone().map(Sum::without_lost))
        .filter(|s| s.bytes > 0.0)
        .ok_or("it reports no received bytes")?;
    let lost = end
        .sum
        .as_ref()
        .and_then(|s| s.lost_percent)
        .or(received.lost_percent);
    let lost_fraction = udp.then_some(lost).flatten().map(|p| p / 100.0);
    let cpu = [
        ("sender-process", end.cpu_utilization_percent.host_total),
        ("receiver-process", end.cpu_utilization_percent.remote_total),
    ];
    let per_byte = |percent: f64| percent / 100.0 * received.seconds * 1e9 / received.bytes;
    let finite = |v: f64| if v.is_finite() { v } else { 0.0 };
    let sent = |in_warmup: bool| -> f64 {
        let sums = document.intervals.iter().map(|interval| &interval.sum);
        let wanted = sums.filter(|sum| sum.is_warmup == in_warmup);
        wanted.map(|sum| sum.bytes).sum()
    };
    // The client knows what it sent in the warm-up. As much of it arrived as later.
    let warmup_bytes = sent(true) * finite(received.bytes / sent(false));
    let result = StreamResult {
        bits_per_second: finite(received.bits_per_second),
        bytes: received.bytes as u64,
        seconds: finite(received.seconds),
        retransmits: end.sum_sent.and_then(|s| s.retransmits),
        lost_fraction,
        cpu_ns_per_byte: cpu
            .into_iter()
            .filter_map(|(end, percent)| Some((end.to_string(), per_byte(percent?))))
            .filter(|(_, cost)| cost.is_finite())
            .collect(),
        intervals: document
            .intervals
            .iter()
            .filter(|i| !i.sum.is_warmup)
            .map(|i| {
                (
                    finite((i.sum.start + i.sum.end) / 2.0),
                    finite(i.sum.bits_per_second),
                )
            })
            .collect(),
    };
    Ok(Transfer {
        result,
        warmup_bytes: warmup_bytes as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tcp_and_udp_results_are_read() {
        let tcp = r#"{"intervals":[{"sum":{"start":0,"end":1,"bits_per_second":8e9,"omitted":false}}],
            "end":{"sum_sent":{"bytes":1000000000,"seconds":1,"retransmits":3,"bits_per_second":8e9},
            "cpu_utilization_percent":{"host_total":50,"remote_total":25},
            "sum_received":{"bytes":999999000,"seconds":1.0,"bits_per_second":7.9e9}}}"#;
        let r = parse(tcp, false).unwrap().result;
        assert_eq!((r.bytes, r.retransmits), (999_999_000, Some(3)));
        assert_eq!(r.intervals, [(0.5, 8e9)]);
        // Half a CPU for a second over 1e9 bytes.
        assert!((r.cpu_ns_per_byte["sender-process"] - 0.5).abs() < 1e-5);
        let udp = r#"{"end":{"sum":{"bytes":1000,"seconds":1,"bits_per_second":8000,"lost_percent":2.5}}}"#;
        let r = parse(udp, true).unwrap().result;
        assert_eq!(r.lost_fraction, Some(0.025));
        // Sent were 1000: this version does not say what the receiver counted.
        assert_eq!((r.bytes, r.bits_per_second), (975, 7800.0));
    }

    #[test]
    fn the_warm_up_has_bytes_that_arrived_as_later_ones_did() {
        let text = r#"{"intervals":[{"sum":{"bytes":640,"omitted":true}},{"sum":{"bytes":1000}},{"sum":{"bytes":1000}}],
            "end":{"sum_received":{"bytes":1500,"seconds":2,"bits_per_second":6000}}}"#;
        let transfer = parse(text, true).unwrap();
        assert_eq!((transfer.result.bytes, transfer.warmup_bytes), (1500, 480));
        let none = text.replace("640", "0");
        assert_eq!(parse(&none, true).unwrap().warmup_bytes, 0);
    }

    #[test]
    fn failures_are_told_in_its_words() {
        let error = r#"{"error":"unable to connect to server: Connection refused"}"#;
        assert!(
            parse(error, false)
                .unwrap_err()
                .contains("Connection refused")
        );
        assert!(parse("iperf3: command not found", false).is_err());
        assert!(
            parse("{}", false)
                .unwrap_err()
                .contains("no received bytes")
        );
    }
}
