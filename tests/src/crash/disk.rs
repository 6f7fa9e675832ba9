//! What a disk may hold when everything stops: the model of the
//! [parent module](super), built by playing a log change by change.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::rc::Rc;

use fastrand::Rng;
use zrecord_core::storage::memory::MemoryDirectory;
use zrecord_core::storage::{Directory, File, FileName};

use super::record::{Change, Inode};

/// What a disk writes whole, in bytes.
pub const SECTOR_SIZE: u64 = 512;
const SECTOR_BYTES: usize = 512;
const ZEROS: [u8; SECTOR_BYTES] = [0; SECTOR_BYTES];

type Sector = Rc<[u8; SECTOR_BYTES]>;

/// A file with all that it may be found to be: the first version is durable,
/// the last is what a running system reads.
#[derive(Clone, Debug)]
struct Versions {
    sizes: Vec<u64>,
    sectors: BTreeMap<u64, Vec<Sector>>,
}

impl Versions {
    fn new(size: u64) -> Self {
        Self { sizes: vec![size], sectors: BTreeMap::new() }
    }

    fn size(&self) -> u64 {
        self.sizes.last().copied().unwrap_or(0)
    }

    fn change(&mut self, sector: u64, change: impl FnOnce(&mut [u8; SECTOR_BYTES])) {
        let versions = self.sectors.entry(sector).or_insert_with(|| vec![Rc::new(ZEROS)]);
        let mut bytes = versions.last().map_or(ZEROS, |last| **last);
        change(&mut bytes);
        if versions.last().is_none_or(|last| **last != bytes) {
            versions.push(Rc::new(bytes));
        }
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        let mut done = 0;
        while done < bytes.len() {
            let position = offset + done as u64;
            let start = to_usize(position % SECTOR_SIZE);
            let part = (SECTOR_BYTES - start).min(bytes.len() - done);
            let data = &bytes[done..done + part];
            self.change(position / SECTOR_SIZE, |sector| {
                sector[start..start + part].copy_from_slice(data);
            });
            done += part;
        }
        self.resize(self.size().max(offset + bytes.len() as u64));
    }

    fn set_size(&mut self, size: u64) {
        if size < self.size() {
            let kept = to_usize(size % SECTOR_SIZE);
            let cut: Vec<u64> =
                self.sectors.range(size / SECTOR_SIZE..).map(|(&sector, _)| sector).collect();
            for sector in cut {
                let kept = if sector == size / SECTOR_SIZE { kept } else { 0 };
                self.change(sector, |bytes| bytes[kept..].fill(0));
            }
        }
        self.resize(size);
    }

    fn resize(&mut self, size: u64) {
        if size != self.size() {
            self.sizes.push(size);
        }
    }

    fn sync(&mut self) {
        self.sizes.drain(..self.sizes.len() - 1);
        for versions in self.sectors.values_mut() {
            versions.drain(..versions.len() - 1);
        }
    }
}

/// A change of names that is not durable yet.
#[derive(Clone, Copy, Debug)]
enum NameChange {
    Create(FileName, Inode),
    Rename(FileName, FileName),
    Remove(FileName),
}

impl NameChange {
    fn names(self) -> [FileName; 2] {
        match self {
            Self::Create(name, _) | Self::Remove(name) => [name, name],
            Self::Rename(from, to) => [from, to],
        }
    }

    fn apply(self, names: &mut BTreeMap<FileName, Inode>) {
        match self {
            Self::Create(name, inode) => {
                names.insert(name, inode);
            }
            Self::Rename(from, to) => {
                if let Some(inode) = names.remove(&from) {
                    names.insert(to, inode);
                }
            }
            Self::Remove(name) => {
                names.remove(&name);
            }
        }
    }
}

/// A disk while a log is played onto it.
#[derive(Clone, Debug, Default)]
pub struct Disk {
    inodes: Vec<Versions>,
    durable_names: BTreeMap<FileName, Inode>,
    name_changes: Vec<NameChange>,
}

/// A piece that a loss of power took: it is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Piece {
    /// A sector of a file.
    Sector(Inode, u64),
    /// The size of a file.
    Size(Inode),
    /// A change of names, by its place among those not yet durable.
    Name(usize),
}

/// Which pieces a loss of power took, each with the version that is found
/// instead of the last. What is not named here is found as it was last.
pub type Loss = BTreeMap<Piece, usize>;

