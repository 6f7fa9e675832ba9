//! Taking memory for as much as a store or a caller says: when there is not
//! enough, that is an error like any other, where `vec!` would end the process
//! or the component.

use std::io;

/// An empty list with room for `count` items.
///
/// # Errors
///
/// [`io::ErrorKind::OutOfMemory`].
pub fn with_room<T>(count: usize) -> io::Result<Vec<T>> {
    let mut list = Vec::new();
    reserve(&mut list, count)?;
    Ok(list)
}

/// Room for `count` more items in `list`.
///
/// # Errors
///
/// As [`with_room`].
pub fn reserve<T>(list: &mut Vec<T>, count: usize) -> io::Result<()> {
    list.try_reserve_exact(count).map_err(|_| io::ErrorKind::OutOfMemory.into())
}

/// `len` bytes of zeros.
///
/// # Errors
///
/// As [`with_room`], also where the address space is too small.
pub fn zeroed(len: u64) -> io::Result<Vec<u8>> {
    let len = usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let mut bytes = with_room(len)?;
    bytes.resize(len, 0);
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_an_error() {
        assert_eq!(zeroed(3).unwrap(), [0; 3]);
        assert_eq!(zeroed(u64::MAX).unwrap_err().kind(), io::ErrorKind::OutOfMemory);
        assert_eq!(
            with_room::<u64>(usize::MAX / 2).unwrap_err().kind(),
            io::ErrorKind::OutOfMemory
        );
    }
}
