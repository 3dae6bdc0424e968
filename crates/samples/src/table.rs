//! Further tables of a trial: records of the taps, the flight recorder and the steal watch, one Parquet file each.
//!
//! All columns are 64-bit integers, except an event's `text`. The tables are plain, for other tools to read.
//! Times are nanoseconds of the recording machine's monotonic clock, so that passages and events share a time
//! axis. Stolen time counts as the samples do, from the start of the measurement.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use latlab_wire::trace::{Event, EventKind, TEXT_BYTES};
use parquet::basic::{Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;

use crate::format::{ROWS_AT_ONCE, SamplesError, properties};
use crate::place::Place;
use crate::reader::guarded;
use crate::writer::refused;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Passage {
    /// Index of the pair of taps along the path.
    pub hop: u16,
    pub flow: u16,
    pub sequence: u32,
    pub in_ns: u64,
    /// Time at the tap behind the device; `None` if the packet was lost.
    pub out_ns: Option<u64>,
    pub in_cpu: u16,
    pub out_cpu: u16,
    /// Task running at the tap before the device; 0 is none.
    pub in_task: u32,
    /// Task running at the tap behind the device: the forwarder, if it is a program.
    pub out_task: u32,
    /// Low 32 bits of the steal counter of `in_cpu`, in ns.
    pub in_steal_ns: u32,
    /// Low 32 bits of the steal counter of `out_cpu`, in ns.
    pub out_steal_ns: u32,
    /// Length of the frame without its check sequence.
    pub bytes: u32,
}

impl Passage {
    #[must_use]
    pub fn latency_ns(&self) -> Option<u64> {
        self.out_ns.map(|out| out.saturating_sub(self.in_ns))
    }
}

/// Time that the hypervisor stole from one CPU, somewhere between two readings of its counter.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stretch {
    pub cpu: u16,
    /// The first reading, in ns since the start of the measurement.
    pub since_ns: i64,
    pub until_ns: i64,
    pub stolen_ns: i64,
}

/// A thread's stack at one instant.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack {
    pub time_ns: u64,
    /// The device along the path whose thread it is.
    pub hop: u16,
    pub cpu: u16,
    pub process: u32,
    pub task: u32,
    /// The thread's name and the functions, the outermost first, with semicolons between: the folded form of
    /// flamegraph.pl.
    pub frames: String,
}

const PASSAGES: Layout = Layout {
    format: "latlab.passages/1",
    numbers: &[
        "hop",
        "flow",
        "seq",
        "in_ns",
        "out_ns",
        "in_cpu",
        "out_cpu",
        "in_task",
        "out_task",
        "in_steal_ns",
        "out_steal_ns",
        "bytes",
    ],
    text: None,
};
const EVENTS: Layout = Layout {
    format: "latlab.events/1",
    numbers: &["time_ns", "steal_ns", "cpu", "kind", "detail", "a", "b"],
    text: Some("text"),
};
const STRETCHES: Layout = Layout {
    format: "latlab.stolen/1",
    numbers: &["cpu", "since_ns", "until_ns", "stolen_ns"],
    text: None,
};
const STACKS: Layout = Layout {
    format: "latlab.stacks/1",
    numbers: &["time_ns", "hop", "cpu", "process", "task"],
    text: Some("frames"),
};
/// A lost packet's `out_ns` in the file: no time is negative.
const NEVER: i64 = -1;

struct Layout {
    format: &'static str,
    numbers: &'static [&'static str],
    text: Option<&'static str>,
}

/// Writes passages as a stream: rows gather in memory up to one row group.
pub struct PassageWriter {
    path: PathBuf,
    file: SerializedFileWriter<File>,
    rows: Vec<Passage>,
}

impl PassageWriter {
    /// Creates the file, replacing an existing one.
    pub fn create(place: impl Into<Place>) -> Result<Self, SamplesError> {
        let place = place.into();
        Ok(PassageWriter {
            path: place.path().to_path_buf(),
            file: create(&place, &PASSAGES)?,
            rows: Vec::new(),
        })
    }