impl Disk {
    /// A disk on which everything that was found is durable.
    pub fn new(image: &Image) -> Self {
        let mut disk = Self::default();
        for (inode, (&name, file)) in image.files.iter().enumerate() {
            let sectors = file.sectors.iter().map(|(&at, sector)| (at, vec![Rc::clone(sector)]));
            disk.inodes.push(Versions { sizes: vec![file.size], sectors: sectors.collect() });
            disk.durable_names.insert(name, inode);
        }
        disk
    }

    /// Plays one change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Create(name, inode) => {
                // Numbers are given in turn.
                self.inodes.resize_with(*inode + 1, || Versions::new(0));
                self.name_changes.push(NameChange::Create(*name, *inode));
            }
            Change::Rename(from, to) => self.name_changes.push(NameChange::Rename(*from, *to)),
            Change::Remove(name) => self.name_changes.push(NameChange::Remove(*name)),
            Change::SyncNames => {
                for change in std::mem::take(&mut self.name_changes) {
                    change.apply(&mut self.durable_names);
                }
            }
            Change::Write(inode, offset, bytes) => self.inodes[*inode].write(*offset, bytes),
            Change::SetSize(inode, size) => self.inodes[*inode].set_size(*size),
            Change::SyncFile(inode) => self.inodes[*inode].sync(),
        }
    }

    /// The names that a running system sees.
    pub fn names(&self) -> BTreeMap<FileName, Inode> {
        let mut names = self.durable_names.clone();
        for change in &self.name_changes {
            change.apply(&mut names);
        }
        names
    }

    /// How many files there have been.
    pub fn inodes(&self) -> Inode {
        self.inodes.len()
    }

    /// Draws what a loss of power takes.
    pub fn draw_loss(&self, rng: &mut Rng) -> Loss {
        let mut loss = Loss::new();
        let everywhere = draw_share(rng);
        for (inode, file) in self.inodes.iter().enumerate() {
            let share = if rng.bool() { everywhere } else { draw_share(rng) };
            let mut draw = |piece, versions: usize| {
                if versions > 1 && rng.f64() < share {
                    // All of it, as likely as not; else some version before.
                    let version = if rng.bool() { 0 } else { rng.usize(..versions - 1) };
                    loss.insert(piece, version);
                }
            };
            for (&sector, versions) in &file.sectors {
                draw(Piece::Sector(inode, sector), versions.len());
            }
            draw(Piece::Size(inode), file.sizes.len());
        }
        let share = if rng.bool() { everywhere } else { draw_share(rng) };
        for change in 0..self.name_changes.len() {
            if rng.f64() < share {
                loss.insert(Piece::Name(change), 0);
            }
        }
        loss
    }

    /// What is found after a kill, or after a loss of power that took `loss`.
    pub fn image(&self, loss: &Loss) -> Image {
        let mut names = self.durable_names.clone();
        let mut lost_names = BTreeSet::new();
        for (at, change) in self.name_changes.iter().enumerate() {
            let depends = change.names().iter().any(|name| lost_names.contains(name));
            if depends || loss.contains_key(&Piece::Name(at)) {
                lost_names.extend(change.names());
            } else {
                change.apply(&mut names);
            }
        }
        let files = names.into_iter().map(|(name, inode)| (name, self.found(inode, loss)));
        Image { files: files.collect() }
    }

    fn found(&self, inode: Inode, loss: &Loss) -> ImageFile {
        let file = &self.inodes[inode];
        let version = |piece, last: usize| loss.get(&piece).map_or(last, |&at| at.min(last));
        let size = file.sizes[version(Piece::Size(inode), file.sizes.len() - 1)];
        let sectors = file.sectors.range(..size.div_ceil(SECTOR_SIZE)).map(|(&at, versions)| {
            let version = version(Piece::Sector(inode, at), versions.len() - 1);
            (at, Rc::clone(&versions[version]))
        });
        ImageFile { size, sectors: sectors.collect() }
    }
}

/// The share of pieces that is lost: none, all, or something between.
fn draw_share(rng: &mut Rng) -> f64 {
    match rng.u8(..4) {
        0 => 0.0,
        1 => 1.0,
        2 => 0.5,
        _ => rng.f64(),
    }
}

/// What a disk was found to hold.
#[derive(Clone, Debug, Default)]
pub struct Image {
    files: BTreeMap<FileName, ImageFile>,
}

#[derive(Clone, Debug)]
struct ImageFile {
    size: u64,
    sectors: BTreeMap<u64, Sector>,
}

