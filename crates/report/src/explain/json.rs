//! Explanations as JSON.

use serde_json::{Value, json};

use super::code::{Code, Function};
use super::explanation::Explanation;
use crate::attribution::{self, Blame, Device, Explained};

impl Explanation {
    #[must_use]
    pub fn to_json(&self, most: usize) -> Value {
        let packets = self.attribution.worst.iter().zip(&self.of_trial).take(most);
        json!({
            "cell": self.cell,
            "trials": self.trials.iter().map(|part| part.trial).collect::<Vec<_>>(),
            "ruler": self.ruler(),
            "device": device(&self.attribution.device),
            "hop": self.hop,
            "packets": self.attribution.packets,
            "explained": self.attribution.worst.len(),
            "threshold_ns": self.attribution.threshold_ns,
            "usual_work_ns": self.attribution.usual_ns,
            "not_known": self.attribution.unknown,
            "blame": self.blames().iter().map(blame_json).collect::<Vec<_>>(),
            "code": self.code.as_ref().map(code_json),
            "worst": packets.map(|(one, trial)| packet_json(one, *trial)).collect::<Vec<_>>(),
        })
    }
}

fn device(device: &Device) -> Value {
    match device {
        Device::Task { pid, name } => json!({"task": name, "pid": pid}),
        Device::Kernel => json!("kernel"),
    }
}

fn code_json(code: &Code) -> Value {
    let function = |one: &Function| json!({"function": one.name, "slow": one.slow, "otherwise": one.otherwise});
    json!({
        "rate": code.rate,
        "samples_slow": code.slow.samples,
        "samples_otherwise": code.otherwise.samples,
        "samples_lost": code.lost,
        "functions": code.functions().iter().map(function).collect::<Vec<_>>(),
    })
}

fn blame_json(blame: &Blame) -> Value {
    let row = |row: &attribution::BlameRow| {
        json!({
            "cause": row.cause.to_string(),
            "kind": row.cause.kind(),
            "share": row.share,
            "time_ns": row.time_ns,
            "first_of": row.first_of,
            "remedy": row.remedy.map(|remedy| remedy.words),
            "knobs": row.remedy.map(|remedy| remedy.knobs),
        })
    };
    json!({
        "quantile": blame.quantile,
        "latency_ns": blame.latency_ns,
        "beyond": blame.beyond,
        "explained": blame.explained,
        "unexplained_share": blame.unexplained(),
        "causes": blame.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn packet_json(one: &Explained, trial: u32) -> Value {
    let part = |(cause, ns): &(attribution::Cause, u64)| json!({"cause": cause.to_string(), "kind": cause.kind(), "ns": ns});
    let piece = |piece: &attribution::Piece| {
        json!({
            "after_ns": piece.start_ns - one.passage.in_ns,
            "ns": piece.end_ns - piece.start_ns,
            "cause": piece.cause.to_string(),
            "kind": piece.cause.kind(),
            "cpu": piece.cpu,
            "parts": piece.parts.iter().map(part).collect::<Vec<_>>(),
        })
    };
    json!({
        "trial": trial,
        "flow": one.passage.flow,
        "seq": one.passage.sequence,
        "in_ns": one.passage.in_ns,
        "latency_ns": one.latency_ns(),
        "first": one.first.to_string(),
        "kind": one.first.kind(),
        "first_ns": one.first_ns,
        "function": one.function,
        "queued_behind": one.behind.as_ref().map(ToString::to_string),
        "episode": one.episode.as_ref().map(|e| json!({
            "begin_ns": e.start_ns,
            "end_ns": e.end_ns,
            "active_ns": e.active_ns,
        })),
        "pieces": one.pieces.iter().map(piece).collect::<Vec<_>>(),
    })
}
