//! The type of one item: a NumPy `dtype.str`, the name of an `ml_dtypes` type,
//! or the `descr` list of a structured type. Parsed strictly, since a dtype
//! that is read here is later handed to NumPy.

use std::collections::HashSet;
use std::fmt;

use rmpv::Value;

mod descr;

use descr::Quoted;

/// The largest item, in bytes: NumPy's own limit.
pub const ITEM_SIZE_MAX: u64 = i32::MAX as u64;
/// How deep structured types may be nested.
pub const NESTING_MAX: usize = 16;
/// The most dimensions of a shape: NumPy's own limit.
pub const DIMENSIONS_MAX: usize = 64;

/// The types of `ml_dtypes` 0.6 and the size of an item in bytes. Those
/// narrower than a byte take one.
pub const ML_DTYPES: [(&str, u64); 20] = [
    ("bcomplex32", 4),
    ("bfloat16", 2),
    ("complex32", 4),
    ("float4_e2m1fn", 1),
    ("float6_e2m3fn", 1),
    ("float6_e3m2fn", 1),
    ("float8_e3m4", 1),
    ("float8_e4m3", 1),
    ("float8_e4m3b11fnuz", 1),
    ("float8_e4m3fn", 1),
    ("float8_e4m3fnuz", 1),
    ("float8_e5m2", 1),
    ("float8_e5m2fnuz", 1),
    ("float8_e8m0fnu", 1),
    ("int1", 1),
    ("int2", 1),
    ("int4", 1),
    ("uint1", 1),
    ("uint2", 1),
    ("uint4", 1),
];

/// The units of NumPy's dates and time spans.
const TIME_UNITS: [&str; 13] =
    ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"];

/// Why a dtype was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DtypeError {
    /// It is no dtype, or not in the form that is stored.
    #[error("{0}")]
    Malformed(String),
    /// It is a dtype that cannot be stored.
    #[error("{0}")]
    Unsupported(String),
}

type Result<T> = std::result::Result<T, DtypeError>;

/// The type of one item.
#[derive(Clone, Debug, PartialEq)]
pub struct Dtype {
    form: Form,
    item_size: u64,
}

#[derive(Clone, Debug, PartialEq)]
enum Form {
    Numpy(String),
    MlDtypes(&'static str),
    Structured(Vec<Field>),
}

/// One field of a structured type; one without a name is padding.
#[derive(Clone, Debug, PartialEq)]
struct Field {
    title: Option<String>,
    name: String,
    dtype: Dtype,
    shape: Option<Vec<u64>>,
}

impl Dtype {
    /// Parses what is displayed: a NumPy `dtype.str`, the name of an `ml_dtypes`
    /// type, or the `descr` of a structured type as Python prints it.
    ///
    /// # Errors
    ///
    /// [`DtypeError::Malformed`] for anything else, native byte order (`=f4`)
    /// and the spellings that NumPy accepts but does not write (`<u1`);
    /// [`DtypeError::Unsupported`] for objects and variable-width strings.
    pub fn parse(text: &str) -> Result<Self> {
        if text.starts_with('[') {
            return Self::from_value(&descr::parse(text)?);
        }
        Self::parse_name(text)
    }

    /// Parses all but a structured type.
    fn parse_name(text: &str) -> Result<Self> {
        if let Some((name, item_size)) = ML_DTYPES.into_iter().find(|(name, _)| *name == text) {
            return Ok(Self { form: Form::MlDtypes(name), item_size });
        }
        let item_size = numpy_item_size(text)?;
        Ok(Self { form: Form::Numpy(text.into()), item_size })
    }

    /// Parses what a schema holds: text, or the `descr` list of a structured
    /// type, whose tuples are arrays.
    ///
    /// # Errors
    ///
    /// As [`parse`](Self::parse); the message names the field.
    pub fn from_value(value: &Value) -> Result<Self> {
        Self::from_nested(value, 0)
    }

