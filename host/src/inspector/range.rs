//! Which part of a file is asked for: RFC 9110, section 14.

use std::ops::Range;

use http_range_header::parse_range_header;

/// What a `Range` chooses of a file.
#[derive(Debug, PartialEq, Eq)]
pub enum Selection {
    /// All of it: nothing was chosen, or nothing that is understood. Several
    /// parts at once are answered so too, which the RFC allows: no client of
    /// ours asks for them.
    Whole,
    /// These bytes.
    Part(Range<u64>),
    /// Bytes that the file does not have.
    Unsatisfiable,
}

impl Selection {
    /// That of the header's value in a file of `size` bytes.
    pub fn of(header: &str, size: u64) -> Self {
        let Ok(parsed) = parse_range_header(header) else { return Self::Whole };
        if parsed.len() > 1 {
            return Self::Whole;
        }
        // Of an empty file no range has a byte.
        match parsed.validate(size).unwrap_or_default().pop() {
            Some(range) if size > 0 => Self::Part(*range.start()..range.end() + 1),
            _ => Self::Unsatisfiable,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Selection::{self, Part, Unsatisfiable, Whole};

    #[test]
    fn every_kind_of_range() {
        for (header, expected) in [
            ("bytes=0-0", Part(0..1)),
            ("bytes=0-", Part(0..100)),
            ("BYTES=99-", Part(99..100)),
            ("bytes=10-19", Part(10..20)),
            ("bytes=10-1000", Part(10..100)),
            ("bytes=10-99999999999999999999", Part(10..100)),
            ("bytes=-1", Part(99..100)),
            ("bytes=-100", Part(0..100)),
            ("bytes=-101", Part(0..100)),
            ("bytes=-0", Unsatisfiable),
            ("bytes=100-", Unsatisfiable),
            ("bytes=100-200", Unsatisfiable),
            ("bytes=18446744073709551615-", Unsatisfiable),
            ("bytes=99999999999999999999-", Unsatisfiable),
            ("bytes=0-1,5-6", Whole),
            ("bytes=0-1,200-", Whole),
            ("bytes=", Whole),
            ("bytes=-", Whole),
            ("bytes=5", Whole),
            ("bytes=6-5", Whole),
            ("bytes=a-b", Whole),
            ("bytes=0x1-2", Whole),
            ("bytes=+1-2", Whole),
            ("bytes=--1", Whole),
            ("records=0-1", Whole),
            ("0-1", Whole),
            ("", Whole),
        ] {
            assert_eq!(Selection::of(header, 100), expected, "{header}");
        }
    }

    #[test]
    fn an_empty_file_has_no_bytes_to_choose() {
        for header in ["bytes=0-", "bytes=0-0", "bytes=-1", "bytes=-0", "bytes=7-"] {
            assert_eq!(Selection::of(header, 0), Unsatisfiable, "{header}");
        }
        assert_eq!(Selection::of("bytes", 0), Whole);
    }
}
