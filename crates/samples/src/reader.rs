//! Reads `samples.parquet` as a stream of batches of bounded size.
//!
//! A run directory may come from another machine, by mail, or from a full disk. Damage is an error that names
//! the file, never a panic or a guess. Files of other writers are accepted if they have the columns.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;

use latlab_model::results::SAMPLE_COLUMNS;
use parquet::basic::Type as PhysicalType;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_typed_column_reader};
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::format::{REQUIRED_COLUMNS, ROWS_AT_ONCE, Sample, SamplesError};
use crate::place::Place;

pub struct SampleReader {
    path: PathBuf,
    file: SerializedFileReader<File>,
    /// Position of each of [`SAMPLE_COLUMNS`] in this file.
    positions: [usize; 6],
    rows: u64,
    next_group: usize,
    group: Option<Group>,
}

struct Group {
    columns: Vec<ColumnReaderImpl<Int64Type>>,
    left: usize,
}

impl SampleReader {
    /// Opens the file and checks its columns. Fails when it is missing, truncated, damaged, or holds something else.
    pub fn open(place: impl Into<Place>) -> Result<Self, SamplesError> {
        let place = place.into();
        let path = place.path().to_path_buf();
        let file = place.open().map_err(SamplesError::io("open", &path))?;
        let file = guarded(|| SerializedFileReader::new(file));
        let file = file.map_err(SamplesError::damaged(&path))?;
        let foreign = |what| SamplesError::Foreign {
            path: path.clone(),
            what,
        };
        let positions = positions(&file).map_err(foreign)?;
        let rows = file.metadata().file_metadata().num_rows();
        let rows = u64::try_from(rows).map_err(|_| foreign(format!("it claims {rows} rows")))?;
        Ok(Self {
            path,
            file,
            positions,
            rows,
            next_group: 0,
            group: None,
        })
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Replaces the contents of `batch` by the next samples; false, with an empty batch, at the end.
    pub fn next_batch(&mut self, batch: &mut Vec<Sample>) -> Result<bool, SamplesError> {
        batch.clear();
        let read = guarded(|| self.fill(batch));
        read.map_err(SamplesError::damaged(&self.path))
    }

    /// Reads the remaining samples into memory; for tests and small files.
    pub fn read_all(mut self) -> Result<Vec<Sample>, SamplesError> {
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while self.next_batch(&mut batch)? {
            all.append(&mut batch);
        }
        Ok(all)
    }

    fn fill(&mut self, batch: &mut Vec<Sample>) -> Result<bool, ParquetError> {
        loop {
            match &mut self.group {
                Some(group) if group.left > 0 => {
                    group.read(batch)?;
                    return Ok(true);
                }
                _ if self.next_group < self.file.num_row_groups() => self.open_group()?,
                _ => return Ok(false),
            }
        }
    }

    fn open_group(&mut self) -> Result<(), ParquetError> {
        let group = self.file.get_row_group(self.next_group)?;
        let left = usize::try_from(group.metadata().num_rows())
            .map_err(|_| damaged("a row group claims a negative number of rows"))?;
        let columns = self
            .positions
            .iter()
            .map(|&position| match group.get_column_reader(position)? {
                reader @ ColumnReader::Int64ColumnReader(_) => Ok(get_typed_column_reader(reader)),
                _ => Err(damaged("a column is not INT64")),
            })
            .collect::<Result<_, _>>()?;
        self.group = Some(Group { columns, left });
        self.next_group += 1;
        Ok(())
    }
}

impl Group {
    fn read(&mut self, batch: &mut Vec<Sample>) -> Result<(), ParquetError> {
        let wanted = self.left.min(ROWS_AT_ONCE);
        for (index, column) in self.columns.iter_mut().enumerate() {
            let (mut values, mut levels) = (Vec::new(), Vec::new());
            let (records, _, _) =
                column.read_records(wanted, Some(&mut levels), None, &mut values)?;
            if records != wanted {
                return Err(damaged("a column ends before the others"));
            }
            if index == 0 {
                batch.resize(wanted, Sample::default());
            }
            place(index, batch, &values, &levels)?;
        }
        self.left -= wanted;
        Ok(())
    }
}

/// Stores one column's values in the rows; nulls have a level of 0 and no value.
fn place(
    index: usize,
    batch: &mut [Sample],
    values: &[i64],
    levels: &[i16],
) -> Result<(), ParquetError> {
    let optional = !levels.is_empty();
    let present = if optional {
        levels.iter().filter(|&&l| l > 0).count()
    } else {
        batch.len()
    };
    if present != values.len() || (optional && levels.len() != batch.len()) {
        return Err(damaged("a column's values do not match its rows"));
    }
    if index < REQUIRED_COLUMNS && present != batch.len() {
        return Err(damaged("a column that must not be null is"));
    }
    let mut values = values.iter().copied();
    for (row, sample) in batch.iter_mut().enumerate() {
        let value = if optional && levels[row] == 0 {
            None
        } else {
            values.next()
        };
        match index {
            0 => {
                sample.seq = u64::try_from(value.unwrap_or_default())
                    .map_err(|_| damaged("a sequence number is negative"))?;
            }
            1 => sample.intended_ns = value.unwrap_or_default(),
            2 => sample.sent_ns = value.unwrap_or_default(),
            3 => sample.received_ns = value,
            4 => sample.latency_ns = value,
            _ => sample.arrival = value,
        }
    }
    Ok(())
}

fn positions(file: &SerializedFileReader<File>) -> Result<[usize; 6], String> {
    let schema = file.metadata().file_metadata().schema_descr();
    let mut positions = [0; 6];
    for (slot, name) in positions.iter_mut().zip(SAMPLE_COLUMNS) {
        let (position, column) = schema
            .columns()
            .iter()
            .enumerate()
            .find(|(_, column)| column.path().string() == name)
            .ok_or_else(|| format!("it has no column {name}"))?;
        if column.physical_type() != PhysicalType::INT64 || column.max_rep_level() != 0 {
            return Err(format!("its column {name} is not INT64"));
        }
        *slot = position;
    }
    Ok(positions)
}

fn damaged(what: &str) -> ParquetError {
    ParquetError::General(what.to_owned())
}

/// Runs a decoder of the Parquet library on outside data. It trusts the footer and panics on some damaged files
/// (parquet 59: a column chunk of negative length, found by the test below); such a panic counts as "damaged".
pub(crate) fn guarded<T>(
    read: impl FnOnce() -> Result<T, ParquetError>,
) -> Result<T, ParquetError> {
    catch_unwind(AssertUnwindSafe(read))
        .unwrap_or_else(|_| Err(damaged("the Parquet library gave up on it")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::SampleWriter;
    use crate::scratch::Scratch;

    /// Every seventh is lost; arrival differs from the order of sending.
    fn some(count: u64) -> Vec<Sample> {
        let sample = |seq: u64| {
            let due = seq as i64 * 1_000_003;
            let got = (seq % 7 != 3).then_some(due + 5_000 + (seq as i64 * 7919) % 977);
            Sample {
                seq,
                intended_ns: due,
                sent_ns: due + 120,
                received_ns: got,
                latency_ns: got.map(|at| at - due),
                arrival: got.map(|_| (seq ^ 1) as i64),
            }
        };
        (0..count).map(sample).collect()
    }

    fn write(path: &Path, samples: &[Sample]) {
        let mut writer = SampleWriter::create(path).unwrap();
        writer.push_batch(samples).unwrap();
        assert_eq!(writer.finish().unwrap(), samples.len() as u64);
    }

    #[test]
    fn samples_are_read_back_across_row_groups() {
        let scratch = Scratch::new("round");
        let path = scratch.path().join("samples.parquet");
        let samples = some(2 * ROWS_AT_ONCE as u64 + 17);
        write(&path, &samples);

        let mut reader = SampleReader::open(&path).unwrap();
        assert_eq!(reader.rows(), samples.len() as u64);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while reader.next_batch(&mut batch).unwrap() {
            assert!(batch.len() <= ROWS_AT_ONCE);
            all.append(&mut batch);
        }
        assert!(all == samples);
    }

    #[test]
    fn extreme_values_and_an_empty_file_survive() {
        let scratch = Scratch::new("extremes");
        let path = scratch.path().join("samples.parquet");
        let extreme = |value| Sample {
            seq: i64::MAX as u64,
            intended_ns: value,
            sent_ns: value,
            received_ns: Some(value),
            latency_ns: Some(value),
            arrival: None,
        };
        for samples in [
            vec![],
            vec![extreme(i64::MIN), extreme(i64::MAX), extreme(-1)],
        ] {
            write(&path, &samples);
            assert_eq!(
                SampleReader::open(&path).unwrap().read_all().unwrap(),
                samples
            );
        }
    }

    #[test]
    fn an_unfinished_file_is_refused() {
        let scratch = Scratch::new("unfinished");
        let path = scratch.path().join("samples.parquet");
        let mut writer = SampleWriter::create(&path).unwrap();
        writer.push_batch(&some(ROWS_AT_ONCE as u64 + 1)).unwrap();
        drop(writer);
        assert!(matches!(
            SampleReader::open(&path),
            Err(SamplesError::Damaged { .. })
        ));
    }

    #[test]
    fn every_truncation_is_an_error() {
        let scratch = Scratch::new("truncated");
        let path = scratch.path().join("samples.parquet");
        write(&path, &some(100));
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let read = SampleReader::open(&path).and_then(SampleReader::read_all);
            assert!(
                read.is_err(),
                "{length} of {} bytes were accepted",
                whole.len()
            );
        }
    }

    #[test]
    fn damage_is_an_error_or_other_numbers_but_never_a_panic() {
        let scratch = Scratch::new("damaged");
        let path = scratch.path().join("samples.parquet");
        write(&path, &some(300));
        let whole = std::fs::read(&path).unwrap();
        for position in 0..whole.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[position] ^= flip;
                std::fs::write(&path, &bytes).unwrap();
                // A flipped bit of a value is left to the checksums.
                let _ = SampleReader::open(&path).and_then(SampleReader::read_all);
            }
        }
    }

    #[test]
    fn another_parquet_file_is_named_as_foreign() {
        use parquet::file::properties::WriterProperties;
        use parquet::file::writer::SerializedFileWriter;
        use parquet::schema::parser::parse_message_type;
        use std::sync::Arc;

        let scratch = Scratch::new("foreign");
        let path = scratch.path().join("other.parquet");
        let schema = parse_message_type("message other { required int64 seq; }").unwrap();
        let file = File::create(&path).unwrap();
        let properties = Arc::new(WriterProperties::builder().build());
        let writer = SerializedFileWriter::new(file, Arc::new(schema), properties).unwrap();
        writer.close().unwrap();
        let error = SampleReader::open(&path).err().unwrap().to_string();
        assert!(error.contains("no column intended_ns"), "{error}");
    }
}
