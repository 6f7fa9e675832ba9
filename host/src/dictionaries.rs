//! Dictionaries, digested once per handle and shared by its threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use zrecord_core::codec::Zstd;
use zrecord_core::codec::libzstd::{Dictionary, Libzstd};
use zrecord_core::storage::FileName;
use zrecord_core::{Error, Result};

/// Digested dictionaries by their number.
pub(crate) type Digested = BTreeMap<u8, Arc<Dictionary>>;

/// The dictionaries that batches have needed so far.
#[derive(Default)]
pub(crate) struct Dictionaries {
    loaded: ArcSwap<Digested>,
}

impl Dictionaries {
    /// Those with the given numbers, perhaps among others; `read` is asked for
    /// the bytes of one that is met for the first time.
    pub(crate) fn with(
        &self,
        numbers: impl IntoIterator<Item = u8>,
        mut read: impl FnMut(u8) -> Result<Vec<u8>>,
    ) -> Result<Arc<Digested>> {
        for number in numbers {
            if !self.loaded.load().contains_key(&number) {
                let digested = Arc::new(digest(number, &read(number)?)?);
                self.loaded.rcu(|loaded| {
                    let mut loaded = Digested::clone(loaded);
                    loaded.entry(number).or_insert_with(|| Arc::clone(&digested));
                    loaded
                });
            }
        }
        Ok(self.loaded.load_full())
    }

    /// Forgets all of them: a classic store has replaced its one.
    pub(crate) fn clear(&self) {
        self.loaded.store(Arc::default());
    }
}

fn digest(number: u8, bytes: &[u8]) -> Result<Dictionary> {
    Libzstd::dictionary(bytes).map_err(|error| Error::Corrupt {
        file: FileName::Dictionary(number),
        reason: error.to_string(),
    })
}
