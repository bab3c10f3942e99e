//! What Punctual does to every usual message, from bytes to bytes: whatever is not usual is left to the Python code,
//! which says what is right. What is made here is the same, byte for byte.

#![forbid(unsafe_code)]
#![cfg_attr(not(feature = "python"), allow(dead_code, reason = "only Python calls it"))]

mod batch;
mod event;
#[cfg(test)]
#[path = "../tests/fuzzed.rs"]
mod fuzzed;
mod home;
#[cfg(feature = "python")]
mod python;
mod reader;
mod row;
mod section;
mod usual;
