//! The inspector's server, asked over real sockets: who is answered, what can
//! be reached, and that every answer is right to the byte.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod access;
mod client;
mod files;
mod load;
#[path = "../support/mod.rs"]
mod support;
