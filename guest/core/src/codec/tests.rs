//! Both backends against each other, and against bytes that nobody wrote.

use proptest::prelude::*;

use super::libzstd::Libzstd;
use super::pack::{self, Arena, PackDictionary, PackEncoder, PackPolicy, PackedRecord, Packer};
use super::pure::{self, Ruzstd};
use super::*;
use crate::Error;
use crate::format::{Format, checksum};

/// Reproducible bytes: `alphabet` different ones, in runs and echoes so that
/// matches, literals and raw blocks all occur.
fn sample(seed: u64, len: usize, alphabet: u8) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut bytes = Vec::with_capacity(len + 64);
    while bytes.len() < len {
        let draw = next();
        let run = usize::try_from(draw >> 8 & 31).unwrap();
        match draw & 7 {
            0 if bytes.len() > 64 => {
                let start = usize::try_from(next()).unwrap() % (bytes.len() - 32);
                bytes.extend_from_within(start..start + run);
            }
            1 => bytes.extend(std::iter::repeat_n(draw.to_le_bytes()[5] % alphabet, run)),
            _ => bytes.extend(next().to_le_bytes().map(|byte| byte % alphabet)),
        }
    }
    bytes.truncate(len);
    bytes
}

/// Reproducible bytes that do not compress.
fn noise(seed: u64, len: usize) -> Vec<u8> {
    let word = |n: u64| (n ^ seed).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    let mix = |n: u64| word(word(n) ^ n >> 3).to_le_bytes();
    (0..).flat_map(mix).take(len).collect()
}

/// Lengths around the limits of blocks and header fields.
const LENGTHS: [usize; 14] =
    [0, 1, 2, 7, 255, 256, 1_025, 12_288, 65_791, 65_792, 131_071, 131_072, 131_073, 300_000];

fn encode<Z: Zstd>(level: i32, dictionary: Option<&[u8]>, record: &[u8]) -> Vec<u8> {
    let plan = Z::plan(level, None, dictionary).unwrap();
    let mut encoder = Z::encoder(&plan).unwrap();
    let mut frame = vec![0; record.len() + 100];
    let len = Z::encode(&plan, &mut encoder, record, &mut frame).unwrap().expect("fits");
    frame.truncate(len);
    frame
}

fn decode<Z: Zstd>(
    dictionary: Option<&[u8]>,
    frame: &[u8],
    len: usize,
) -> Result<Vec<u8>, CodecError> {
    let dictionary = dictionary.map(|bytes| Z::dictionary(bytes).unwrap());
    let mut record = vec![0xA5; len];
    Z::decode(&mut Z::Decoder::default(), dictionary.as_ref(), frame, &mut record)?;
    Ok(record)
}

fn trained(seed: u64) -> Vec<u8> {
    let (samples, sizes) = (sample(seed, 200_000, 40), [500; 400]);
    Libzstd::train(&samples, &sizes, 8 << 10).unwrap()
}

fn reason<T: std::fmt::Debug>(result: Result<T, CodecError>) -> String {
    match result.expect_err("must be refused") {
        CodecError::Corrupt(reason) => reason,
        other => panic!("not corrupt, but {other:?}"),
    }
}

#[test]
fn each_backend_reads_what_either_wrote() {
    for (seed, len) in (0..).zip(LENGTHS) {
        for alphabet in [1, 20, 255] {
            let record = sample(seed, len, alphabet);
            let mut frames = vec![encode::<Ruzstd>(pure::LEVEL, None, &record)];
            frames.extend([-5, 1, 3].map(|level| encode::<Libzstd>(level, None, &record)));
            if len < 20_000 {
                frames.push(encode::<Libzstd>(19, None, &record));
            }
            for frame in frames {
                assert_eq!(frame::parse(&frame).unwrap().content_size, Some(len as u64));
                assert!(decode::<Libzstd>(None, &frame, len).unwrap() == record);
                assert!(decode::<Ruzstd>(None, &frame, len).unwrap() == record);
            }
        }
    }
}