    fn from_nested(value: &Value, depth: usize) -> Result<Self> {
        if let Some(text) = value.as_str() {
            return Self::parse_name(text);
        }
        let Some(fields) = value.as_array() else {
            return malformed(format!("a dtype is text or a list of fields, not {}", kind(value)));
        };
        if depth >= NESTING_MAX {
            return malformed(format!("structured types nested deeper than {NESTING_MAX}"));
        }
        let fields = fields.iter().map(|field| Field::from_value(field, depth + 1));
        let fields = fields.collect::<Result<Vec<_>>>()?;
        unique_names(&fields)?;
        let item_size = fields.iter().try_fold(0_u64, |sum, field| sum.checked_add(field.size()?));
        let item_size = item_size.filter(|size| *size <= ITEM_SIZE_MAX);
        let Some(item_size) = item_size else {
            return malformed(format!("a structured item of more than {ITEM_SIZE_MAX} bytes"));
        };
        Ok(Self { form: Form::Structured(fields), item_size })
    }

    /// What a schema holds.
    pub fn to_value(&self) -> Value {
        match &self.form {
            Form::Numpy(text) => text.as_str().into(),
            Form::MlDtypes(name) => (*name).into(),
            Form::Structured(fields) => fields.iter().map(Field::to_value).collect(),
        }
    }

    /// The size of an item in bytes; may be 0, as in `|S0`.
    pub fn item_size(&self) -> u64 {
        self.item_size
    }

    /// The NumPy `dtype.str`, if that is what it is.
    pub fn numpy_str(&self) -> Option<&str> {
        match &self.form {
            Form::Numpy(text) => Some(text),
            _ => None,
        }
    }

    /// The name of the `ml_dtypes` type, if that is what it is.
    pub fn ml_dtypes_name(&self) -> Option<&'static str> {
        match &self.form {
            Form::MlDtypes(name) => Some(name),
            _ => None,
        }
    }

    /// True for a structured type.
    pub fn is_structured(&self) -> bool {
        matches!(self.form, Form::Structured(_))
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = match &self.form {
            Form::Numpy(text) => return f.write_str(text),
            Form::MlDtypes(name) => return f.write_str(name),
            Form::Structured(fields) => fields,
        };
        f.write_str("[")?;
        for (index, field) in fields.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{field}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { title, name, dtype, shape } = self;
        match title {
            Some(title) => write!(f, "(({}, {}), ", Quoted(title), Quoted(name))?,
            None => write!(f, "({}, ", Quoted(name))?,
        }
        match dtype.is_structured() {
            true => write!(f, "{dtype}")?,
            false => write!(f, "'{dtype}'")?,
        }
        if let Some(shape) = shape {
            write!(f, ", {}", Shape(shape))?;
        }
        f.write_str(")")
    }
}

/// A shape as Python writes it.
pub(crate) struct Shape<'a>(pub(crate) &'a [u64]);

impl fmt::Display for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (index, size) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{size}")?;
        }
        f.write_str(if self.0.len() == 1 { ",)" } else { ")" })
    }
}

/// Reads a shape: a list of at most [`DIMENSIONS_MAX`] sizes.
pub(crate) fn shape_from_value(value: &Value) -> std::result::Result<Vec<u64>, String> {
    let Some(sizes) = value.as_array() else {
        return Err(format!("a shape is a list of sizes, not {}", kind(value)));
    };
    if sizes.len() > DIMENSIONS_MAX {
        return Err(format!(
            "a shape of {} dimensions; the limit is {DIMENSIONS_MAX}",
            sizes.len()
        ));
    }
    let size = |value: &Value| {
        value.as_u64().ok_or_else(|| format!("a size in a shape is {}", kind(value)))
    };
    sizes.iter().map(size).collect()
}

/// The product of an item size and a shape, if it has 64 bits.
///
/// The sizes are multiplied first where they are 0, as NumPy does: a shape
/// with a 0 in it is empty, however large its other sizes are.
pub(crate) fn product(item_size: u64, shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(item_size, |product, size| product.checked_mul(*size))
}

