//! The secrets in addresses: whoever has none is not answered.

use std::fmt;
use std::io;

use constant_time_eq::constant_time_eq;

/// 128 bits by chance, as 32 hexadecimal digits.
#[derive(Debug)]
pub struct Token(String);

impl Token {
    /// A new one, from the system's generator.
    pub fn draw() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        Ok(Self(format!("{:032x}", u128::from_le_bytes(bytes))))
    }

    /// Whether this is the token, in a time that does not tell how much of it
    /// is right.
    pub fn is(&self, text: &str) -> bool {
        constant_time_eq(self.0.as_bytes(), text.as_bytes())
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

    use super::*;

    #[test]
    fn tokens_differ_and_know_themselves() {
        let (one, other) = (Token::draw().unwrap(), Token::draw().unwrap());
        let text = one.to_string();
        assert!(text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()));
        assert!(one.is(&text) && !other.is(&text));
        assert!(!one.is("") && !one.is(&text[1..]) && !one.is(&format!("{text}0")));
    }
}