    /// Adds a passage. Those of a hop should come in the order of `in_ns`. Fails when a full row group cannot be
    /// written.
    pub fn push(&mut self, row: Passage) -> Result<(), SamplesError> {
        self.rows.push(row);
        if self.rows.len() >= ROWS_AT_ONCE {
            self.flush()
        } else {
            Ok(())
        }
    }

    /// Writes the remaining rows and the footer, and makes the file durable.
    pub fn finish(mut self) -> Result<(), SamplesError> {
        self.flush()?;
        finish(&self.path, self.file)
    }

    fn flush(&mut self) -> Result<(), SamplesError> {
        let number = |row: &Passage, column: usize| match column {
            0 => row.hop.into(),
            1 => row.flow.into(),
            2 => row.sequence.into(),
            3 => row.in_ns as i64,
            4 => row.out_ns.map_or(NEVER, |ns| ns as i64),
            5 => row.in_cpu.into(),
            6 => row.out_cpu.into(),
            7 => row.in_task.into(),
            8 => row.out_task.into(),
            9 => row.in_steal_ns.into(),
            10 => row.out_steal_ns.into(),
            _ => i64::from(row.bytes),
        };
        let written = write_group(&mut self.file, &PASSAGES, &self.rows, number, |_| {
            Vec::new()
        });
        written.map_err(|source| refused(&self.path, source))?;
        self.rows.clear();
        Ok(())
    }
}

pub fn write_passages(place: impl Into<Place>, rows: &[Passage]) -> Result<(), SamplesError> {
    let mut writer = PassageWriter::create(place)?;
    rows.iter().try_for_each(|row| writer.push(*row))?;
    writer.finish()
}

/// Reads passages one after the other, a row group in memory at a time. Fails when the file is not there, not whole,
/// or something else.
pub fn each_passage(
    place: impl Into<Place>,
    take: impl FnMut(Passage),
) -> Result<(), SamplesError> {
    let passage = |n: &[i64], _: &[u8]| {
        Some(Passage {
            hop: u16::try_from(n[0]).ok()?,
            flow: u16::try_from(n[1]).ok()?,
            sequence: u32::try_from(n[2]).ok()?,
            in_ns: u64::try_from(n[3]).ok()?,
            out_ns: match n[4] {
                NEVER => None,
                ns => Some(u64::try_from(ns).ok()?),
            },
            in_cpu: u16::try_from(n[5]).ok()?,
            out_cpu: u16::try_from(n[6]).ok()?,
            in_task: u32::try_from(n[7]).ok()?,
            out_task: u32::try_from(n[8]).ok()?,
            in_steal_ns: u32::try_from(n[9]).ok()?,
            out_steal_ns: u32::try_from(n[10]).ok()?,
            bytes: u32::try_from(n[11]).ok()?,
        })
    };
    read(&place.into(), &PASSAGES, passage, take)
}

pub fn write_stretches(place: impl Into<Place>, rows: &[Stretch]) -> Result<(), SamplesError> {
    let number = |row: &Stretch, column: usize| match column {
        0 => row.cpu.into(),
        1 => row.since_ns,
        2 => row.until_ns,
        _ => row.stolen_ns,
    };
    write_all(&place.into(), &STRETCHES, rows, number, |_| Vec::new())
}

/// Reads stolen time. Fails when the file is not there, not whole, or something else.
pub fn read_stretches(place: impl Into<Place>) -> Result<Vec<Stretch>, SamplesError> {
    let stretch = |n: &[i64], _: &[u8]| {
        let stretch = Stretch {
            cpu: u16::try_from(n[0]).ok()?,
            since_ns: n[1],
            until_ns: n[2],
            stolen_ns: n[3],
        };
        let is_possible = stretch.since_ns <= stretch.until_ns && stretch.stolen_ns >= 0;
        is_possible.then_some(stretch)
    };
    let mut all = Vec::new();
    read(&place.into(), &STRETCHES, stretch, |one| all.push(one))?;
    Ok(all)
}

