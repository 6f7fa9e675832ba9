//! The checksum of records is one function, by two crates: the native build
//! has another than the component.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use xxhash_rust::xxh3::xxh3_64_with_seed;
use zrecord_core::codec::Codec;
use zrecord_core::format::checksum;

/// Its method changes at 17, 129 and 241 bytes, with every 64, and with every
/// 1024.
#[test]
fn both_crates_agree_at_every_length() {
    let bytes: Vec<u8> = (0..9_000_u32).map(|at| (at * at % 253).to_le_bytes()[0]).collect();
    for len in (0..1_100).chain((1_100..9_000).step_by(61)) {
        let bytes = &bytes[..len];
        let len = u32::try_from(len).unwrap();
        for (codec, dictionary) in [(Codec::Raw, 0), (Codec::Zstd, 0), (Codec::ZstdDict, 255)] {
            let seed =
                u64::from(len) | u64::from(codec.number()) << 32 | u64::from(dictionary) << 40;
            let other = xxh3_64_with_seed(bytes, seed) & u64::from(u32::MAX);
            assert_eq!(u64::from(checksum(bytes, len, codec, dictionary)), other, "{len}");
        }
    }
}
