//! The interface `codec`. Natively libzstd answers where it can: what one
//! backend packs, the other must unpack.

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::{Arena, PackDictionary, PackEncoder, PackPolicy, Packer};
use zrecord_core::codec::pure::Ruzstd;
use zrecord_core::codec::{Codec, Zstd};
use zrecord_core::format::Format;
use zrecord_tests::component::bindings::codec::Error;
use zrecord_tests::component::bindings::store::Compression;
use zrecord_tests::component::instance::World;
use zrecord_tests::component::pair::Pair;
use zrecord_tests::component::words;
use zrecord_tests::fuzz::codec::trained;

use super::Compared;

const ALL: [Compression; 3] = [Compression::Raw, Compression::Zstd, Compression::ZstdDict];

/// Empty, short, long, words, noise, one byte again and again.
fn records() -> Vec<Vec<u8>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut noise = |len| (0..len).map(|_| random.u8(..)).collect::<Vec<u8>>();
    vec![
        vec![],
        vec![7],
        noise(33),
        noise(200_000),
        b"sample 3 of 12 with words, and words again".to_vec(),
        b"sample 4 of 12 with words ".repeat(9_000),
        vec![0; 1 << 20],
    ]
}

/// As libzstd packs it, raw where that is shorter.
fn packed(codec: Codec, record: &[u8], level: i32) -> (Codec, Vec<u8>) {
    let policy = PackPolicy { codec, level: Some(level), preset: None, min_saving: 0.0 };
    let dictionary = PackDictionary { number: 0, bytes: trained() };
    let packer = Packer::<Libzstd>::new(policy, Some(dictionary)).unwrap();
    let mut arena = Arena::default();
    let packed = packer.pack(&mut PackEncoder::default(), record, &mut arena).unwrap();
    (packed.codec, arena.bytes().to_vec())
}

pub fn unpack(world: World) -> Compared {
    let mut pair = Pair::empty(world);
    let mut by_codec = [0; 3];
    for record in records() {
        for codec in Codec::ALL {
            for level in [1, 3, 19] {
                let (codec, stored) = packed(codec, &record, level);
                by_codec[usize::from(codec.number())] += 1;
                let (codec, len) = (words::compression(codec), record.len() as u32);
                let dictionary = (codec == Compression::ZstdDict).then(trained);
                pair.expect("unpack", &Ok(record.clone()), |component| {
                    component.unpack(codec, dictionary, &stored, len)
                });
                refused(&mut pair, codec, &stored, len);
            }
        }
    }
    assert!(by_codec.iter().all(|count| *count > 5), "{by_codec:?}");
    oversized(&mut pair);
    pair.take_compared()
}

/// The kind of an error; what a decoder says is in its own words.
fn kind<T>(result: Result<T, Error>) -> Result<T, &'static str> {
    result.map_err(|error| match error {
        Error::Corrupt(reason) => {
            assert!(!reason.is_empty());
            "corrupt"
        }
        Error::Unsupported(_) => "unsupported",
        Error::Other(_) => "other",
    })
}

/// Other lengths, other bytes, other dictionaries: natively as well.
fn refused(pair: &mut Pair, codec: Compression, stored: &[u8], len: u32) {
    let dictionary = (codec == Compression::ZstdDict).then(trained);
    for wrong in [len.wrapping_sub(1), len + 1, 0, u32::MAX] {
        if wrong != len {
            let expected = natively(codec, dictionary, stored, wrong);
            assert!(expected.is_err());
            pair.expect("another length", &expected, |component| {
                kind(component.unpack(codec, dictionary, stored, wrong))
            });
        }
    }
    for cut in [0, 1, 5, stored.len() / 2, stored.len().saturating_sub(1)] {
        let cut = &stored[..cut.min(stored.len())];
        let expected = natively(codec, dictionary, cut, len);
        pair.expect("cut", &expected, |c| kind(c.unpack(codec, dictionary, cut, len)));
    }
    let behind = [stored, &[0]].concat();
    let expected = natively(codec, dictionary, &behind, len);
    assert!(expected.is_err());
    pair.expect("a byte behind", &expected, |c| kind(c.unpack(codec, dictionary, &behind, len)));
    for dictionary in [None, Some(&b""[..]), Some(b"no dictionary"), Some(&trained()[..100])] {
        let expected = natively(codec, dictionary, stored, len);
        pair.expect("another dictionary", &expected, |component| {
            kind(component.unpack(codec, dictionary, stored, len))
        });
    }
    // A frame says itself whether it needs a dictionary.
    for other in ALL {
        let expected = natively(other, Some(trained()), stored, len);
        pair.expect("another codec", &expected, |component| {
            kind(component.unpack(other, Some(trained()), stored, len))
        });
    }
}

