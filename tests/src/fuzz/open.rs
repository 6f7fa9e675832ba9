//! Reading stores with anything in each of their files. The host's mapped
//! reader, its positional one, the sequential core with either codec backend,
//! and the raw bytes must agree.

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::unpack;
use zrecord_core::codec::pure::Ruzstd;
use zrecord_core::codec::{Codec, Zstd};
use zrecord_core::format::checksum;
use zrecord_host::{Io, Verify};

use super::choices::Choices;
use super::image::Image;
use super::memory;
use super::observe::{self, Observation};

/// What reading takes besides, in bytes.
const MEMORY_FIXED: usize = 4 << 20;
/// How often the bytes of the files may be in memory at once: the image, its
/// copies, and what is made of them.
const MEMORY_PER_BYTE: usize = 16;
/// A byte of a frame may become this many: a block of three bytes may say
/// one byte 128 Ki times. Only checking a record takes memory for it.
const MEMORY_PER_STORED_BYTE: usize = 44 << 10;

/// Runs one input.
pub fn run(input: &[u8]) {
    let image = Image::choose(&mut Choices::new(input));
    memory::bounded(memory_max(&image), || check(&image));
}

/// The most memory that reading a store may take: a fixed part, a multiple of
/// what its files hold, and the longest record that is gathered or whose frame
/// has as many blocks as its length needs.
pub fn memory_max(image: &Image) -> usize {
    let longest =
        image.locations().filter(|location| location.codec != Codec::Raw).map(|location| {
            let stored = (location.stored_len as usize).min(image.len());
            (location.len as usize).min(stored.saturating_mul(MEMORY_PER_STORED_BYTE))
        });
    let longest = longest.max().unwrap_or(0);
    let raw = 2 * observe::RECORD_MAX as usize * 42;
    MEMORY_FIXED + MEMORY_PER_BYTE * image.len() + raw + 3 * longest
}

/// Demands that all ways of reading agree.
pub fn check(image: &Image) {
    let directory = image.in_memory();
    let core = observe::core::<Libzstd>(&directory);
    if let Some(core) = &core {
        for (index, bytes) in core.bytes() {
            bytes.inspect(|bytes| check_stored(image, index, bytes));
        }
    }
    let pure = observe::core::<Ruzstd>(&directory);
    assert_eq!(core.is_some(), pure.is_some(), "the backends differ in opening");
    let (_guard, path) = observe::folder();
    image.in_folder(&path);
    let lies = observe::stride_lies(&directory);
    for (io, verify, whole) in [(Io::Map, Verify::First, true), (Io::Pread, Verify::Always, false)]
    {
        compare(core.as_ref(), observe::host(&path, io, verify, whole).as_ref(), lies);
    }
    // Nothing is promised but to survive.
    drop(observe::host(&path, Io::Map, Verify::Never, false));
}

/// The host against the core. Where the header's stride lies, the host may
/// refuse more, and say other lengths, but gives no other bytes.
pub fn compare(core: Option<&Observation>, host: Option<&Observation>, stride_lies: bool) {
    let (core, host) = match (core, host) {
        (Some(core), Some(host)) => (core, host),
        (None, None) => return,
        (Some(_), None) if stride_lies => return,
        (core, host) => panic!("one opens it, the other does not: {core:?} {host:?}"),
    };
    if !stride_lies {
        assert_eq!(core.records, host.records, "core and host differ in a record");
        assert_eq!((core.length, &core.schema), (host.length, &host.schema));
        if host.whole.is_some() {
            assert_eq!(core.whole, host.whole, "core and host differ in the whole");
        }
        return;
    }
    assert_eq!(core.length, host.length);
    for ((index, core), (_, host)) in core.bytes().zip(host.bytes()) {
        assert!(host.is_none() || host == core, "record {index} differs");
    }
}

/// Bytes that were read must be what the raw files say by the format's text:
/// the stored bytes, unpacked, below a checksum that holds.
pub fn check_stored(image: &Image, index: u64, bytes: &[u8]) {
    let location = image.location(index).unwrap();
    let (offset, len) = (u64::from(location.offset), u64::from(location.stored_len));
    let chunk = image.files.get(&location.file());
    let stored = match len {
        0 => Vec::new(),
        _ => chunk.and_then(|chunk| chunk.get(offset, len)).unwrap(),
    };
    if let Some(expected) = location.checksum {
        let found = checksum(&stored, location.len, location.codec, location.dictionary);
        assert_eq!(found, expected, "record {index} was read against its checksum");
    }
    let number = zrecord_core::storage::FileName::Dictionary(location.dictionary);
    let dictionary = match location.codec {
        Codec::ZstdDict => Some(Libzstd::dictionary(&image.files[&number].bytes).unwrap()),
        _ => None,
    };
    let mut expected = vec![0; location.len as usize];
    let mut decoder = <Libzstd as Zstd>::Decoder::default();
    unpack::<Libzstd>(&mut decoder, dictionary.as_ref(), location.codec, &stored, &mut expected)
        .unwrap();
    assert!(bytes == expected, "record {index} is not what was stored");
}
