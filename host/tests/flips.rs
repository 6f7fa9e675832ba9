//! Single bits flipped in stores before they are opened: reading gives an
//! error or the bytes that were stored, and whatever neither reading nor
//! `verify` notices lies in bytes that mean nothing.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions as FileOptions};
use std::os::unix::fs::FileExt;

use zrecord_host::{Format, Io, Verify};

mod damaging;
mod support;
use damaging::{Recipe, Subject, strided, unclean, used_bytes};
use support::Random;

/// What became of flipped bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tally {
    flips: u64,
    /// Reading gave an error.
    read: u64,
    /// Reading gave what was stored, `verify` a fault.
    verify: u64,
    /// Nothing noticed, and nothing was there to notice.
    unused: u64,
    /// Reading gave other bytes.
    silent: u64,
}

/// A store whose bits are flipped and put back.
struct Flipper<'a> {
    subject: &'a Subject,
    used: BTreeMap<String, Vec<bool>>,
    files: BTreeMap<String, File>,
    readers: &'a [(Verify, Io)],
    tally: Tally,
}

const CAREFUL: [(Verify, Io); 2] = [(Verify::First, Io::Map), (Verify::Always, Io::Pread)];
const CARELESS: [(Verify, Io); 1] = [(Verify::Never, Io::Map)];

impl<'a> Flipper<'a> {
    fn new(subject: &'a Subject, readers: &'a [(Verify, Io)]) -> Self {
        for (verify, io) in readers {
            assert_eq!(subject.read(*verify, *io), damaging::Reading::default());
        }
        let open = |name: String| {
            let file = FileOptions::new().read(true).write(true).open(subject.file(&name)).unwrap();
            (name, file)
        };
        let files = subject.files().into_iter().map(open).collect();
        Self { subject, used: used_bytes(&subject.path), files, readers, tally: Tally::default() }
    }

    fn size(&self, name: &str) -> u64 {
        self.files[name].metadata().unwrap().len()
    }

    fn byte(&self, name: &str, offset: u64) -> u8 {
        let mut byte = [0];
        self.files[name].read_exact_at(&mut byte, offset).unwrap();
        byte[0]
    }

    /// Flips a bit, looks what happens, and puts it back.
    fn flip(&mut self, name: &str, offset: u64, bit: u32) {
        let byte = self.byte(name, offset);
        self.files[name].write_all_at(&[byte ^ 1 << bit], offset).unwrap();
        let place = format!("bit {bit} of byte {offset} of {name}");
        let readings: Vec<_> =
            self.readers.iter().map(|(verify, io)| self.subject.read(*verify, *io)).collect();
        let faults = self.subject.faults();
        let recovered = self.subject.is_cut_by_recovery();
        self.files[name].write_all_at(&[byte], offset).unwrap();

        self.tally.flips += 1;
        if readings.iter().any(|reading| reading.wrong > 0) {
            self.tally.silent += 1;
        } else if readings.iter().any(|reading| reading.errors > 0) {
            // What recovery has cut off is no damage that is left; the error
            // is that the store is shorter.
            let recovered = recovered && readings.iter().all(|reading| reading.errors == 1);
            assert!(!faults.is_empty() || recovered, "verify is content with {place}");
            self.tally.read += 1;
        } else if !faults.is_empty() {
            self.tally.verify += 1;
        } else {
            let used = self.used[name][usize::try_from(offset).unwrap()];
            assert!(!used, "nothing noticed {place}");
            self.tally.unused += 1;
        }
    }

    /// Flips bits of every byte in use and of others: `bits` of each, from
    /// byte to byte other ones, and of every `unused_step`th that is unused.
    fn flip_all(&mut self, bits: u32, unused_step: u64) {
        for name in self.subject.files() {
            for offset in 0..self.size(&name) {
                let used = self.used[&name][usize::try_from(offset).unwrap()];
                if !used && offset % unused_step != 0 {
                    continue;
                }
                let first = u32::try_from(offset * u64::from(bits) % 8).unwrap();
                for bit in first..first + bits {
                    self.flip(&name, offset, bit % 8);
                }
            }
        }
    }

    /// Flips bits anywhere: half of them in chunks, most others in the table.
    fn flip_some(&mut self, count: u64, seed: u64) {
        let mut random = Random::new(seed);
        let names = self.subject.files();
        let is_chunk = |name: &&String| name.trim_end_matches(".zr").parse::<u32>().is_ok();
        let (chunks, others): (Vec<_>, Vec<_>) = names.iter().partition(is_chunk);
        let meta = vec![others.iter().copied().find(|name| *name == "meta.zr").unwrap()];
        for number in 0..count {
            let group = match number % 16 {
                0 => &others,
                1..8 => &meta,
                _ => &chunks,
            };
            let name = group[usize::try_from(random.below(group.len() as u64)).unwrap()];
            let offset = random.below(self.size(name));
            self.flip(name, offset, u32::try_from(random.below(8)).unwrap());
        }
    }
}

