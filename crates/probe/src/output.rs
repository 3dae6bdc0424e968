//! How a probe speaks: the messages of [`latlab_wire::samples`] on standard output.
//!
//! For people at a terminal, and for scripts, the same messages come as one JSON object a line;
//! samples then are rows of `[sequence, flow, flags, start_ns, end_ns]`.

use std::io::{self, IsTerminal, Write};

use latlab_wire::samples::{
    Message, Phase, Progress, RECORDS_PER_MESSAGE, Ready, Record, Report, SampleKind,
    encode_samples,
};
use serde_json::json;

use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Length-prefixed messages, for latlab.
    Frames,
    Json,
}

pub struct Output {
    format: Format,
    to: Box<dyn Write>,
    buffer: Vec<u8>,
}

impl Output {
    /// Standard output; frames, unless a person would see them.
    pub fn stdout() -> Output {
        let stdout = io::stdout();
        Output {
            format: match stdout.is_terminal() {
                true => Format::Json,
                false => Format::Frames,
            },
            to: Box::new(stdout),
            buffer: Vec::new(),
        }
    }

    pub fn set_format(&mut self, format: Format) {
        self.format = format;
    }

    pub fn ready(&mut self, ready: Ready) -> Result<()> {
        self.message(&Message::Ready(ready))
    }

    pub fn progress(&mut self, phase: Phase, expected_ns: Option<u64>) -> Result<()> {
        self.message(&Message::Progress(Progress { phase, expected_ns }))
    }

    pub fn samples(&mut self, kind: SampleKind, records: &[Record]) -> Result<()> {
        for block in records.chunks(RECORDS_PER_MESSAGE) {
            match self.format {
                Format::Frames => encode_samples(kind, block, &mut self.buffer),
                Format::Json => {
                    let rows: Vec<_> = block
                        .iter()
                        .map(|r| json!([r.sequence, r.flow, r.flags, r.start_ns, r.end_ns]))
                        .collect();
                    self.line(&json!({"samples": {"kind": kind, "records": rows}}));
                }
            }
            self.flush()?;
        }
        Ok(())
    }

    pub fn report(&mut self, report: Report) -> Result<()> {
        self.message(&Message::Report(Box::new(report)))
    }

    pub fn error(&mut self, error: &Error) -> Result<()> {
        self.message(&Message::Error(error.to_string()))
    }

    fn message(&mut self, message: &Message) -> Result<()> {
        match (self.format, message) {
            (Format::Frames, message) => message.encode(&mut self.buffer),
            (Format::Json, Message::Ready(body)) => self.line(&json!({"ready": body})),
            (Format::Json, Message::Progress(body)) => self.line(&json!({"progress": body})),
            (Format::Json, Message::Report(body)) => self.line(&json!({"report": body})),
            (Format::Json, Message::Error(body)) => self.line(&json!({"error": body})),
            (Format::Json, Message::Samples(samples)) => {
                return self.samples(samples.kind, &samples.records);
            }
        }
        self.flush()
    }

    fn line(&mut self, value: &serde_json::Value) {
        self.buffer.extend_from_slice(value.to_string().as_bytes());
        self.buffer.push(b'\n');
    }

    fn flush(&mut self) -> Result<()> {
        let written = self
            .to
            .write_all(&self.buffer)
            .and_then(|()| self.to.flush());
        self.buffer.clear();
        written.map_err(Error::Output)
    }
}