/// What sort of value that is, for errors: never its contents, which may be
/// long.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Nil => "nil",
        Value::Boolean(_) => "a boolean",
        Value::Integer(integer) if integer.is_u64() => "an integer",
        Value::Integer(_) => "a negative integer",
        Value::F32(_) | Value::F64(_) => "a float",
        Value::String(_) => "text",
        Value::Binary(_) => "binary",
        Value::Array(_) => "a list",
        Value::Map(_) => "a map",
        Value::Ext(..) => "an extension",
    }
}

impl Field {
    fn from_value(value: &Value, depth: usize) -> Result<Self> {
        let (name, dtype, shape) = match value.as_array().map(Vec::as_slice) {
            Some([name, dtype]) => (name, dtype, None),
            Some([name, dtype, shape]) => (name, dtype, Some(shape)),
            _ => return malformed("a field is [name, dtype] or [name, dtype, shape]".into()),
        };
        let (title, name) = match name.as_array().map(Vec::as_slice) {
            Some([title, name]) => (Some(title.as_str()), name.as_str()),
            _ => (None, name.as_str()),
        };
        let (None | Some(Some(_)), Some(name)) = (title, name) else {
            return malformed("the name of a field is text or [title, name], both text".into());
        };
        let title = title.flatten();
        if name.is_empty() && !is_padding(value) {
            return malformed(
                "a field without a name is padding: ['', '|V<bytes>'] with no title or shape"
                    .into(),
            );
        }
        let context = |error: &dyn fmt::Display| format!("field {name:?}: {error}");
        let dtype = Dtype::from_nested(dtype, depth).map_err(|error| match error {
            DtypeError::Malformed(reason) => DtypeError::Malformed(context(&reason)),
            DtypeError::Unsupported(reason) => DtypeError::Unsupported(context(&reason)),
        })?;
        let shape = shape.map(shape_from_value).transpose();
        let shape = shape.map_err(|reason| DtypeError::Malformed(context(&reason)))?;
        Ok(Self { title: title.map(Into::into), name: name.into(), dtype, shape })
    }

    fn to_value(&self) -> Value {
        let name = match &self.title {
            Some(title) => [title.as_str(), &self.name].into_iter().map(Value::from).collect(),
            None => Value::from(self.name.as_str()),
        };
        let mut field = vec![name, self.dtype.to_value()];
        if let Some(shape) = &self.shape {
            field.push(shape.iter().map(|size| Value::from(*size)).collect());
        }
        Value::Array(field)
    }

    fn size(&self) -> Option<u64> {
        product(self.dtype.item_size, self.shape.as_deref().unwrap_or_default())
    }
}

/// True for `["", "|V<bytes>"]`.
fn is_padding(field: &Value) -> bool {
    match field.as_array().map(Vec::as_slice) {
        Some([name, dtype]) => {
            name.as_str() == Some("") && dtype.as_str().is_some_and(|dtype| dtype.starts_with("|V"))
        }
        _ => false,
    }
}

/// NumPy finds a field by its name or its title, so neither may come twice.
fn unique_names(fields: &[Field]) -> Result<()> {
    let mut seen = HashSet::new();
    for field in fields {
        let names = [Some(&field.name), field.title.as_ref()];
        for name in names.into_iter().flatten().filter(|name| !name.is_empty()) {
            if !seen.insert(name.as_str()) {
                return malformed(format!("two fields are called {name:?}"));
            }
        }
    }
    Ok(())
}

