//! The format of `samples.parquet`: row, schema, errors.
//!
//! All columns are 64-bit integers of nanoseconds or counts, so that pandas, DuckDB, R and Julia read them
//! without explanation. `seq`, `intended_ns` and `sent_ns` are always known; the other three are null where a
//! packet or a response never came. Columns are delta-encoded: timestamps and sequence numbers grow steadily,
//! so a row costs about 4 to 10 bytes instead of 48.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use latlab_model::results::SAMPLE_COLUMNS;
use parquet::basic::{Compression, Encoding, Repetition, Type as PhysicalType};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type, TypePtr};

/// Columns that are never null; the rest of [`SAMPLE_COLUMNS`] is null for a lost sample.
pub(crate) const REQUIRED_COLUMNS: usize = 3;

/// Rows in memory at once, of the writer (one row group) and of the reader (one batch): 6 columns of 8 bytes,
/// so about 6 MB for a measurement of any length.
pub(crate) const ROWS_AT_ONCE: usize = 1 << 17;

/// Key and value in the file's metadata that mark latlab's files.
const FORMAT_KEY: &str = "latlab.format";
pub(crate) const FORMAT: &str = "latlab.samples/1";

/// One transaction or packet. Times are nanoseconds since the start of the measurement on the
/// sender's clock, see [`SAMPLE_COLUMNS`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sample {
    /// From 0 in the order of sending.
    pub seq: u64,
    /// Scheduled time.
    pub intended_ns: i64,
    pub sent_ns: i64,
    /// Arrival of the packet, or of the response.
    pub received_ns: Option<i64>,
    /// `received - sent` for request/response, `received - intended` for an open-loop packet.
    pub latency_ns: Option<i64>,
    /// Order of arrival, from 0.
    pub arrival: Option<i64>,
}

#[derive(Debug, thiserror::Error)]
pub enum SamplesError {
    #[error("cannot {action} {path}")]
    Io {
        /// `create`, `open`, `flush`.
        action: &'static str,
        path: PathBuf,
        source: std::io::Error,
    },
    /// Writing failed part-way (a full disk, most often).
    #[error("cannot write samples to {path}")]
    Write { path: PathBuf, source: ParquetError },
    /// The file is not Parquet, was cut short (its footer is written last), or is damaged.
    #[error("cannot read samples of {path}: the file is truncated or damaged")]
    Damaged { path: PathBuf, source: ParquetError },
    #[error("{path} holds no samples: {what}")]
    Foreign { path: PathBuf, what: String },
    /// A sequence number or arrival beyond what a signed 64-bit column can hold.
    #[error("cannot write sample {seq} to {path}: out of range")]
    Range { path: PathBuf, seq: u64 },
}

impl SamplesError {
    /// The system's error of an action on a file.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            action,
            path,
            source,
        }
    }

    /// The Parquet library's error of a file that it reads.
    pub(crate) fn damaged(path: &Path) -> impl FnOnce(ParquetError) -> Self {
        let path = path.to_owned();
        move |source| Self::Damaged { path, source }
    }
}

/// How a table of some format is written. Its numbers are delta-encoded.
pub(crate) fn properties(format: &str, numbers: &[&str]) -> WriterProperties {
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("latlab {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_key_value_metadata(Some(vec![KeyValue::new(
            FORMAT_KEY.to_owned(),
            format.to_owned(),
        )]));
    for name in numbers {
        let column = ColumnPath::from(*name);
        properties = properties.set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    properties.build()
}

pub(crate) fn schema() -> Result<TypePtr, ParquetError> {
    let fields = SAMPLE_COLUMNS
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let repetition = if index < REQUIRED_COLUMNS {
                Repetition::REQUIRED
            } else {
                Repetition::OPTIONAL
            };
            Type::primitive_type_builder(name, PhysicalType::INT64)
                .with_repetition(repetition)
                .build()
                .map(Arc::new)
        })
        .collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(
        Type::group_type_builder("samples")
            .with_fields(fields)
            .build()?,
    ))
}
