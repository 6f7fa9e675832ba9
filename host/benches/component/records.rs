//! The data: the same in every run, each record from its index alone.

use std::path::Path;

use zrecord_host::{Codec, Format, Mode, OpenOptions, Store};

/// Bytes that are appended at once.
const BLOCK_BYTES: usize = 4 << 20;

/// What records hold, and how many bytes.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Nothing that could be compressed.
    Noise(usize),
    /// Rows of 16 bytes, as sensors and tables give them: a counter, a value
    /// that wanders, a flag, some noise. Shrinks about twofold.
    Rows(usize),
    /// Words of a small language. Shrinks about threefold.
    Text(usize),
}

impl Kind {
    pub fn len(self) -> usize {
        match self {
            Self::Noise(len) | Self::Rows(len) | Self::Text(len) => len,
        }
    }

    pub fn record(self, index: u64) -> Vec<u8> {
        let mut random = Random::new(index + 1);
        let mut bytes = Vec::with_capacity(self.len() + 16);
        let mut value = 1000_u32;
        for row in 0_u32.. {
            if bytes.len() >= self.len() {
                break;
            }
            match self {
                Self::Noise(_) => bytes.extend(random.next().to_le_bytes()),
                Self::Rows(_) => {
                    value = value.wrapping_add(random.small(9)).wrapping_sub(4);
                    bytes.extend(row.to_le_bytes());
                    bytes.extend(value.to_le_bytes());
                    bytes.extend((random.small(10) / 9).to_le_bytes());
                    bytes.extend(random.small(1 << 24).to_le_bytes());
                }
                Self::Text(_) => bytes.extend(word(&mut random)),
            }
        }
        bytes.truncate(self.len());
        bytes
    }
}

/// Of 4096 words; the square of a throw makes some of them common.
fn word(random: &mut Random) -> Vec<u8> {
    let throw = random.below(64) * random.below(64);
    let mut letters = Random::new(throw + 77);
    let len = 2 + letters.below(7);
    let mut word: Vec<u8> = (0..len).map(|_| b'a' + letters.byte() % 26).collect();
    word.push(b' ');
    word
}

pub fn build(path: &Path, kind: Kind, codec: Codec, count: usize) {
    let options = OpenOptions::new().mode(Mode::Create).format(Format::Extended);
    let store = options.codec(codec).open(path).unwrap();
    let len = kind.len();
    let indices: Vec<u64> = (0..count as u64).collect();
    for indices in indices.chunks((BLOCK_BYTES / len).max(1)) {
        let block: Vec<u8> = indices.iter().flat_map(|index| kind.record(*index)).collect();
        let offsets: Vec<u64> = (0..indices.len()).map(|at| (at * len) as u64).collect();
        store.append(&block, &offsets, None).unwrap();
    }
    let codecs = store.inspect().unwrap().codecs;
    assert_eq!(codecs[usize::from(codec.number())], count as u64, "stored as asked: {codecs:?}");
    store.close().unwrap();
}

/// How many records a store has.
pub fn count(path: &Path) -> usize {
    usize::try_from(Store::open(path).unwrap().len().unwrap()).unwrap()
}

/// A small generator.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit
    }

    fn small(&mut self, limit: u32) -> u32 {
        u32::try_from(self.below(limit.into())).unwrap()
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[7]
    }
}
