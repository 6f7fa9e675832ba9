//! Hands inputs to `zrecord_tests::fuzz::writer`.
#![no_main]

use zrecord_tests::fuzz::memory::PeakAlloc;
use zrecord_tests::fuzz::writer::run;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

libfuzzer_sys::fuzz_target!(|input: &[u8]| run(input));
