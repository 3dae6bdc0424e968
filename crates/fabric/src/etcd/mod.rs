//! A client of etcd's JSON gateway (etcd.io/docs, "gRPC gateway"), which every etcd from 3.4 on serves beside gRPC.

mod client;
mod messages;
mod watch;

pub use client::{Answer, Client, Credentials, Error};
pub use messages::{Compare, KeyValue, Operation};
pub use watch::{Batch, Change, Stopped};