/// The item size of a `dtype.str`.
fn numpy_item_size(text: &str) -> Result<u64> {
    let mut chars = text.chars();
    let (Some(order), Some(code)) = (chars.next(), chars.next()) else {
        return malformed(format!("{text:?} is no dtype"));
    };
    let rest = chars.as_str();
    if matches!((order, code), ('|', 'O') | ('O', _)) || text == "object" {
        return Err(DtypeError::Unsupported(
            "the object dtype holds pointers to Python objects, which cannot be stored; convert \
             the array to a numeric, string or structured dtype"
                .into(),
        ));
    }
    if (order, code) == ('|', 'T') {
        return Err(DtypeError::Unsupported(
            "variable-width strings (StringDType) hold pointers, which cannot be stored; convert \
             the array to a fixed width such as <U32"
                .into(),
        ));
    }
    match order {
        '<' | '>' | '|' => {}
        '=' => {
            return malformed(format!(
                "{text:?} has the byte order of some machine; a stored dtype begins with <, > or |"
            ));
        }
        _ => return malformed(format!("{text:?} is no dtype: it begins with <, > or |")),
    }
    // NumPy writes | where a byte order means nothing.
    let (digits, ordered, sizes): (_, _, &[u64]) = match code {
        'b' => (rest, false, &[1]),
        'i' | 'u' => (rest, rest != "1", &[1, 2, 4, 8]),
        'f' => (rest, true, &[2, 4, 8, 12, 16]),
        'c' => (rest, true, &[8, 16, 24, 32]),
        'M' | 'm' => (time_digits(text, rest)?, true, &[8]),
        'U' => (rest, true, &[]),
        'S' | 'V' => (rest, false, &[]),
        _ => return malformed(format!("{text:?} is no dtype: {code:?} is no kind")),
    };
    let Some(count) = decimal(digits) else {
        return malformed(format!("{text:?} is no dtype: {digits:?} is no size"));
    };
    if !sizes.is_empty() && !sizes.contains(&count) {
        return malformed(format!("{text:?} is no dtype: no {code:?} has {count} bytes"));
    }
    if (order == '|') == ordered {
        let expected = if ordered { "< or >" } else { "|" };
        return malformed(format!("{text:?} is not as NumPy writes it: it begins with {expected}"));
    }
    let character = if code == 'U' { 4 } else { 1 };
    match count.checked_mul(character) {
        Some(size) if size <= ITEM_SIZE_MAX => Ok(size),
        _ => malformed(format!("{text:?} is larger than {ITEM_SIZE_MAX} bytes")),
    }
}

/// Checks the unit of a date or time span, as in `8[25us]`, and returns what
/// is before it. Without one it is generic.
fn time_digits<'a>(text: &str, rest: &'a str) -> Result<&'a str> {
    let Some((digits, unit)) = rest.split_once('[') else { return Ok(rest) };
    let unit = unit.strip_suffix(']');
    let step = |unit: &'a str| unit.split_at(unit.find(|c: char| !c.is_ascii_digit()).unwrap_or(0));
    match unit.map(step) {
        Some((step, unit))
            if TIME_UNITS.contains(&unit)
                && (step.is_empty()
                    || decimal(step).is_some_and(|step| (1..=ITEM_SIZE_MAX).contains(&step))) =>
        {
            Ok(digits)
        }
        _ => malformed(format!("{text:?} is no dtype: its unit is none of NumPy's")),
    }
}

/// What NumPy writes for some that it only reads, if `text` is one of them.
///
/// loaderx stores whatever dtype a user's schema names, and hands it to NumPy:
/// so names of types occur, and `<V2`, which is what NumPy calls `bfloat16`
/// and reads as two opaque bytes.
pub(crate) fn canonical_spelling(text: &str) -> Option<String> {
    const NAMES: [(&str, &str); 14] = [
        ("bool", "|b1"),
        ("int8", "|i1"),
        ("int16", "<i2"),
        ("int32", "<i4"),
        ("int64", "<i8"),
        ("uint8", "|u1"),
        ("uint16", "<u2"),
        ("uint32", "<u4"),
        ("uint64", "<u8"),
        ("float16", "<f2"),
        ("float32", "<f4"),
        ("float64", "<f8"),
        ("complex64", "<c8"),
        ("complex128", "<c16"),
    ];
    if let Some((_, canonical)) = NAMES.into_iter().find(|(name, _)| *name == text) {
        return Some(canonical.into());
    }
    text.strip_prefix("<V").map(|size| format!("|V{size}"))
}

/// A number as NumPy writes it: no sign, no leading zero.
fn decimal(digits: &str) -> Option<u64> {
    let plain = digits.bytes().all(|digit| digit.is_ascii_digit());
    let padded = digits.len() > 1 && digits.starts_with('0');
    if plain && !padded { digits.parse().ok() } else { None }
}

fn malformed<T>(reason: String) -> Result<T> {
    Err(DtypeError::Malformed(reason))
}

#[cfg(test)]
mod tests;
