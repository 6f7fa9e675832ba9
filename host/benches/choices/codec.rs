//! Choices of decoding.

use std::hint::black_box;

use zrecord_core::codec::Zstd;
use zrecord_core::codec::libzstd::{Decoder, Libzstd};

use crate::{Choice, Random};

const FRAMES: usize = 64;
const RECORD_LEN: usize = 12 << 10;

pub fn run(rounds: usize) {
    let plan = Libzstd::plan(3, None, None).unwrap();
    let mut encoder = Libzstd::encoder(&plan).unwrap();
    let mut random = Random::new(2);
    let frames: Vec<Vec<u8>> = (0..FRAMES)
        .map(|_| {
            let record: Vec<u8> =
                (0..RECORD_LEN).map(|_| random.below(6).to_le_bytes()[0]).collect();
            let mut frame = vec![0; 2 * RECORD_LEN];
            let len = Libzstd::encode(&plan, &mut encoder, &record, &mut frame).unwrap().unwrap();
            frame.truncate(len);
            frame
        })
        .collect();
    let decode = |decoder: &mut Decoder, frame: &[u8], dst: &mut [u8]| {
        Libzstd::decode(decoder, None, black_box(frame), dst).unwrap();
        black_box(dst);
    };
    let (mut one, mut other) = (vec![0; RECORD_LEN], vec![0; RECORD_LEN]);
    let mut kept = Decoder::default();
    let choice = Choice {
        name: format!("{FRAMES} frames of {RECORD_LEN}: context kept instead of new"),
        without: Box::new(|_| {
            frames.iter().for_each(|frame| decode(&mut Decoder::default(), frame, &mut one));
        }),
        with: Box::new(|_| frames.iter().for_each(|frame| decode(&mut kept, frame, &mut other))),
    };
    choice.measure(rounds);
}
