//! The component, driven straight through its contract beside the core that
//! answers natively. In builds with the feature `sandbox`, after
//! `cargo xtask component`.
//!
//! | module | holds |
//! | --- | --- |
//! | `bindings` | the contract as its host sees it, generated |
//! | `contract` | the contract as a trait: one question, several that answer |
//! | `native` | the core as one that answers |
//! | `instance` | the component as another |
//! | `words` | what the core says, in the contract's words |
//! | `files` | what the component imports, served from any storage |
//! | `scripted` | storage that fails when it is told to |
//! | `pair` | both beside each other, and what was compared of them |
//! | `hostile` | hostile stores, put before both |
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::cast_possible_truncation, reason = "the stores of tests are small")]

#[allow(clippy::all, missing_docs, reason = "it is generated")]
pub mod bindings;
pub mod contract;
pub mod files;
pub mod hostile;
pub mod instance;
pub mod native;
pub mod pair;
pub mod scripted;
pub mod words;