#[test]
fn both_backends_decode_with_a_dictionary() {
    let dictionary = trained(1);
    for (level, len) in [(1, 0), (1, 300_000), (3, 500), (3, 140_000), (19, 500), (19, 4_000)] {
        let record = sample(1, len, 40);
        let frame = encode::<Libzstd>(level, Some(&dictionary), &record);
        assert!(decode::<Libzstd>(Some(&dictionary), &frame, len).unwrap() == record);
        assert!(decode::<Ruzstd>(Some(&dictionary), &frame, len).unwrap() == record);
    }
    let record = sample(1, 500, 40);
    let plain = encode::<Libzstd>(19, None, &record);
    assert!(encode::<Libzstd>(19, Some(&dictionary), &record).len() < plain.len());
}

fn wrong_dictionaries_are_named<Z: Zstd>() {
    let (one, other) = (trained(1), trained(2));
    let ids = [&one, &other].map(|bytes| frame::dictionary_id(bytes).unwrap().to_string());
    let record = sample(1, 500, 40);
    let frame = encode::<Libzstd>(3, Some(&one), &record);

    let wrong = reason(decode::<Z>(Some(&other), &frame, 500));
    assert!(ids.iter().all(|id| wrong.contains(id)), "{wrong}");
    let missing = reason(decode::<Z>(None, &frame, 500));
    assert!(missing.contains("needs a dictionary") && missing.contains(&ids[0]), "{missing}");
    let plain = encode::<Libzstd>(3, None, &record);
    assert!(reason(decode::<Z>(Some(&one), &plain, 500)).contains("names no dictionary"));
    // Raw content would be taken for a dictionary by libzstd.
    assert!(reason(Z::dictionary(b"no dictionary at all").map(drop)).contains("not a zstd"));
    assert!(Z::dictionary(&one[..40]).is_err());
    assert!(Z::dictionary(&[]).is_err());
}

#[test]
fn wrong_dictionaries_are_named_by_libzstd() {
    wrong_dictionaries_are_named::<Libzstd>();
}

#[test]
fn wrong_dictionaries_are_named_by_ruzstd() {
    wrong_dictionaries_are_named::<Ruzstd>();
}

#[test]
fn dictionaries_of_one_id_are_not_confused() {
    let one = trained(1);
    let mut other = trained(2);
    other[4..8].copy_from_slice(&one[4..8]);
    let dictionaries = [one, other].map(|bytes| (Ruzstd::dictionary(&bytes).unwrap(), bytes));
    let mut decoder = Default::default();
    for turn in 0..6 {
        let (dictionary, bytes) = &dictionaries[turn % 2];
        let record = sample(turn as u64 % 2 + 1, 500, 40);
        let frame = encode::<Libzstd>(19, Some(bytes), &record);
        let mut decoded = vec![0; 500];
        Ruzstd::decode(&mut decoder, Some(dictionary), &frame, &mut decoded).unwrap();
        assert_eq!(decoded, record);
    }
}

#[test]
fn a_decoder_outlives_more_dictionaries_than_it_keeps() {
    let (base, record) = (trained(1), sample(1, 500, 40));
    let mut decoder = Default::default();
    for id in 1_u32..=40 {
        let mut bytes = base.clone();
        bytes[4..8].copy_from_slice(&(id * 70_000).to_le_bytes());
        let frame = encode::<Libzstd>(1, Some(&bytes), &record);
        let mut decoded = vec![0; 500];
        let dictionary = Ruzstd::dictionary(&bytes).unwrap();
        Ruzstd::decode(&mut decoder, Some(&dictionary), &frame, &mut decoded).unwrap();
        assert_eq!(decoded, record);
    }
}

