//! The three orders, with loaderx's names and numbers.

use std::{fmt, str::FromStr};

use crate::Error;

/// In which order indices come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Mode {
    /// `0, 1, 2, ...`, beginning again after the last.
    Sequential = 0,
    /// Independent and uniform, with replacement.
    Iid = 1,
    /// Without replacement: each cycle walks a fresh permutation.
    Cyclic = 2,
}

impl Mode {
    /// Every mode, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Sequential, Self::Iid, Self::Cyclic];

    /// The mode's number: 0, 1 or 2.
    pub fn number(self) -> u8 {
        match self {
            Self::Sequential => 0,
            Self::Iid => 1,
            Self::Cyclic => 2,
        }
    }

    /// The mode of a number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.number() == number)
    }

    /// The mode's name: `sequential`, `iid` or `cyclic`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Iid => "iid",
            Self::Cyclic => "cyclic",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mode {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            let reason = format!("{name:?} is none of \"sequential\", \"iid\", \"cyclic\"");
            Error::InvalidArgument { argument: "mode", reason }
        })
    }
}
