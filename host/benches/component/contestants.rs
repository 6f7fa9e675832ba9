//! Three ways to the same records.

use std::hint::black_box;
use std::path::Path;
use std::time::Instant;

use zrecord_host::core::codec::pure::Ruzstd;
use zrecord_host::core::store::Store as Sequential;
use zrecord_host::directory::FsDirectory;
use zrecord_host::sandbox::{Limits, Sandbox};
use zrecord_host::{OpenOptions, Store};

pub enum Contestant {
    /// The native host with one thread, as it is opened by default.
    Native(Store),
    /// The code of the component, compiled natively. What it gathers stays in
    /// memory of its own.
    Core(Box<Sequential<FsDirectory, Ruzstd>>),
    Component(Box<Sandbox>),
}

impl Contestant {
    pub const COUNT: usize = 3;

    pub fn all(path: &Path) -> [Self; Self::COUNT] {
        let core = Sequential::open(FsDirectory::new(path), true).unwrap();
        [
            Self::Native(OpenOptions::new().threads(1).open(path).unwrap()),
            Self::Core(Box::new(core)),
            Self::Component(Box::new(Sandbox::open(path, Limits::new()).unwrap())),
        ]
    }

    /// Records of one length, packed.
    pub fn gather(&mut self, batch: &[u64], dst: &mut [u8]) -> Vec<u8> {
        match self.run(batch, dst) {
            Some(bytes) => bytes,
            None => dst.to_vec(),
        }
    }

    /// The milliseconds that a gather takes.
    pub fn timed(&mut self, batch: &[u64], dst: &mut [u8]) -> f64 {
        let started = Instant::now();
        black_box(self.run(black_box(batch), dst));
        black_box(&*dst);
        started.elapsed().as_secs_f64() * 1e3
    }

    /// Into `dst`, or memory of its own.
    fn run(&mut self, batch: &[u64], dst: &mut [u8]) -> Option<Vec<u8>> {
        let len = (dst.len() / batch.len()) as u64;
        match self {
            Self::Native(store) => store.gather_packed(batch, dst, len).unwrap(),
            Self::Component(store) => store.gather_packed(batch, dst, len).unwrap(),
            Self::Core(store) => return Some(store.gather(batch, u64::MAX).unwrap().bytes),
        }
        None
    }
}