fn exact_lengths_are_demanded<Z: Zstd>() {
    let record = sample(3, 5_000, 20);
    let frame = encode::<Libzstd>(3, None, &record);
    for len in [0, 4_999, 5_001] {
        let declared = reason(decode::<Z>(None, &frame, len));
        assert!(declared.contains("declares 5000") && declared.contains(&len.to_string()));
    }
    // Declared and produced length differ, both ways.
    for len in [4_999_u16, 5_001] {
        let mut lying = frame.clone();
        assert_eq!(lying[4] >> 6, 1, "two bytes of content size");
        lying[5..7].copy_from_slice(&(len - 256).to_le_bytes());
        assert!(decode::<Z>(None, &lying, usize::from(len)).is_err());
    }
    // Two frames are not one, whatever they sum to; nor is one with a tail.
    for tail in [encode::<Libzstd>(3, None, &[]), vec![0]] {
        let double = [frame.as_slice(), &tail].concat();
        assert!(reason(decode::<Z>(None, &double, 5_000)).contains("follow the zstd frame"));
    }
    for cut in 0..frame.len() {
        assert!(decode::<Z>(None, &frame[..cut], 5_000).is_err());
    }
}

#[test]
fn exact_lengths_are_demanded_by_libzstd() {
    exact_lengths_are_demanded::<Libzstd>();
}

#[test]
fn exact_lengths_are_demanded_by_ruzstd() {
    exact_lengths_are_demanded::<Ruzstd>();
}

#[test]
fn a_bomb_is_refused_before_it_grows() {
    // Declares 10 bytes and has a thousand blocks of 128 KiB of zeros.
    let mut bomb = vec![0x28, 0xB5, 0x2F, 0xFD, 0x20, 10];
    for last in (0..1_000).map(|block| u32::from(block == 999)) {
        let header = last | 1 << 1 | (128 << 10) << 3;
        bomb.extend_from_slice(&header.to_le_bytes()[..3]);
        bomb.push(0);
    }
    assert!(frame::check(&bomb, None, 10).is_ok());
    assert!(decode::<Libzstd>(None, &bomb, 10).is_err());
    assert!(decode::<Ruzstd>(None, &bomb, 10).is_err());
}

#[test]
fn a_window_beyond_the_content_costs_nothing() {
    // 2 GiB of window for one raw byte.
    let frame = [0x28, 0xB5, 0x2F, 0xFD, 0x80, 0xA8, 1, 0, 0, 0, 9, 0, 0, 7];
    assert_eq!(frame::parse(&frame).unwrap().window_size, 1 << 31);
    assert_eq!(decode::<Ruzstd>(None, &frame, 1).unwrap(), [7]);
}

#[test]
fn frames_for_decoding_keep_their_literals() {
    let presets = [None, Some(Preset::Decode)];
    let stored = |record: &[u8]| {
        presets.map(|preset| {
            let plan = Libzstd::plan(9, preset, None).unwrap();
            let mut encoder = Libzstd::encoder(&plan).unwrap();
            let mut frame = vec![0; 2 * record.len() + 64];
            let len = Libzstd::encode(&plan, &mut encoder, record, &mut frame).unwrap().unwrap();
            assert_eq!(decode::<Libzstd>(None, &frame[..len], record.len()).unwrap(), record);
            assert_eq!(decode::<Ruzstd>(None, &frame[..len], record.len()).unwrap(), record);
            len
        })
    };
    // Few values, at random: nothing repeats.
    let mut state = 1_u32;
    let uneven: Vec<u8> = (0..10_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24).to_le_bytes()[0] % 64
        })
        .collect();
    let [plain, fast] = stored(&uneven);
    assert!(plain < 8_000 && fast > 9_900, "{plain} {fast}");
    let [plain, fast] = stored(&uneven[..100].repeat(100));
    assert!(plain < 200 && fast < 300, "{plain} {fast}");
}

