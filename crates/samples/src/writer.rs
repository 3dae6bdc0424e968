//! Writes `samples.parquet` as a stream: rows gather in memory up to one row group, so ten million samples
//! need no more memory than a hundred thousand.
//!
//! The footer is Parquet's mark of completeness. Only [`SampleWriter::finish`] writes it, so a run killed
//! part-way leaves a file that every reader refuses.

use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use latlab_model::results::SAMPLE_COLUMNS;
use parquet::data_type::Int64Type;
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};

use crate::format::{FORMAT, ROWS_AT_ONCE, Sample, SamplesError, properties, schema};
use crate::place::Place;

pub struct SampleWriter {
    path: PathBuf,
    file: SerializedFileWriter<BufWriter<File>>,
    rows: Vec<Sample>,
    written: u64,
}

impl SampleWriter {
    /// Creates the file, replacing an existing one.
    pub fn create(place: impl Into<Place>) -> Result<Self, SamplesError> {
        let place = place.into();
        let path = place.path().to_path_buf();
        let file = place.create().map_err(SamplesError::io("create", &path))?;
        let file = schema()
            .and_then(|schema| {
                let properties = Arc::new(properties(FORMAT, &SAMPLE_COLUMNS));
                SerializedFileWriter::new(BufWriter::new(file), schema, properties)
            })
            .map_err(|source| refused(&path, source))?;
        Ok(Self {
            path,
            file,
            rows: Vec::new(),
            written: 0,
        })
    }

    /// Adds one sample. Samples should come in the order of `seq`: time series and the search for clock jumps follow
    /// the order of rows. Fails when a full row group cannot be written.
    pub fn push(&mut self, sample: &Sample) -> Result<(), SamplesError> {
        self.rows.push(*sample);
        if self.rows.len() >= ROWS_AT_ONCE {
            self.flush()
        } else {
            Ok(())
        }
    }

    pub fn push_batch(&mut self, samples: &[Sample]) -> Result<(), SamplesError> {
        samples.iter().try_for_each(|sample| self.push(sample))
    }

    /// Writes the remaining rows and the footer, and makes the file durable. Returns the number of samples.
    pub fn finish(mut self) -> Result<u64, SamplesError> {
        self.flush()?;
        let finished = self.file.finish();
        finished.map_err(|source| refused(&self.path, source))?;
        let synced = self.file.inner().get_ref().sync_all();
        synced.map_err(SamplesError::io("flush", &self.path))?;
        Ok(self.written)
    }

    fn flush(&mut self) -> Result<(), SamplesError> {
        if self.rows.is_empty() {
            return Ok(());
        }
        let group = columns(&self.rows).map_err(|seq| SamplesError::Range {
            path: self.path.clone(),
            seq,
        })?;
        let written = self
            .file
            .next_row_group()
            .and_then(|writer| write_group(writer, &group));
        written.map_err(|source| refused(&self.path, source))?;
        self.written += self.rows.len() as u64;
        self.rows.clear();
        Ok(())
    }
}

/// Values and, for a column that may be null, definition levels (1: there, 0: null).
struct Column {
    values: Vec<i64>,
    levels: Option<Vec<i16>>,
}

/// Turns rows into columns; the error is the `seq` of a row that does not fit.
fn columns(rows: &[Sample]) -> Result<[Column; 6], u64> {
    let seq = rows
        .iter()
        .map(|row| i64::try_from(row.seq).map_err(|_| row.seq))
        .collect::<Result<_, _>>()?;
    let required = |values| Column {
        values,
        levels: None,
    };
    let optional = |field: fn(&Sample) -> Option<i64>| Column {
        values: rows.iter().filter_map(field).collect(),
        levels: Some(
            rows.iter()
                .map(|row| i16::from(field(row).is_some()))
                .collect(),
        ),
    };
    Ok([
        required(seq),
        required(rows.iter().map(|row| row.intended_ns).collect()),
        required(rows.iter().map(|row| row.sent_ns).collect()),
        optional(|row| row.received_ns),
        optional(|row| row.latency_ns),
        optional(|row| row.arrival),
    ])
}

fn write_group(
    mut group: SerializedRowGroupWriter<'_, BufWriter<File>>,
    columns: &[Column],
) -> Result<(), ParquetError> {
    for column in columns {
        let mut writer = group.next_column()?.ok_or_else(|| {
            ParquetError::General("the schema has fewer columns than a sample".to_owned())
        })?;
        writer
            .typed::<Int64Type>()
            .write_batch(&column.values, column.levels.as_deref(), None)?;
        writer.close()?;
    }
    group.close().map(|_| ())
}

/// Parquet's error, or the system's if Parquet only hands it on.
pub(crate) fn refused(path: &Path, source: ParquetError) -> SamplesError {
    let source = match source {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(source) => return SamplesError::io("write", path)(*source),
            Err(inner) => ParquetError::External(inner),
        },
        other => other,
    };
    SamplesError::Write {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_an_error_that_names_the_file() {
        let mut writer = SampleWriter::create("/dev/full").unwrap();
        let samples = vec![Sample::default(); ROWS_AT_ONCE / 2];
        let error = writer
            .push_batch(&samples)
            .and_then(|()| writer.finish())
            .unwrap_err();
        assert!(error.to_string().contains("/dev/full"), "{error}");
    }

    #[test]
    fn a_number_that_no_column_holds_is_refused() {
        let mut writer = SampleWriter::create("/dev/null").unwrap();
        writer
            .push(&Sample {
                seq: u64::MAX,
                ..Sample::default()
            })
            .unwrap();
        assert!(matches!(
            writer.finish(),
            Err(SamplesError::Range { seq: u64::MAX, .. })
        ));
    }
}