impl Image {
    /// The names of its files, in order.
    pub fn names(&self) -> impl Iterator<Item = FileName> {
        self.files.keys().copied()
    }

    /// A directory in memory that holds it.
    pub fn directory(&self) -> MemoryDirectory {
        let directory = MemoryDirectory::new();
        for (&name, found) in &self.files {
            let filled = directory.create(name).and_then(|file| {
                for (at, sector) in &found.sectors {
                    file.write(&sector[..], at * SECTOR_SIZE)?;
                }
                file.set_size(found.size)
            });
            // Memory does not fail.
            debug_assert!(filled.is_ok(), "{name}");
        }
        directory
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (name, file) in &self.files {
            write!(f, "{separator}{name} ({} bytes)", file.size)?;
            separator = ", ";
        }
        Ok(())
    }
}

fn to_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(image: &Image, name: FileName) -> Option<Vec<u8>> {
        image.directory().file(name).map(|file| file.bytes())
    }

    /// A file of two sectors, synced with its name; then both are overwritten.
    fn overwritten() -> Disk {
        let mut disk = Disk::default();
        for change in [
            Change::Create(FileName::Meta, 0),
            Change::Write(0, 0, [1; 1024].as_slice().into()),
            Change::SyncFile(0),
            Change::SyncNames,
            Change::Write(0, 100, [2; 600].as_slice().into()),
            Change::Write(0, 0, [3; 10].as_slice().into()),
        ] {
            disk.apply(&change);
        }
        disk
    }

    #[test]
    fn each_sector_is_found_in_one_of_its_versions() {
        let disk = overwritten();
        let image = disk.image(&Loss::from([(Piece::Sector(0, 0), 1)]));
        let found = bytes(&image, FileName::Meta).unwrap();
        assert_eq!((found[0], found[100], found[600], found[900]), (1, 2, 2, 1));
        let image = disk.image(&Loss::from([(Piece::Sector(0, 1), 0)]));
        let found = bytes(&image, FileName::Meta).unwrap();
        assert_eq!((found[0], found[100], found[600], found[900]), (3, 2, 1, 1));
    }

    #[test]
    fn a_synced_file_loses_nothing_but_its_name() {
        let mut disk = Disk::default();
        for change in [
            Change::Create(FileName::MetaNew, 0),
            Change::Write(0, 0, [1; 700].as_slice().into()),
            Change::SyncFile(0),
            Change::Rename(FileName::MetaNew, FileName::Meta),
        ] {
            disk.apply(&change);
        }
        let mut found = BTreeSet::new();
        for seed in 0..200 {
            let image = disk.image(&disk.draw_loss(&mut Rng::with_seed(seed)));
            for name in image.names() {
                assert_eq!(bytes(&image, name), Some(vec![1; 700]));
            }
            found.insert(image.names().collect::<Vec<_>>());
        }
        let expected = [vec![], vec![FileName::Meta], vec![FileName::MetaNew]];
        assert_eq!(found, BTreeSet::from(expected));
    }

    #[test]
    fn a_size_without_its_data_is_zeros() {
        let mut disk = Disk::default();
        disk.apply(&Change::Create(FileName::Meta, 0));
        disk.apply(&Change::SyncNames);
        disk.apply(&Change::Write(0, 0, [1; 600].as_slice().into()));
        let lost = Loss::from([(Piece::Sector(0, 0), 0), (Piece::Sector(0, 1), 0)]);
        assert_eq!(bytes(&disk.image(&lost), FileName::Meta), Some(vec![0; 600]));
        let lost = Loss::from([(Piece::Size(0), 0)]);
        assert_eq!(bytes(&disk.image(&lost), FileName::Meta), Some(Vec::new()));
    }

    #[test]
    fn a_cut_is_lost_sector_by_sector() {
        let mut disk = overwritten();
        disk.apply(&Change::SyncFile(0));
        disk.apply(&Change::SetSize(0, 20));
        disk.apply(&Change::SetSize(0, 1024));
        let found = bytes(&disk.image(&Loss::new()), FileName::Meta).unwrap();
        assert_eq!((found[5], found[30], found[700]), (3, 0, 0));
        let lost = Loss::from([(Piece::Sector(0, 1), 0)]);
        let found = bytes(&disk.image(&lost), FileName::Meta).unwrap();
        assert_eq!((found[5], found[30], found[600]), (3, 0, 2));
    }
}