#[test]
fn a_preset_is_for_zstd_alone() {
    let policy = PackPolicy::new(Codec::Zstd, Format::Extended);
    let policy = PackPolicy { preset: Some(Preset::Decode), ..policy };
    assert!(Packer::<Libzstd>::new(policy, None).is_ok());
    let refused = Packer::<Ruzstd>::new(policy, None).err().unwrap();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
    assert!(Packer::<Ruzstd>::new(PackPolicy { codec: Codec::Raw, ..policy }, None).is_ok());
    let bytes = trained(1);
    let dictionary = PackDictionary { number: 0, bytes: &bytes };
    let policy = PackPolicy { codec: Codec::ZstdDict, ..policy };
    let refused = Packer::<Libzstd>::new(policy, Some(dictionary)).err().unwrap();
    assert!(matches!(refused, Error::InvalidArgument { argument: "preset", .. }), "{refused}");
}

#[test]
fn levels_are_checked() {
    let refused = |result: Result<(), CodecError>, words: &[&str]| match result {
        Err(CodecError::Unsupported(what)) => {
            assert!(words.iter().all(|word| what.contains(word)), "{what}");
        }
        other => panic!("{other:?}"),
    };
    for level in [i32::MIN, -131_073, 23, i32::MAX] {
        refused(Libzstd::plan(level, None, None).map(drop), &["-131072 to 22", &level.to_string()]);
    }
    for level in [i32::MIN, -1, 0, 2, 3, 19, i32::MAX] {
        refused(Ruzstd::plan(level, None, None).map(drop), &["native host", &level.to_string()]);
    }
    refused(
        Ruzstd::plan(pure::LEVEL, None, Some(&trained(1))).map(drop),
        &["dictionary", "native host"],
    );
    refused(Ruzstd::train(&[], &[], 0).map(drop), &["native host"]);
}

#[test]
fn training_says_what_is_wrong() {
    let refused = |samples: &[u8], sizes: &[usize], capacity, word: &str| match Libzstd::train(
        samples, sizes, capacity,
    ) {
        Err(CodecError::Training(reason)) => assert!(reason.contains(word), "{reason}"),
        other => panic!("{other:?}"),
    };
    let samples = sample(1, 10_000, 40);
    refused(&samples, &[5_000, 5_001], 8_192, "must sum to the 10000 bytes");
    refused(&samples, &[5_000], 8_192, "must sum to");
    refused(&samples, &[usize::MAX, 10_001], 8_192, "must sum to");
    refused(&samples, &[10_000], 8_192, "too few or too small samples (1 with 10000");
    refused(&samples[..9], &[3; 3], 8_192, "too few or too small");
    refused(&[], &[0; 9], 8_192, "too few or too small");
    refused(&[], &[], 8_192, "too few or too small");
    refused(&samples, &[100; 100], 255, "smallest has 256");
}

#[test]
fn what_does_not_fit_is_none() {
    let record = sample(1, 5_000, 20);
    let exact = encode::<Libzstd>(3, None, &record).len();
    let plan = Libzstd::plan(3, None, None).unwrap();
    let mut encoder = Libzstd::encoder(&plan).unwrap();
    let mut dst = vec![0; exact + 32];
    for len in [exact - 1, 10, 0] {
        assert_eq!(Libzstd::encode(&plan, &mut encoder, &record, &mut dst[..len]), Ok(None));
    }
    assert_eq!(Libzstd::encode(&plan, &mut encoder, &record, &mut dst), Ok(Some(exact)));
    let plan = Ruzstd::plan(pure::LEVEL, None, None).unwrap();
    let mut encoder = Ruzstd::encoder(&plan).unwrap();
    assert_eq!(Ruzstd::encode(&plan, &mut encoder, &record, &mut dst[..10]), Ok(None));
    let mut dst = vec![0; 5_000];
    assert!(matches!(Ruzstd::encode(&plan, &mut encoder, &record, &mut dst), Ok(Some(_))));
}

fn packed<Z: Zstd>(policy: PackPolicy, record: &[u8]) -> (PackedRecord, Vec<u8>) {
    let packer = Packer::<Z>::new(policy, None).unwrap();
    let mut arena = Arena::default();
    let packed = packer.pack(&mut PackEncoder::default(), record, &mut arena).unwrap();
    (packed, arena.bytes().to_vec())
}

