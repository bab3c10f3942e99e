//! The fast path in Rust: plain requests, rows and deliveries, many per call, from bytes to bytes.
//!
//! app/kafka/fast_path/interface.py defines the calls. app/kafka/fast_path/in_python.py is the reference: both produce
//! the same bytes.

#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "python"), allow(dead_code, reason = "only Python calls it"))]

mod batch;
mod event;
#[cfg(test)]
#[path = "../tests/fuzzed.rs"]
mod fuzzed;
mod home;
mod plain_request;
#[cfg(feature = "python")]
mod python;
mod reader;
mod row;
mod section;
