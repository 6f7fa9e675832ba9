//! Records in place, for as long as an array over them lives.

use std::ops::Deref;

use zrecord_host::{Store, View};

/// A view with a handle of its own: its shared lock keeps other handles from
/// deleting and compacting for as long as an array over the view lives.
pub(crate) struct PinnedView {
    view: View,
    _store: Store,
}

impl PinnedView {
    pub(crate) fn new(store: &Store, start: u64, stop: u64) -> zrecord_host::Result<Self> {
        let store = store.open_again()?;
        Ok(Self { view: store.view(start, stop)?, _store: store })
    }
}

impl Deref for PinnedView {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.view
    }
}