#[test]
fn a_record_must_save_its_share() {
    let record = sample(5, 1_000, 60);
    let frame = encode::<Libzstd>(3, None, &record).len();
    assert!((400..950).contains(&frame), "{frame}");
    let stored = |min_saving| {
        let policy = PackPolicy { codec: Codec::Zstd, level: Some(3), preset: None, min_saving };
        let (packed, bytes) = packed::<Libzstd>(policy, &record);
        assert_eq!(bytes.len(), packed.stored_len as usize);
        assert_eq!(packed.checksum, checksum(&bytes, 1_000, packed.codec, 0));
        packed
    };
    let share = (1_000 - frame) as f64 / 1_000.0;
    for saved in [0.0, share - 0.000_9, share - 0.000_1] {
        assert_eq!((stored(saved).codec, stored(saved).stored_len as usize), (Codec::Zstd, frame));
    }
    for missed in [share + 0.000_1, share + 0.001, 0.999] {
        assert_eq!((stored(missed).codec, stored(missed).stored_len), (Codec::Raw, 1_000));
    }
}

#[test]
fn what_does_not_shrink_is_stored_raw() {
    let policy = PackPolicy { codec: Codec::Zstd, level: None, preset: None, min_saving: 0.0 };
    for record in [&[][..], &[7], &[1, 2, 3, 4, 5], &noise(9, 3_000)] {
        for (packed, bytes) in [packed::<Libzstd>(policy, record), packed::<Ruzstd>(policy, record)]
        {
            assert_eq!(bytes, record);
            assert_eq!(packed, PackedRecord::raw(record).unwrap());
            assert_eq!((packed.codec, packed.dictionary), (Codec::Raw, 0));
        }
    }
    for min_saving in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        let policy = PackPolicy { min_saving, ..policy };
        let refused = Packer::<Libzstd>::new(policy, None).err().unwrap();
        assert!(matches!(refused, Error::InvalidArgument { argument: "min_saving", .. }));
    }
}

#[test]
fn packed_records_unpack_from_a_shared_arena() {
    let bytes = trained(1);
    let dictionary = PackDictionary { number: 3, bytes: &bytes };
    let policy = PackPolicy::new(Codec::ZstdDict, Format::Extended);
    assert!(Packer::<Libzstd>::new(policy, None).is_err());
    assert!(Packer::<Ruzstd>::new(policy, Some(dictionary)).is_err());
    let packer = Packer::<Libzstd>::new(policy, Some(dictionary)).unwrap();
    let (mut encoder, mut arena) = (PackEncoder::default(), Arena::default());
    let records: Vec<_> =
        (0_u8..40).map(|n| sample(u64::from(n % 3), 37 * usize::from(n), 40)).collect();
    for _ in 0..2 {
        arena.clear();
        let mut places = Vec::new();
        for record in &records {
            let offset = u32::try_from(arena.len()).unwrap();
            let packed = packer.pack(&mut encoder, record, &mut arena).unwrap();
            assert_eq!(packed.dictionary, if packed.codec == Codec::ZstdDict { 3 } else { 0 });
            places.push(packed.at(0, offset, Format::Extended));
        }
        assert!(places.iter().any(|place| place.codec == Codec::ZstdDict));
        let ready = Libzstd::dictionary(&bytes).unwrap();
        let mut decoder = Default::default();
        for ((index, place), record) in (0..).zip(&places).zip(&records) {
            let stored = &arena.bytes()[place.offset as usize..][..place.stored_len as usize];
            place.check(index, stored).unwrap();
            let mut dst = vec![0; record.len()];
            let unpack = pack::unpack_record::<Libzstd>;
            unpack(&mut decoder, Some(&ready), index, place, stored, &mut dst).unwrap();
            assert_eq!(&dst, record);
            dst.push(0);
            assert!(unpack(&mut decoder, Some(&ready), index, place, stored, &mut dst).is_err());
            if place.codec == Codec::ZstdDict {
                dst.pop();
                let error = unpack(&mut decoder, None, index, place, stored, &mut dst).unwrap_err();
                assert!(error.is_corruption() && error.to_string().contains("dictionary"));
            }
        }
    }
}

