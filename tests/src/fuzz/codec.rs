//! Frames and dictionaries of any content: exactly the asked number of bytes
//! or an error, from both backends; and records that come back as they went
//! in.

use std::sync::OnceLock;

use zrecord_core::codec::libzstd::Libzstd;
use zrecord_core::codec::pack::{Arena, PackDictionary, PackEncoder, PackPolicy, Packer, unpack};
use zrecord_core::codec::pure::{self, Ruzstd};
use zrecord_core::codec::{Codec, Zstd, frame};
use zrecord_core::format::Format;

use super::choices::Choices;
use super::memory;

/// The longest record that is decoded, in bytes.
const LEN_MAX: usize = 1 << 20;
/// What decoding and encoding may take, whatever the input: both backends'
/// tables, the destinations, and ruzstd's copy of the content beside one.
pub const MEMORY_MAX: usize = 16 << 20;
/// Bytes around a destination, which must stay as they are.
const MARGIN: usize = 64;
const UNTOUCHED: u8 = 0xA5;

/// Runs one input.
pub fn run(input: &[u8]) {
    trained();
    memory::bounded(MEMORY_MAX, || {
        let mut choices = Choices::new(input);
        if choices.once_in(4) { check_packing(choices) } else { check_decoding(choices) }
    });
}

/// A dictionary as libzstd trains it.
pub fn trained() -> &'static [u8] {
    static TRAINED: OnceLock<Vec<u8>> = OnceLock::new();
    TRAINED.get_or_init(|| {
        let samples: Vec<Vec<u8>> = (0..200_u32)
            .map(|number| format!("sample {} of {number} with words", number % 7).into_bytes())
            .collect();
        let sizes: Vec<usize> = samples.iter().map(Vec::len).collect();
        Libzstd::train(&samples.concat(), &sizes, 1024).unwrap()
    })
}

fn check_decoding(mut choices: Choices<'_>) {
    let dictionary = dictionary(&mut choices);
    let asked = choices.number(64);
    let frame = frame(&mut choices);
    let declared = frame::FrameHeader::parse(&frame).ok().and_then(|header| header.content_size);
    // Most often what the frame declares, since everything else is refused.
    let len = if choices.once_in(8) { asked } else { declared.unwrap_or(asked) };
    let Some(len) = usize::try_from(len).ok().filter(|len| *len <= LEN_MAX) else { return };
    let one = decode::<Libzstd>(dictionary.as_deref(), &frame, len);
    let other = decode::<Ruzstd>(dictionary.as_deref(), &frame, len);
    if one.is_some() || other.is_some() {
        assert_eq!(declared, Some(len as u64), "a frame that declares another length was decoded");
    }
}

/// No dictionary, a good one, one with damage, or anything.
fn dictionary(choices: &mut Choices<'_>) -> Option<Vec<u8>> {
    match choices.any::<u8>() % 4 {
        0 => Some(trained().to_vec()),
        1 => {
            let mut bytes = trained().to_vec();
            for _ in 0..1 + choices.below(4) {
                let place = choices.below(bytes.len());
                bytes[place] = choices.any();
            }
            bytes.truncate(choices.number(bytes.len() as u64).max(8).try_into().unwrap_or(1024));
            Some(bytes)
        }
        2 => {
            let mut bytes = frame::DICTIONARY_MAGIC.to_le_bytes().to_vec();
            bytes.extend_from_slice(choices.bytes(512));
            Some(bytes)
        }
        _ => None,
    }
}