fn report(what: &str, tally: Tally) {
    let Tally { flips, read, verify, unused, silent } = tally;
    println!(
        "{what}: {flips} flips, {read} noticed by reading, {verify} by verify alone, \
         {unused} in unused bytes, {silent} silent"
    );
}

/// With `ZRECORD_SLOW=1` every bit of a small store is flipped, and ten
/// thousand of the larger ones.
fn is_slow() -> bool {
    std::env::var_os("ZRECORD_SLOW").is_some()
}

/// How many flips a larger store gets; `ZRECORD_FLIPS` says another number.
fn budget() -> u64 {
    let asked = std::env::var("ZRECORD_FLIPS").ok().and_then(|flips| flips.parse().ok());
    asked.unwrap_or(if is_slow() { 3_400 } else { 150 })
}

fn flip_larger(what: &str, subject: &Subject, seed: u64) {
    let mut flipper = Flipper::new(subject, &CAREFUL);
    flipper.flip_some(budget(), seed);
    report(&format!("{what}, seed {seed}"), flipper.tally);
    assert_eq!(flipper.tally.silent, 0);
    assert!(flipper.tally.read > 0 && flipper.tally.verify > 0);
}

#[test]
fn no_flipped_bit_of_a_small_store_goes_unnoticed() {
    let subject = Recipe::small(Format::Extended, 1).make();
    let mut flipper = Flipper::new(&subject, &CAREFUL);
    let (bits, unused_step) = if is_slow() { (8, 1) } else { (1, 23) };
    flipper.flip_all(bits, unused_step);
    report("every bit of a small store", flipper.tally);
    assert_eq!(flipper.tally.silent, 0);
    assert!(flipper.tally.read > 500 && flipper.tally.verify > 400);
}

#[test]
fn no_flipped_bit_of_a_larger_store_goes_unnoticed() {
    let recipe = Recipe {
        format: Format::Extended,
        seed: 2,
        records: 2_000,
        len_max: 2_000,
        chunk_size: 400_000,
        deleted: 40,
    };
    flip_larger("raw, zstd and dictionary records in chunks", &recipe.make(), 3);
}

#[test]
fn no_flipped_bit_of_a_store_with_a_stride_goes_unnoticed() {
    flip_larger("raw records of one length", &strided(2_000, 1_000), 4);
}

#[test]
fn no_flipped_bit_of_a_store_that_was_not_closed_goes_unnoticed() {
    flip_larger("records whose writer died", &unclean(2_000), 5);
}

/// Without checksums the same flips give wrong bytes: the test can fail.
#[test]
fn without_checksums_flipped_bits_are_silent() {
    let subject = Recipe::small(Format::Extended, 1).make();
    let mut flipper = Flipper::new(&subject, &CARELESS);
    flipper.flip_some(400, 6);
    report("the same without checksums", flipper.tally);
    assert!(flipper.tally.silent > 40, "{:?}", flipper.tally);
}

/// A classic store shows what lengths and frames reveal; nothing panics.
#[test]
fn flipped_bits_of_a_classic_store_are_errors_or_other_bytes() {
    let subject = Recipe::small(Format::Classic, 7).make();
    let mut tally = Tally::default();
    for (name, end) in [("meta.zr", 16 + 16 * 12), ("0.zr", 250), ("dict.zr", 200)] {
        let file = FileOptions::new().read(true).write(true).open(subject.file(name)).unwrap();
        for bit in (0..end * 8).step_by(5) {
            // Millions of records that are counted and not there take long.
            if name == "meta.zr" && (13..16).contains(&(bit / 8)) {
                continue;
            }
            let mut byte = [0];
            file.read_exact_at(&mut byte, bit / 8).unwrap();
            file.write_all_at(&[byte[0] ^ 1 << (bit % 8)], bit / 8).unwrap();
            let reading = subject.read(Verify::First, Io::Map);
            let faults = subject.faults();
            file.write_all_at(&byte, bit / 8).unwrap();
            tally.flips += 1;
            match (reading.errors, reading.wrong, faults.len()) {
                (1.., ..) => tally.read += 1,
                (0, 1.., 0) => tally.silent += 1,
                (0, _, 1..) => tally.verify += 1,
                (0, 0, 0) => tally.unused += 1,
            }
        }
    }
    report("a classic store", tally);
    assert!(tally.read > 100, "{tally:?}");
}