/// Changes a few bytes of `frame` at places drawn from `seed`.
fn mutate(frame: &mut [u8], seed: u64) {
    let noise = sample(seed, 16, 255);
    for pair in noise.chunks(4).take(1 + usize::from(noise[15] % 4)) {
        let place = u32::from_le_bytes([pair[0], pair[1], seed.to_le_bytes()[0], 0]) as usize;
        let place = place % frame.len();
        frame[place] ^= if pair[2] & 1 == 0 { 1 << (pair[3] & 7) } else { pair[3] | 1 };
    }
}

#[test]
fn flipped_bytes_never_panic() {
    let dictionary = trained(1);
    let digested =
        (Libzstd::dictionary(&dictionary).unwrap(), Ruzstd::dictionary(&dictionary).unwrap());
    let record = sample(1, 3_000, 40);
    let plain = [encode::<Libzstd>(3, None, &record), encode::<Ruzstd>(1, None, &record)];
    let with = [encode::<Libzstd>(19, Some(&dictionary), &record)];
    let (mut one, mut other) = Default::default();
    let (mut dst, mut refused) = (vec![0; 3_000], 0);
    for seed in 1..4_000_u64 {
        let dictionary = seed % 3 == 0;
        let frames = if dictionary { &with[..] } else { &plain[..] };
        let mut frame = frames[usize::from(seed % 2 == 0) % frames.len()].clone();
        mutate(&mut frame, seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let given = dictionary.then_some(&digested.0);
        let by_c = Libzstd::decode(&mut one, given, &frame, &mut dst);
        let given = dictionary.then_some(&digested.1);
        let by_rust = Ruzstd::decode(&mut other, given, &frame, &mut dst);
        // Whether they notice differs, and so may then what they decode:
        // libzstd takes Huffman streams with bits left over, ruzstd ones whose
        // lengths are only right in sum. A record's checksum is what notices.
        refused += usize::from(by_c.is_err() && by_rust.is_err());
    }
    assert!(refused > 1_000, "{refused}");
    // A context that met corrupt frames still works.
    Ruzstd::decode(&mut other, Some(&digested.1), &with[0], &mut dst).unwrap();
    assert_eq!(dst, record);
    Libzstd::decode(&mut one, Some(&digested.0), &with[0], &mut dst).unwrap();
    assert_eq!(dst, record);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn any_record_roundtrips(seed: u64, len in 0_usize..4_000, alphabet in 1_u8..) {
        let record = sample(seed, len, alphabet);
        let policy = PackPolicy::new(Codec::Zstd, Format::Classic);
        for (packed, stored) in [packed::<Libzstd>(policy, &record), packed::<Ruzstd>(policy, &record)] {
            let mut dst = vec![0; len];
            pack::unpack::<Libzstd>(&mut Default::default(), None, packed.codec, &stored, &mut dst).unwrap();
            prop_assert_eq!(&dst, &record);
            dst.fill(0);
            pack::unpack::<Ruzstd>(&mut Default::default(), None, packed.codec, &stored, &mut dst).unwrap();
            prop_assert_eq!(&dst, &record);
        }
    }

    #[test]
    fn any_bytes_are_refused_without_panic(bytes: Vec<u8>, len in 0_usize..100) {
        let mut framed = frame::MAGIC.to_le_bytes().to_vec();
        framed.extend_from_slice(&bytes);
        for bytes in [&bytes, &framed] {
            let _ = decode::<Libzstd>(None, bytes, len);
            let _ = decode::<Ruzstd>(None, bytes, len);
            let _ = frame::with_content_size(bytes, len as u64, &mut [0; 64]);
            let _ = Ruzstd::dictionary(bytes);
        }
    }
}