/// A frame: any bytes, or a header that says anything before blocks that are
/// of any kind and length.
pub fn frame(choices: &mut Choices<'_>) -> Vec<u8> {
    if choices.once_in(4) {
        return choices.bytes(4096).to_vec();
    }
    let content_size = choices.number(64);
    let header = frame::FrameHeader {
        content_size: Some(content_size),
        window_size: 0,
        single_segment: true,
        dictionary_id: match choices.any::<u8>() % 3 {
            0 => frame::dictionary_id(trained()).ok(),
            1 => Some(choices.any()),
            _ => None,
        },
        checksum: choices.once_in(8),
        len: 0,
    };
    let (bytes, len) = frame::single_segment(&header, content_size);
    let mut frame = bytes[..len].to_vec();
    loop {
        let last = choices.is_empty() || choices.once_in(3);
        let kind: u32 = choices.any::<u8>() as u32 % 4;
        let (size, content) = match kind {
            1 => (choices.number(content_size) as u32, vec![choices.any::<u8>()]),
            _ => {
                let content = choices.bytes(256).to_vec();
                (content.len() as u32, content)
            }
        };
        let block = u32::from(last) | kind << 1 | (size & 0x1F_FFFF) << 3;
        frame.extend_from_slice(&block.to_le_bytes()[..3]);
        frame.extend_from_slice(&content);
        if last {
            break;
        }
    }
    if header.checksum {
        frame.extend_from_slice(&choices.any::<u32>().to_le_bytes());
    }
    frame
}

/// Decodes into the middle of a buffer whose margins must stay.
fn decode<Z: Zstd>(dictionary: Option<&[u8]>, frame: &[u8], len: usize) -> Option<Vec<u8>> {
    let digested = match dictionary.map(Z::dictionary) {
        None => None,
        Some(Ok(digested)) => Some(digested),
        Some(Err(_)) => return None,
    };
    let mut buffer = vec![UNTOUCHED; len + 2 * MARGIN];
    let mut decoder = Z::Decoder::default();
    let dst = &mut buffer[MARGIN..MARGIN + len];
    let decoded = Z::decode(&mut decoder, digested.as_ref(), frame, dst);
    let (before, behind) = (&buffer[..MARGIN], &buffer[MARGIN + len..]);
    assert!(before.iter().chain(behind).all(|byte| *byte == UNTOUCHED), "written outside");
    decoded.ok()?;
    let first = buffer[MARGIN..MARGIN + len].to_vec();
    // A decoder is reused: what it decoded before must not matter.
    let dst = &mut buffer[MARGIN..MARGIN + len];
    dst.fill(!UNTOUCHED);
    Z::decode(&mut decoder, digested.as_ref(), frame, dst).unwrap();
    assert_eq!(dst, first, "a second time the frame decodes to something else");
    Some(first)
}

fn check_packing(mut choices: Choices<'_>) {
    let codec = choices.one_of(&Codec::ALL);
    let format = choices.one_of(&[Format::Classic, Format::Extended]);
    let level = choices.one_of(&[None, Some(1), Some(3), Some(-5), Some(9), Some(99)]);
    let repeats = 1 + choices.below(64);
    let record = choices.rest().repeat(repeats);
    let policy = PackPolicy { level, ..PackPolicy::new(codec, format) };
    let dictionary = PackDictionary { number: 3, bytes: trained() };
    check_backend::<Libzstd>(policy, dictionary, &record);
    let pure_level = policy.level.map(|_| pure::LEVEL);
    check_backend::<Ruzstd>(PackPolicy { level: pure_level, ..policy }, dictionary, &record);
}

/// What one backend packs, both unpack.
fn check_backend<Z: Zstd>(policy: PackPolicy, dictionary: PackDictionary<'_>, record: &[u8]) {
    let Ok(packer) = Packer::<Z>::new(policy, Some(dictionary)) else { return };
    let mut arena = Arena::default();
    let packed = packer.pack(&mut PackEncoder::default(), record, &mut arena).unwrap();
    assert_eq!(packed.stored_len as usize, arena.len());
    assert!(arena.len() <= record.len());
    unpacks::<Libzstd>(packed.codec, arena.bytes(), record);
    unpacks::<Ruzstd>(packed.codec, arena.bytes(), record);
}

fn unpacks<Z: Zstd>(codec: Codec, stored: &[u8], record: &[u8]) {
    let dictionary = Z::dictionary(trained()).unwrap();
    let mut dst = vec![UNTOUCHED; record.len()];
    unpack::<Z>(&mut Z::Decoder::default(), Some(&dictionary), codec, stored, &mut dst).unwrap();
    assert!(dst == record, "a record came back changed");
}
