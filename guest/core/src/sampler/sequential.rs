//! Positions in order, modulo the length.

use super::low64;

/// Writes `position % length` for `batch.len()` positions from `position` on.
#[inline(always)]
pub(super) fn fill(position: u128, length: u64, batch: &mut [u64]) {
    let mut index = low64(position % u128::from(length));
    let mut rest = batch;
    while !rest.is_empty() {
        // One run up to the end of the store, so the inner loop is a plain
        // count.
        let left = usize::try_from(length - index).unwrap_or(usize::MAX);
        let (run, after) = rest.split_at_mut(left.min(rest.len()));
        for (slot, value) in run.iter_mut().zip(index..) {
            *slot = value;
        }
        rest = after;
        index = 0;
    }
}