pub fn write_events(place: impl Into<Place>, rows: &[Event]) -> Result<(), SamplesError> {
    let number = |row: &Event, column: usize| match column {
        0 => row.time_ns as i64,
        1 => row.steal_ns as i64,
        2 => row.cpu.into(),
        3 => (row.kind as u8).into(),
        4 => row.detail.into(),
        5 => row.a.into(),
        _ => row.b as i64,
    };
    let text = |row: &Event| {
        let end = row.text.iter().position(|&byte| byte == 0);
        row.text[..end.unwrap_or(TEXT_BYTES)].to_vec()
    };
    write_all(&place.into(), &EVENTS, rows, number, text)
}

/// Reads kernel events. Fails when the file is not there, not whole, or something else.
pub fn read_events(place: impl Into<Place>) -> Result<Vec<Event>, SamplesError> {
    let event = |n: &[i64], text: &[u8]| {
        let mut event = Event {
            time_ns: n[0] as u64,
            steal_ns: n[1] as u64,
            cpu: u16::try_from(n[2]).ok()?,
            kind: EventKind::from_number(u8::try_from(n[3]).ok()?)?,
            detail: u8::try_from(n[4]).ok()?,
            a: u32::try_from(n[5]).ok()?,
            b: n[6] as u64,
            text: [0; TEXT_BYTES],
        };
        let length = text.len().min(TEXT_BYTES);
        event.text[..length].copy_from_slice(&text[..length]);
        Some(event)
    };
    let mut all = Vec::new();
    read(&place.into(), &EVENTS, event, |event| all.push(event))?;
    Ok(all)
}

pub fn write_stacks(place: impl Into<Place>, rows: &[Stack]) -> Result<(), SamplesError> {
    let number = |row: &Stack, column: usize| match column {
        0 => row.time_ns as i64,
        1 => row.hop.into(),
        2 => row.cpu.into(),
        3 => row.process.into(),
        _ => row.task.into(),
    };
    let text = |row: &Stack| row.frames.as_bytes().to_vec();
    write_all(&place.into(), &STACKS, rows, number, text)
}

/// Reads stacks. Fails when the file is not there, not whole, or something else. Control characters are replaced:
/// names of functions go to terminals.
pub fn read_stacks(place: impl Into<Place>) -> Result<Vec<Stack>, SamplesError> {
    let stack = |n: &[i64], text: &[u8]| {
        let frames = String::from_utf8_lossy(text);
        Some(Stack {
            time_ns: n[0] as u64,
            hop: u16::try_from(n[1]).ok()?,
            cpu: u16::try_from(n[2]).ok()?,
            process: u32::try_from(n[3]).ok()?,
            task: u32::try_from(n[4]).ok()?,
            frames: frames.replace(char::is_control, "?"),
        })
    };
    let mut all = Vec::new();
    read(&place.into(), &STACKS, stack, |one| all.push(one))?;
    Ok(all)
}

fn create(place: &Place, layout: &Layout) -> Result<SerializedFileWriter<File>, SamplesError> {
    let path = place.path();
    let file = place.create().map_err(SamplesError::io("create", path))?;
    let schema = layout.schema().map_err(|source| refused(path, source))?;
    let properties = properties(layout.format, layout.numbers);
    SerializedFileWriter::new(file, Arc::new(schema), Arc::new(properties))
        .map_err(|source| refused(path, source))
}

fn finish(path: &Path, file: SerializedFileWriter<File>) -> Result<(), SamplesError> {
    let file = file.into_inner().map_err(|source| refused(path, source))?;
    file.sync_all().map_err(SamplesError::io("flush", path))
}

fn write_all<R>(
    place: &Place,
    layout: &Layout,
    rows: &[R],
    number: impl Fn(&R, usize) -> i64,
    text: impl Fn(&R) -> Vec<u8>,
) -> Result<(), SamplesError> {
    let path = place.path();
    let mut file = create(place, layout)?;
    for rows in rows.chunks(ROWS_AT_ONCE) {
        let written = write_group(&mut file, layout, rows, &number, &text);
        written.map_err(|source| refused(path, source))?;
    }
    finish(path, file)
}

