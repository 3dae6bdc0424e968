//! Messages of the gateway: protobuf's JSON mapping, in which bytes are base64 and 64-bit numbers are strings. A field whose
//! value is zero is left out.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Bytes of a key or a value that are text.
#[derive(Debug, Clone)]
pub(super) struct Text(String);

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    let bytes = STANDARD.decode(text).map_err(serde::de::Error::custom)?;
    // A key of others may be no text. It is none of ours then, whatever it reads.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    let text = String::deserialize(deserializer)?;
    text.parse().map_err(serde::de::Error::custom)
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Header {
    #[serde(deserialize_with = "number")]
    pub revision: u64,
}

/// A key with its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct KeyValue {
    #[serde(deserialize_with = "text")]
    pub key: String,
    #[serde(deserialize_with = "text")]
    pub value: String,
    /// The store's revision at its last change.
    #[serde(rename = "mod_revision", deserialize_with = "number")]
    pub revision: u64,
}

/// The smallest key behind all that begin with `prefix`: etcd's way to name them.
pub(super) fn behind(prefix: &str) -> String {
    // A prefix of ours ends with a character of ASCII, of which there is a next one.
    let mut end = prefix.to_string();
    if let Some(last) = end.pop() {
        end.push(char::from_u32(u32::from(last) + 1).unwrap_or(last));
    }
    end
}

#[derive(Debug, Serialize)]
pub(super) struct Range {
    key: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    range_end: Option<Text>,
}

impl Range {
    pub fn prefix(prefix: &str) -> Range {
        Range {
            key: Text(prefix.into()),
            range_end: Some(Text(behind(prefix))),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct RangeAnswer {
    pub header: Header,
    #[serde(default)]
    pub kvs: Vec<KeyValue>,
}

/// A condition of a transaction.
#[derive(Debug, Clone, Serialize)]
pub struct Compare {
    result: &'static str,
    target: &'static str,
    key: Text,
    #[serde(flatten)]
    with: With,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "snake_case")]
enum With {
    ModRevision(String),
    Value(Text),
    Lease(String),
}

impl Compare {
    /// The key was last changed at this revision; 0: it is not there.
    #[must_use]
    pub fn is_at(key: &str, revision: u64) -> Compare {
        Compare {
            result: "EQUAL",
            target: "MOD",
            key: Text(key.into()),
            with: With::ModRevision(revision.to_string()),
        }
    }

    /// The key is there, with this value.
    #[must_use]
    pub fn has(key: &str, value: &str) -> Compare {
        Compare {
            result: "EQUAL",
            target: "VALUE",
            key: Text(key.into()),
            with: With::Value(Text(value.into())),
        }
    }

    /// The key is there, under this lease.
    #[must_use]
    pub fn is_leased(key: &str, lease: u64) -> Compare {
        Compare {
            result: "EQUAL",
            target: "LEASE",
            key: Text(key.into()),
            with: With::Lease(lease.to_string()),
        }
    }

    #[must_use]
    pub fn is_absent(key: &str) -> Compare {
        Compare::is_at(key, 0)
    }

    #[must_use]
    pub fn is_present(key: &str) -> Compare {
        Compare {
            result: "GREATER",
            ..Compare::is_at(key, 0)
        }
    }
}

#[derive(Debug, Serialize)]
struct Put {
    key: Text,
    value: Text,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease: Option<String>,
}

/// A change by a transaction.
#[derive(Debug, Serialize)]
pub struct Operation(Request);

#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    RequestPut(Put),
    RequestDeleteRange(Range),
}

impl Operation {
    #[must_use]
    pub fn put(key: &str, value: &str) -> Operation {
        Operation::put_with(key, value, None)
    }

    /// The key goes with its lease.
    #[must_use]
    pub fn put_leased(key: &str, value: &str, lease: u64) -> Operation {
        Operation::put_with(key, value, Some(lease.to_string()))
    }

    fn put_with(key: &str, value: &str, lease: Option<String>) -> Operation {
        let (key, value) = (Text(key.into()), Text(value.into()));
        Operation(Request::RequestPut(Put { key, value, lease }))
    }

