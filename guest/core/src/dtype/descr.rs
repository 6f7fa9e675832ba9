//! A structured type as text: the literal that Python prints of NumPy's
//! `dtype.descr`, as in `[('x', '<f4'), ('y', '<i2', (2, 3))]`. Nothing is lost
//! on the way there and back.

use std::fmt;

use rmpv::Value;

use super::{DIMENSIONS_MAX, DtypeError, NESTING_MAX, Result, malformed};

/// A string as a Python literal.
pub(super) struct Quoted<'a>(pub(super) &'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("'")?;
        for c in self.0.chars() {
            match c {
                '\'' | '\\' => write!(f, "\\{c}")?,
                c if c.is_control() => write!(f, "\\U{:08x}", u32::from(c))?,
                c => write!(f, "{c}")?,
            }
        }
        f.write_str("'")
    }
}

/// Reads the literal as what a schema holds: lists and tuples as arrays.
pub(super) fn parse(text: &str) -> Result<Value> {
    let mut literal = Literal { text, rest: text };
    let fields = literal.fields(0)?;
    match literal.rest {
        "" => Ok(fields),
        _ => literal.unexpected("the end"),
    }
}

/// What is left of a literal.
struct Literal<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Literal<'_> {
    fn fields(&mut self, depth: usize) -> Result<Value> {
        if depth >= NESTING_MAX {
            return malformed(format!("structured types nested deeper than {NESTING_MAX}"));
        }
        self.expect("[")?;
        let mut fields = Vec::new();
        while !self.takes("]") {
            if !fields.is_empty() {
                self.expect(",")?;
            }
            fields.push(self.field(depth)?);
        }
        Ok(Value::Array(fields))
    }

    fn field(&mut self, depth: usize) -> Result<Value> {
        self.expect("(")?;
        let name = if self.takes("(") {
            let title = self.string()?;
            self.expect(",")?;
            let name = self.string()?;
            self.expect(")")?;
            Value::Array(vec![title, name])
        } else {
            self.string()?
        };
        self.expect(",")?;
        let dtype =
            if self.rest.starts_with('[') { self.fields(depth + 1)? } else { self.string()? };
        let mut field = vec![name, dtype];
        if self.takes(",") {
            field.push(self.shape()?);
        }
        self.expect(")")?;
        Ok(Value::Array(field))
    }

    fn shape(&mut self) -> Result<Value> {
        self.expect("(")?;
        let mut sizes = Vec::new();
        while !self.takes(")") {
            if sizes.len() == DIMENSIONS_MAX {
                return self.unexpected(&format!("no size beyond {DIMENSIONS_MAX}"));
            }
            sizes.push(self.size()?);
            // Python writes a comma behind a single size.
            if self.takes(")") {
                break;
            }
            self.expect(",")?;
        }
        Ok(Value::Array(sizes))
    }

    fn size(&mut self) -> Result<Value> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at(end);
        match super::decimal(digits) {
            Some(size) => {
                self.skip_to(rest);
                Ok(size.into())
            }
            None => self.unexpected("a size"),
        }
    }

    fn string(&mut self) -> Result<Value> {
        let mut chars = self.rest.chars();
        let Some(quote @ ('\'' | '"')) = chars.next() else { return self.unexpected("a string") };
        let mut string = String::new();
        loop {
            match chars.next() {
                Some(c) if c == quote => break,
                Some('\\') => match escaped(&mut chars) {
                    Some(c) => string.push(c),
                    None => return self.unexpected("a string with known escapes"),
                },
                Some(c) => string.push(c),
                None => return self.unexpected("a string that ends"),
            }
        }
        self.skip_to(chars.as_str());
        Ok(string.into())
    }

    fn takes(&mut self, sign: &str) -> bool {
        let rest = self.rest.strip_prefix(sign);
        if let Some(rest) = rest {
            self.skip_to(rest);
        }
        rest.is_some()
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.takes(sign) { Ok(()) } else { self.unexpected(&format!("{sign:?}")) }
    }

    fn unexpected<T>(&self, wanted: &str) -> Result<T> {
        let position = self.text.len() - self.rest.len();
        Err(DtypeError::Malformed(format!(
            "no list of fields as dtype.descr prints it: {wanted} was expected at byte {position}"
        )))
    }
}

impl<'a> Literal<'a> {
    /// Goes on behind what was read, and the spaces there.
    fn skip_to(&mut self, rest: &str) {
        let rest = rest.trim_start_matches(' ');
        let text: &'a str = self.text;
        self.rest = text.get(text.len() - rest.len()..).unwrap_or_default();
    }
}

/// The character behind a backslash.
fn escaped(chars: &mut std::str::Chars<'_>) -> Option<char> {
    let digits = match chars.next()? {
        same @ ('\'' | '"' | '\\') => return Some(same),
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        _ => return None,
    };
    let mut code: u32 = 0;
    for _ in 0..digits {
        code = code.checked_mul(16)?.checked_add(chars.next()?.to_digit(16)?)?;
    }
    char::from_u32(code)
}