fn write_group<R>(
    file: &mut SerializedFileWriter<File>,
    layout: &Layout,
    rows: &[R],
    number: impl Fn(&R, usize) -> i64,
    text: impl Fn(&R) -> Vec<u8>,
) -> Result<(), ParquetError> {
    if rows.is_empty() {
        return Ok(());
    }
    let mut group = file.next_row_group()?;
    for column in 0..layout.numbers.len() {
        let values: Vec<i64> = rows.iter().map(|row| number(row, column)).collect();
        if let Some(mut writer) = group.next_column()? {
            writer
                .typed::<Int64Type>()
                .write_batch(&values, None, None)?;
            writer.close()?;
        }
    }
    if layout.text.is_some() {
        let values: Vec<ByteArray> = rows.iter().map(|row| text(row).into()).collect();
        if let Some(mut writer) = group.next_column()? {
            let typed = writer.typed::<ByteArrayType>();
            typed.write_batch(&values, None, None)?;
            writer.close()?;
        }
    }
    group.close()?;
    Ok(())
}

fn read<R>(
    place: &Place,
    layout: &Layout,
    row: impl Fn(&[i64], &[u8]) -> Option<R>,
    mut take: impl FnMut(R),
) -> Result<(), SamplesError> {
    let path = place.path();
    let file = place.open().map_err(SamplesError::io("open", path))?;
    let file = guarded(|| SerializedFileReader::new(file));
    let file = file.map_err(SamplesError::damaged(path))?;
    let positions = layout
        .positions(&file)
        .map_err(|what| SamplesError::Foreign {
            path: path.to_path_buf(),
            what,
        })?;
    guarded(|| {
        (0..file.num_row_groups())
            .try_for_each(|group| read_group(&file, group, &positions, layout, &row, &mut take))
    })
    .map_err(SamplesError::damaged(path))
}

fn read_group<R>(
    file: &SerializedFileReader<File>,
    group: usize,
    positions: &[usize],
    layout: &Layout,
    row: &impl Fn(&[i64], &[u8]) -> Option<R>,
    take: &mut impl FnMut(R),
) -> Result<(), ParquetError> {
    let bad = |what: &str| ParquetError::General(what.to_owned());
    let group = file.get_row_group(group)?;
    let rows = usize::try_from(group.metadata().num_rows())
        .map_err(|_| bad("a row group claims a negative number of rows"))?;
    let mut numbers: Vec<Vec<i64>> = Vec::new();
    let mut texts: Vec<ByteArray> = Vec::new();
    for (column, &position) in positions.iter().enumerate() {
        let reader = group.get_column_reader(position)?;
        let read = match reader {
            ColumnReader::Int64ColumnReader(_) if column < layout.numbers.len() => {
                let mut values = Vec::new();
                get_typed_column_reader::<Int64Type>(reader).read_records(
                    rows,
                    None,
                    None,
                    &mut values,
                )?;
                numbers.push(values);
                numbers[column].len()
            }
            ColumnReader::ByteArrayColumnReader(_) if column == layout.numbers.len() => {
                get_typed_column_reader::<ByteArrayType>(reader)
                    .read_records(rows, None, None, &mut texts)?;
                texts.len()
            }
            _ => return Err(bad("a column is of another type")),
        };
        if read != rows {
            return Err(bad("a column ends before the others"));
        }
    }
    let mut values = vec![0; numbers.len()];
    for at in 0..rows {
        for (value, column) in values.iter_mut().zip(&numbers) {
            *value = column[at];
        }
        let text = texts.get(at).map_or(&[][..], ByteArray::data);
        take(row(&values, text).ok_or_else(|| bad("a row says what cannot be"))?);
    }
    Ok(())
}

