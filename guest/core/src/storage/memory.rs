//! A directory in memory: what tests and examples run over.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;

use super::{Access, Directory, File, FileName};

const PAGE: u64 = 4096;
const PAGE_BYTES: usize = 4096;
const ZEROS: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// A directory in memory. Clones share their files, as two handles of one
/// directory do.
#[derive(Clone, Debug, Default)]
pub struct MemoryDirectory {
    files: Rc<RefCell<BTreeMap<FileName, MemoryFile>>>,
}

impl MemoryDirectory {
    /// An empty directory.
    pub fn new() -> Self {
        Self::default()
    }

    /// The names of the files, sorted.
    pub fn names(&self) -> Vec<FileName> {
        self.files.borrow().keys().copied().collect()
    }

    /// The file of that name, if it exists.
    pub fn file(&self, name: FileName) -> Option<MemoryFile> {
        self.files.borrow().get(&name).cloned()
    }

    /// Puts a file there, replacing what was.
    pub fn put(&self, name: FileName, bytes: &[u8]) {
        let file = MemoryFile::default();
        file.content.borrow_mut().write(bytes, 0);
        self.files.borrow_mut().insert(name, file);
    }

    /// A directory with copies of the files, which nothing shares.
    pub fn snapshot(&self) -> Self {
        let copy = Self::new();
        for (name, file) in self.files.borrow().iter() {
            let content = Rc::new(RefCell::new(file.content.borrow().clone()));
            copy.files.borrow_mut().insert(*name, MemoryFile { content });
        }
        copy
    }
}

impl Directory for MemoryDirectory {
    type File = MemoryFile;

    fn open(&self, name: FileName, _: Access) -> io::Result<MemoryFile> {
        self.file(name).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&self, name: FileName) -> io::Result<MemoryFile> {
        let file = self.files.borrow_mut().entry(name).or_default().clone();
        file.set_size(0)?;
        Ok(file)
    }

    fn rename(&self, from: FileName, to: FileName) -> io::Result<()> {
        let mut files = self.files.borrow_mut();
        let file = files.remove(&from).ok_or(io::ErrorKind::NotFound)?;
        files.insert(to, file);
        Ok(())
    }

    fn remove(&self, name: FileName) -> io::Result<()> {
        match self.files.borrow_mut().remove(&name) {
            Some(_) => Ok(()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// A file in memory, sparse. Clones share their bytes.
#[derive(Clone, Debug, Default)]
pub struct MemoryFile {
    content: Rc<RefCell<Content>>,
}

impl MemoryFile {
    /// A copy of the whole file.
    pub fn bytes(&self) -> Vec<u8> {
        let content = self.content.borrow();
        let mut bytes = vec![0; usize::try_from(content.size).unwrap_or(usize::MAX)];
        content.read(&mut bytes, 0);
        bytes
    }
}

impl File for MemoryFile {
    fn size(&self) -> io::Result<u64> {
        Ok(self.content.borrow().size)
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.content.borrow().read(buffer, offset))
    }

    fn write(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.content.borrow_mut().write(bytes, offset);
        Ok(())
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.content.borrow_mut().set_size(size);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
}

/// Only pages that hold something exist, so that a classic store's 4 GiB files
/// cost what they hold.
#[derive(Clone, Debug, Default)]
struct Content {
    pages: BTreeMap<u64, Box<[u8]>>,
    size: u64,
}

impl Content {
    fn read(&self, buffer: &mut [u8], offset: u64) -> usize {
        let available = self.size.saturating_sub(offset).min(buffer.len() as u64);
        let buffer = &mut buffer[..usize::try_from(available).unwrap_or(0)];
        for_each_page(buffer.len(), offset, |page, start, part| {
            let target = &mut buffer[part];
            match self.pages.get(&page) {
                Some(bytes) => target.copy_from_slice(&bytes[start..start + target.len()]),
                None => target.fill(0),
            }
        });
        buffer.len()
    }

    fn write(&mut self, data: &[u8], offset: u64) {
        for_each_page(data.len(), offset, |page, start, part| {
            let data = &data[part];
            if !self.pages.contains_key(&page) && data == &ZEROS[..data.len()] {
                return;
            }
            let bytes = self.pages.entry(page).or_insert_with(|| ZEROS.into());
            bytes[start..start + data.len()].copy_from_slice(data);
        });
        self.size = self.size.max(offset + data.len() as u64);
    }

    fn set_size(&mut self, size: u64) {
        if size < self.size {
            self.pages.split_off(&size.div_ceil(PAGE));
            let kept = usize::try_from(size % PAGE).unwrap_or(0);
            if let Some(last) = self.pages.get_mut(&(size / PAGE)) {
                last[kept..].fill(0);
            }
        }
        self.size = size;
    }
}

/// Calls `visit(page number, start within it, range within the buffer)` for
/// each page that `len` bytes at `offset` touch.
fn for_each_page(
    len: usize,
    offset: u64,
    mut visit: impl FnMut(u64, usize, std::ops::Range<usize>),
) {
    let mut done = 0;
    while done < len {
        let position = offset + done as u64;
        let start = usize::try_from(position % PAGE).unwrap_or(0);
        let part = (PAGE_BYTES - start).min(len - done);
        visit(position / PAGE, start, done..done + part);
        done += part;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_file_grows_back_with_zeros() {
        let file = MemoryFile::default();
        file.write(&[7; 10_000], 0).unwrap();
        file.set_size(5_000).unwrap();
        file.set_size(10_000).unwrap();
        let bytes = file.bytes();
        assert!(bytes[..5_000].iter().all(|&byte| byte == 7));
        assert!(bytes[5_000..].iter().all(|&byte| byte == 0));
    }

    #[test]
    fn reading_past_the_end_is_short() {
        let file = MemoryFile::default();
        file.write(&[1, 2, 3], 4_095).unwrap();
        let mut buffer = [9; 8];
        assert_eq!(file.read(&mut buffer, 4_094).unwrap(), 4);
        assert_eq!(buffer, [0, 1, 2, 3, 9, 9, 9, 9]);
        assert_eq!(file.read(&mut buffer, 5_000).unwrap(), 0);
    }
}