    #[must_use]
    pub fn delete(key: &str) -> Operation {
        let (key, range_end) = (Text(key.into()), None);
        Operation(Request::RequestDeleteRange(Range { key, range_end }))
    }
}

#[derive(Debug, Serialize)]
pub(super) struct Transaction<'t> {
    pub compare: &'t [Compare],
    pub success: &'t [Operation],
}

#[derive(Debug, Deserialize)]
pub(super) struct TransactionAnswer {
    pub header: Header,
    #[serde(default)]
    pub succeeded: bool,
}

#[derive(Debug, Serialize)]
pub(super) struct Grant {
    #[serde(rename = "TTL")]
    pub ttl: String,
}

#[derive(Debug, Serialize)]
pub(super) struct LeaseId {
    #[serde(rename = "ID")]
    pub id: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lease {
    #[serde(rename = "ID", deserialize_with = "number")]
    pub id: u64,
    /// Seconds; 0: it is over.
    #[serde(rename = "TTL", deserialize_with = "number")]
    pub ttl: u64,
}

#[derive(Debug, Deserialize)]
pub(super) struct KeptAlive {
    pub result: Lease,
}

#[derive(Debug, Serialize)]
pub(super) struct Watch {
    pub create_request: WatchFrom,
}

#[derive(Debug, Serialize)]
pub(super) struct WatchFrom {
    #[serde(flatten)]
    pub range: Range,
    pub start_revision: String,
}

/// A line of a watch.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Watched {
    pub result: Option<WatchResult>,
    pub error: Option<Refusal>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WatchResult {
    pub header: Header,
    pub events: Vec<Event>,
    pub canceled: bool,
    /// The oldest revision that there still is, where the one asked for is older.
    #[serde(deserialize_with = "number")]
    pub compact_revision: u64,
    pub cancel_reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Event {
    /// Left out for a put.
    #[serde(rename = "type")]
    pub kind: String,
    pub kv: KeyValue,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Refusal {
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read_as_etcd_writes_them() {
        let answer = r#"{"header":{"cluster_id":"14841639068965178418","revision":"3"},"kvs":[{"key":"L2EvMQ==",
            "create_revision":"2","mod_revision":"2","version":"1","value":"eA=="}],"count":"1"}"#;
        let answer: RangeAnswer = serde_json::from_str(answer).unwrap();
        assert_eq!((answer.header.revision, answer.kvs.len()), (3, 1));
        let found = &answer.kvs[0];
        assert_eq!(
            (&*found.key, &*found.value, found.revision),
            ("/a/1", "x", 2)
        );
        let watched = r#"{"result":{"header":{"revision":"4"},"events":[{"type":"DELETE","kv":{"key":"L2EvMQ==","mod_revision":"4"}}]}}"#;
        let watched: Watched = serde_json::from_str(watched).unwrap();
        let event = &watched.result.unwrap().events[0];
        assert_eq!((&*event.kind, event.kv.revision), ("DELETE", 4));
        // etcd leaves out the time of a lease that is over.
        let over: KeptAlive = serde_json::from_str(r#"{"result":{"ID":"123"}}"#).unwrap();
        assert_eq!((over.result.id, over.result.ttl), (123, 0));
    }

    #[test]
    fn conditions_are_written_as_etcd_reads_them() {
        let written = |condition| serde_json::to_string(&condition).unwrap();
        assert_eq!(
            written(Compare::is_leased("/a/1", 7)),
            r#"{"result":"EQUAL","target":"LEASE","key":"L2EvMQ==","lease":"7"}"#
        );
        assert_eq!(
            written(Compare::is_present("/a/1")),
            r#"{"result":"GREATER","target":"MOD","key":"L2EvMQ==","mod_revision":"0"}"#
        );
    }

    #[test]
    fn a_prefix_ends_before_the_next_key() {
        assert_eq!(behind("/latlab/1/f/"), "/latlab/1/f0");
    }
}