/// What libzstd makes of it.
fn natively(
    codec: Compression,
    dictionary: Option<&[u8]>,
    stored: &[u8],
    len: u32,
) -> Result<Vec<u8>, &'static str> {
    use zrecord_core::codec::{frame, pack};
    let dictionary = match (codec, dictionary) {
        (Compression::ZstdDict, Some(bytes)) => {
            Some(Libzstd::dictionary(bytes).map_err(|_| "corrupt")?)
        }
        _ => None,
    };
    let declared = match codec {
        Compression::Raw => Some(stored.len() as u64),
        _ => frame::parse(stored).map_err(|_| "corrupt")?.content_size,
    };
    if declared != Some(len.into()) {
        return Err("corrupt");
    }
    let mut record = vec![0; len as usize];
    let codec = words::codec(codec);
    let mut decoder = <Libzstd as Zstd>::Decoder::default();
    pack::unpack::<Libzstd>(&mut decoder, dictionary.as_ref(), codec, stored, &mut record)
        .map_err(|_| "corrupt")?;
    Ok(record)
}

/// Frames that the sandbox has no room for.
fn oversized(pair: &mut Pair) {
    // A single segment of so many bytes, in blocks that each repeat one.
    let blocks = (256 << 20 >> 17) + 1_u32;
    let mut frame = zrecord_core::codec::frame::MAGIC.to_le_bytes().to_vec();
    frame.push(0b1010_0000);
    frame.extend_from_slice(&(blocks << 17).to_le_bytes());
    for number in 1..=blocks {
        let block = u32::from(number == blocks) | 1 << 1 | 1 << 20;
        frame.extend_from_slice(&block.to_le_bytes()[..3]);
        frame.push(b'z');
    }
    pair.expect("a frame of more than 256 MiB", &Err("unsupported"), |component| {
        kind(component.unpack(Compression::Zstd, None, &frame, blocks << 17))
    });
}

pub fn pack(world: World) -> Compared {
    let mut pair = Pair::empty(world);
    for record in records() {
        for codec in [Codec::Raw, Codec::Zstd] {
            let policy = PackPolicy { codec, level: None, preset: None, min_saving: 0.0 };
            let packer = Packer::<Ruzstd>::new(policy, None).unwrap();
            let mut arena = Arena::default();
            let packed = packer.pack(&mut PackEncoder::default(), &record, &mut arena).unwrap();
            let expected = Ok((words::compression(packed.codec), arena.bytes().to_vec()));
            let codec = words::compression(codec);
            pair.expect("pack", &expected, |component| component.pack(codec, &record));
        }
        pair.expect("a dictionary", &Err("unsupported"), |component| {
            kind(component.pack(Compression::ZstdDict, &record))
        });
    }
    pair.take_compared()
}

pub fn checksum(world: World) -> Compared {
    let mut pair = Pair::empty(world);
    for record in records() {
        for (len, dictionary) in [(0, 0), (record.len() as u32, 0), (u32::MAX, 255)] {
            for codec in Codec::ALL {
                let expected = zrecord_core::format::checksum(&record, len, codec, dictionary);
                pair.expect("checksum", &expected, |component| {
                    component.checksum(&record, len, words::compression(codec), dictionary)
                });
            }
        }
    }
    // What a store has of its own records is the same.
    let image = &zrecord_tests::fuzz::bases::all()[super::stores::MIXED];
    assert_eq!(image.format(), Format::Extended);
    for location in image.locations() {
        let chunk = &image.files[&location.file()];
        let stored = chunk.get(location.offset.into(), location.stored_len.into()).unwrap();
        pair.expect("of a store", &location.checksum.unwrap(), |component| {
            let codec = words::compression(location.codec);
            component.checksum(&stored, location.len, codec, location.dictionary)
        });
    }
    pair.take_compared()
}