impl Layout {
    fn schema(&self) -> Result<Type, ParquetError> {
        let field = |name: &str, kind| {
            let builder = Type::primitive_type_builder(name, kind);
            builder
                .with_repetition(Repetition::REQUIRED)
                .build()
                .map(Arc::new)
        };
        let mut fields = Vec::new();
        for name in self.numbers {
            fields.push(field(name, PhysicalType::INT64)?);
        }
        if let Some(name) = self.text {
            fields.push(field(name, PhysicalType::BYTE_ARRAY)?);
        }
        Type::group_type_builder("rows").with_fields(fields).build()
    }

    /// Position of each column in a file, which may have more.
    fn positions(&self, file: &SerializedFileReader<File>) -> Result<Vec<usize>, String> {
        let schema = file.metadata().file_metadata().schema_descr();
        let names = self.numbers.iter().chain(self.text.iter());
        names
            .map(|name| {
                let found = schema.columns().iter().position(|column| {
                    column.path().string() == *name
                        && column.max_rep_level() == 0
                        && column.max_def_level() == 0
                });
                found.ok_or_else(|| format!("it has no column {name}"))
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    fn passage(sequence: u32) -> Passage {
        Passage {
            hop: 1,
            flow: 7,
            sequence,
            in_ns: 1 << 40,
            out_ns: (sequence % 3 != 0).then_some(u64::from(sequence) + (1 << 40)),
            in_cpu: 3,
            out_cpu: 127,
            in_task: u32::MAX,
            out_task: 9,
            in_steal_ns: u32::MAX,
            out_steal_ns: 1,
            bytes: 60,
        }
    }

    fn read_passages(path: &Path) -> Result<Vec<Passage>, SamplesError> {
        let mut all = Vec::new();
        each_passage(path, |passage| all.push(passage))?;
        Ok(all)
    }

    fn event(number: u64) -> Event {
        let mut event = Event {
            time_ns: number * 1000,
            steal_ns: number,
            cpu: 2,
            kind: EventKind::ALL[number as usize % EventKind::ALL.len()],
            detail: 1,
            a: u32::MAX,
            b: u64::MAX - number,
            text: [0; TEXT_BYTES],
        };
        event.set_text(["", "eth0", "a name as long as", "kworker/0:1"][number as usize % 4]);
        event
    }

    #[test]
    fn tables_are_read_back() {
        let scratch = Scratch::new("tables");
        let path = scratch.path().join("t.parquet");
        for count in [0, 1, 10, ROWS_AT_ONCE as u32 + 3] {
            let rows: Vec<Passage> = (0..count).map(passage).collect();
            write_passages(&path, &rows).unwrap();
            assert!(read_passages(&path).unwrap() == rows);
        }
        let rows: Vec<Event> = (0..100).map(event).collect();
        write_events(&path, &rows).unwrap();
        assert!(read_events(&path).unwrap() == rows);
    }

    #[test]
    fn stolen_time_is_read_back_and_impossible_times_are_refused() {
        let scratch = Scratch::new("stolen-table");
        let path = scratch.path().join("t.parquet");
        let stretch = |n: i64| Stretch {
            cpu: 1,
            since_ns: n * 100 - 50,
            until_ns: n * 100,
            stolen_ns: n,
        };
        let rows: Vec<Stretch> = (0..100).map(stretch).collect();
        write_stretches(&path, &rows).unwrap();
        assert_eq!(read_stretches(&path).unwrap(), rows);
        let backwards = Stretch {
            since_ns: 5,
            ..Stretch::default()
        };
        write_stretches(&path, &[backwards]).unwrap();
        assert!(read_stretches(&path).is_err());
    }

    #[test]
    fn one_table_is_not_another() {
        let scratch = Scratch::new("other-table");
        let path = scratch.path().join("t.parquet");
        write_events(&path, &[event(1)]).unwrap();
        let error = read_passages(&path).unwrap_err();
        assert!(matches!(error, SamplesError::Foreign { .. }), "{error}");
    }

    #[test]
    fn every_truncation_is_an_error() {
        let scratch = Scratch::new("cut-table");
        let path = scratch.path().join("t.parquet");
        write_events(&path, &(0..50).map(event).collect::<Vec<_>>()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(read_events(&path).is_err(), "{length} of {}", whole.len());
        }
    }
}
