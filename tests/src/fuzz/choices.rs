//! Choices read from an input, front to back: a change late in an input
//! changes no earlier choice, which is what lets a fuzzer climb. An input that
//! has ended gives zeros.

use arbitrary::{Arbitrary, Unstructured};

/// What is left of an input.
#[derive(Debug)]
pub struct Choices<'a>(Unstructured<'a>);

/// Numbers at the edges of what fields and limits hold.
const EDGES: [u64; 24] = [
    0,
    1,
    2,
    4095,
    4096,
    12_288,
    u16::MAX as u64 - 1,
    u16::MAX as u64,
    1 << 16,
    1 << 20,
    (1 << 20) + 1,
    1 << 24,
    i32::MAX as u64,
    1 << 31,
    u32::MAX as u64 - 1,
    u32::MAX as u64,
    1 << 32,
    (1 << 32) + 1,
    i64::MAX as u64 - 1,
    i64::MAX as u64,
    1 << 63,
    (1 << 63) + 1,
    u64::MAX - 1,
    u64::MAX,
];

impl<'a> Choices<'a> {
    /// The choices of an input.
    pub fn new(input: &'a [u8]) -> Self {
        Self(Unstructured::new(input))
    }

    /// True once the input has ended.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Any value.
    pub fn any<T: Arbitrary<'a>>(&mut self) -> T {
        self.0.arbitrary().unwrap()
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0.int_in_range(0..=limit - 1).unwrap()
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: u8) -> bool {
        self.any::<u8>() % times == 1
    }

    /// One of `values`, of which there are some.
    pub fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// A number: small, at an edge, near `usual`, or any.
    pub fn number(&mut self, usual: u64) -> u64 {
        match self.any::<u8>() % 4 {
            0 => u64::from(self.any::<u8>()),
            1 => self.one_of(&EDGES),
            2 => usual.wrapping_add_signed(i64::from(self.any::<i8>())),
            _ => self.any(),
        }
    }

    /// At most `most` bytes, their number chosen first.
    pub fn bytes(&mut self, most: usize) -> &'a [u8] {
        let most = most.min(self.0.len().saturating_sub(1));
        let len = if most == 0 { 0 } else { self.below(most + 1) };
        self.0.bytes(len.min(self.0.len())).unwrap()
    }

    /// Everything that is left.
    pub fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}
