//! What the bytes of a record mean: `schema.msgpack`, one MessagePack map in
//! either of two flavours.
//!
//! | | classic | extended |
//! | --- | --- | --- |
//! | `format` | `loaderx-zrecord` | `zrecord` |
//! | `version` | 1, which loaderx never checks | 2 |
//! | `dtype` | NumPy's `dtype.str` | that, an `ml_dtypes` name, or a `descr` list |
//! | the user's map | its keys lie beside the others | under `metadata` |
//!
//! Both have `kind`, `item_shape` and `codec`.

use std::collections::BTreeMap;
use std::fmt;

use rmpv::Value;

use crate::codec::Codec;
use crate::dtype::{self, Dtype, DtypeError, Shape};
use crate::error::{Error, Result};
use crate::format::Format;
use crate::storage::FileName;

/// The largest `schema.msgpack`, in bytes.
pub const SCHEMA_SIZE_MAX: usize = 1 << 20;
/// How deep lists and maps in a schema may be nested.
pub const NESTING_MAX: usize = 64;

/// [`NESTING_MAX`] as rmpv counts: two for a list or map and up to three for
/// what is in it.
const DEPTH_MAX: usize = 2 * NESTING_MAX + 3;
const CLASSIC_FORMAT: &str = "loaderx-zrecord";
const CLASSIC_VERSION: u64 = 1;
const EXTENDED_FORMAT: &str = "zrecord";
const EXTENDED_VERSION: u64 = 2;
/// In the order in which loaderx writes them.
const CLASSIC_KEYS: [&str; 6] = ["kind", "dtype", "item_shape", "format", "version", "codec"];
const EXTENDED_KEYS: [&str; 7] =
    ["format", "version", "kind", "dtype", "item_shape", "codec", "metadata"];

/// A user's own map, in the order in which it was given.
pub type Metadata = Vec<(Value, Value)>;

/// Decodes a user's own map from MessagePack; no bytes are an empty one.
///
/// # Errors
///
/// [`Error::InvalidArgument`] for what is no map, is too large or too deep.
pub fn decode_metadata(bytes: &[u8]) -> Result<Metadata> {
    if bytes.is_empty() {
        return Ok(Metadata::new());
    }
    if bytes.len() > SCHEMA_SIZE_MAX {
        let len = bytes.len();
        return Err(not_encodable(format!("{len} bytes; the limit is {SCHEMA_SIZE_MAX}")));
    }
    let mut rest = bytes;
    let value = rmpv::decode::read_value_with_max_depth(&mut rest, DEPTH_MAX)
        .map_err(|error| not_encodable(format!("not MessagePack: {error}")))?;
    match (value, rest.len()) {
        (Value::Map(map), 0) => Ok(map),
        (Value::Map(_), rest) => Err(not_encodable(format!("{rest} bytes follow the map"))),
        (other, _) => Err(not_encodable(format!("{}, not a map", dtype::kind(&other)))),
    }
}

/// Encodes a user's own map; an empty one takes no bytes.
pub fn encode_metadata(metadata: &Metadata) -> Vec<u8> {
    if metadata.is_empty() {
        return Vec::new();
    }
    value_bytes(&Value::Map(metadata.clone()))
}

/// Whether records have one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Every record is one row.
    Dense,
    /// A record is any number of rows.
    Ragged,
}

impl Kind {
    /// Its name in schemas and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Ragged => "ragged",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Dense, Self::Ragged].into_iter().find(|kind| kind.name() == name)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What the bytes of a record mean.
#[derive(Clone, Debug)]
pub struct Schema {
    kind: Kind,
    dtype: Dtype,
    item_shape: Vec<u64>,
    codec: Codec,
    metadata: Metadata,
    /// The bytes of a row, which follow from dtype and shape.
    row_bytes: u64,
    /// What a classic file had and a rewrite keeps.
    classic: ClassicSpelling,
}

/// The parts of a classic file that mean nothing to us.
#[derive(Clone, Debug, Default)]
struct ClassicSpelling {
    /// Its keys in their order; empty when it was not read from one.
    keys: Vec<Value>,
    /// Its dtype, when it is one that NumPy reads but does not write.
    dtype: Option<String>,
}

impl Schema {
    /// A schema of records made of rows of `item_shape` items.
    ///
    /// # Errors
    ///
    /// [`Error::InvalidArgument`] when the shape has too many dimensions or a
    /// row more bytes than 64 bits can count.
    pub fn new(
        kind: Kind,
        dtype: Dtype,
        item_shape: Vec<u64>,
        codec: Codec,
        metadata: Metadata,
    ) -> Result<Self> {
        Self::build(kind, dtype, item_shape, codec, metadata)
            .map_err(|reason| Error::InvalidArgument { argument: "item_shape", reason })
    }

    fn build(
        kind: Kind,
        dtype: Dtype,
        item_shape: Vec<u64>,
        codec: Codec,
        metadata: Metadata,
    ) -> Result<Self, String> {
        if item_shape.len() > dtype::DIMENSIONS_MAX {
            return Err(format!(
                "{} dimensions; the limit is {}",
                item_shape.len(),
                dtype::DIMENSIONS_MAX
            ));
        }
        let Some(row_bytes) = dtype::product(dtype.item_size(), &item_shape) else {
            return Err(format!("a row of {dtype} {} is too large", Shape(&item_shape)));
        };
        let classic = ClassicSpelling::default();
        Ok(Self { kind, dtype, item_shape, codec, metadata, row_bytes, classic })
    }

    /// Whether records have one length.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The type of one item.
    pub fn dtype(&self) -> &Dtype {
        &self.dtype
    }

    /// The shape of one row: for ragged records, without the leading axis.
    pub fn item_shape(&self) -> &[u64] {
        &self.item_shape
    }

    /// The codec of records for which none is asked.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// The same schema with another default codec.
    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Self {
        Self { codec, ..self }
    }

    /// The user's own map.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The bytes of one row; 0 when a dimension or the item is empty.
    pub fn row_bytes(&self) -> u64 {
        self.row_bytes
    }

    /// Checks the length of a record in bytes.
    ///
    /// # Errors
    ///
    /// The reason, when no record of this schema has that length.
    pub fn check_record_len(&self, len: u64) -> Result<(), String> {
        let row_bytes = self.row_bytes;
        let fits = match self.kind {
            Kind::Dense => len == row_bytes,
            Kind::Ragged => len == 0 || len.checked_rem(row_bytes) == Some(0),
        };
        match (fits, self.kind) {
            (true, _) => Ok(()),
            (false, Kind::Dense) => Err(format!("a record of {len} bytes; {self} has {row_bytes}")),
            (false, Kind::Ragged) => {
                Err(format!("a record of {len} bytes; {self} has rows of {row_bytes}"))
            }
        }
    }

    /// Checks that records of `other` can be kept among records of this schema.
    ///
    /// # Errors
    ///
    /// [`Error::SchemaMismatch`], naming every difference.
    pub fn same_layout(&self, other: &Self) -> Result<()> {
        let mut differences = Vec::new();
        if self.kind != other.kind {
            differences.push(format!("the kind is {}, not {}", self.kind, other.kind));
        }
        if self.dtype != other.dtype {
            differences.push(format!("the dtype is {}, not {}", self.dtype, other.dtype));
        }
        if self.item_shape != other.item_shape {
            let (ours, theirs) = (Shape(&self.item_shape), Shape(&other.item_shape));
            differences.push(format!("the item shape is {ours}, not {theirs}"));
        }
        if differences.is_empty() {
            return Ok(());
        }
        Err(Error::SchemaMismatch { reason: differences.join("; ") })
    }

    /// Decodes `schema.msgpack`.
    ///
    /// # Errors
    ///
    /// [`Error::Corrupt`] for what no writer of `format` writes, and for more
    /// than [`SCHEMA_SIZE_MAX`] bytes or [`NESTING_MAX`] levels;
    /// [`Error::Unsupported`] for a newer version and for dtypes that hold
    /// pointers.
    pub fn decode(bytes: &[u8], format: Format) -> Result<Self> {
        let map = decode_map(bytes)?;
        let keys = match format {
            Format::Classic => &CLASSIC_KEYS[..],
            Format::Extended => &EXTENDED_KEYS[..],
        };
        let found = text(&map, "format")?;
        match format {
            Format::Classic => expect("format", found, CLASSIC_FORMAT)?,
            Format::Extended => {
                expect("format", found, EXTENDED_FORMAT)?;
                check_version(get(&map, "version")?)?;
            }
        }
        let kind = text(&map, "kind")?;
        let kind = Kind::from_name(kind)
            .ok_or_else(|| corrupt(format!("the kind is {kind:?}, not \"dense\" or \"ragged\"")))?;
        let codec = text(&map, "codec")?;
        let codec = Codec::from_name(codec)
            .ok_or_else(|| corrupt(format!("the codec is {codec:?}, which is none")))?;
        let (dtype, spelling) = decode_dtype(get(&map, "dtype")?, format)?;
        let item_shape = dtype::shape_from_value(get(&map, "item_shape")?)
            .map_err(|reason| corrupt(format!("item_shape: {reason}")))?;
        let is_reserved = |key: &Value| key.as_str().is_some_and(|key| keys.contains(&key));

        let (metadata, classic) = match format {
            Format::Classic => {
                let keys = map.iter().map(|(key, _)| key.clone()).collect();
                let metadata = map.into_iter().filter(|(key, _)| !is_reserved(key)).collect();
                (metadata, ClassicSpelling { keys, dtype: spelling })
            }
            Format::Extended => {
                if let Some((key, _)) = map.iter().find(|(key, _)| !is_reserved(key)) {
                    return Err(corrupt(format!("the key {} belongs to no schema", key_name(key))));
                }
                let Value::Map(metadata) = get(&map, "metadata")? else {
                    return Err(corrupt("the metadata are no map"));
                };
                (metadata.clone(), ClassicSpelling::default())
            }
        };
        let schema = Self::build(kind, dtype, item_shape, codec, metadata).map_err(corrupt)?;
        Ok(Self { classic, ..schema })
    }

    /// Encodes `schema.msgpack`. A schema decoded from a classic file gives
    /// the same bytes again, but for a codec that was changed.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`] when `format` cannot hold the schema: in classic
    /// a dtype that is no `dtype.str`, or metadata with a key of the format's.
    /// [`Error::InvalidArgument`] when the metadata are too large or too deep
    /// to be read again.
    pub fn encode(&self, format: Format) -> Result<Vec<u8>> {
        let map = match format {
            Format::Classic => self.classic_map()?,
            Format::Extended => self.extended_map(),
        };
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &Value::Map(map))
            .map_err(|error| not_encodable(error.to_string()))?;
        match Self::decode(&bytes, format) {
            Ok(_) => Ok(bytes),
            // What cannot be read again must not be written; only the user's
            // own map can be at fault.
            Err(error) => Err(not_encodable(error.to_string())),
        }
    }

    fn extended_map(&self) -> Metadata {
        let values = [
            EXTENDED_FORMAT.into(),
            EXTENDED_VERSION.into(),
            self.kind.name().into(),
            self.dtype.to_value(),
            self.shape_value(),
            self.codec.name().into(),
            Value::Map(self.metadata.clone()),
        ];
        EXTENDED_KEYS.into_iter().map(Value::from).zip(values).collect()
    }

    fn classic_map(&self) -> Result<Metadata> {
        let Some(dtype) = self.dtype.numpy_str() else {
            return Err(Error::Unsupported {
                what: format!(
                    "the dtype {} in a classic store, which holds NumPy's own only; use the \
                     extended format",
                    self.dtype
                ),
            });
        };
        let is_reserved = |key: &Value| key.as_str().is_some_and(|key| CLASSIC_KEYS.contains(&key));
        if let Some((key, _)) = self.metadata.iter().find(|(key, _)| is_reserved(key)) {
            return Err(Error::Unsupported {
                what: format!(
                    "the metadata key {}, which the classic schema has for itself",
                    key_name(key)
                ),
            });
        }
        let value = |key: &str| match key {
            "kind" => self.kind.name().into(),
            "dtype" => self.classic.dtype.as_deref().unwrap_or(dtype).into(),
            "item_shape" => self.shape_value(),
            "format" => CLASSIC_FORMAT.into(),
            "version" => CLASSIC_VERSION.into(),
            _ => Value::from(self.codec.name()),
        };
        let mut map = self.metadata.clone();
        map.extend(CLASSIC_KEYS.map(|key| (key.into(), value(key))));
        // Keys that the file had stay where they were; a new schema has the
        // user's first, as loaderx writes them.
        // Of a key that comes twice, the first place counts.
        let known = self.classic.keys.iter().enumerate().rev();
        let places: BTreeMap<Vec<u8>, usize> =
            known.map(|(place, key)| (value_bytes(key), place)).collect();
        map.sort_by_cached_key(|(key, _)| {
            places.get(&value_bytes(key)).copied().unwrap_or(usize::MAX)
        });
        Ok(map)
    }

    fn shape_value(&self) -> Value {
        self.item_shape.iter().map(|size| Value::from(*size)).collect()
    }
}

/// Equal when they mean the same, however a classic file spelled it.
impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
            && self.dtype == other.dtype
            && self.item_shape == other.item_shape
            && self.codec == other.codec
            && self.metadata == other.metadata
    }
}

impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.kind, self.dtype, Shape(&self.item_shape))
    }
}

fn decode_map(bytes: &[u8]) -> Result<Metadata> {
    if bytes.len() > SCHEMA_SIZE_MAX {
        let len = bytes.len();
        return Err(corrupt(format!("{len} bytes; the limit is {SCHEMA_SIZE_MAX}")));
    }
    let mut rest = bytes;
    let value = rmpv::decode::read_value_with_max_depth(&mut rest, DEPTH_MAX)
        .map_err(|error| corrupt(format!("not MessagePack: {error}")))?;
    if !rest.is_empty() {
        return Err(corrupt(format!("{} bytes follow the map", rest.len())));
    }
    let Value::Map(map) = value else {
        return Err(corrupt(format!("{}, not a map", dtype::kind(&value))));
    };
    check_text(&map)?;
    let mut keys: Vec<&str> = map.iter().filter_map(|(key, _)| key.as_str()).collect();
    keys.sort_unstable();
    if let Some([key, _]) = keys.array_windows().find(|[one, other]| one == other) {
        return Err(corrupt(format!("the key {key:?} comes twice")));
    }
    Ok(map)
}

/// Refuses text that is not UTF-8, which would be written back as binary.
fn check_text(map: &Metadata) -> Result<()> {
    let mut values: Vec<&Value> = map.iter().flat_map(|(key, value)| [key, value]).collect();
    while let Some(value) = values.pop() {
        match value {
            Value::String(text) if text.is_err() => return Err(corrupt("text that is not UTF-8")),
            Value::Array(items) => values.extend(items),
            Value::Map(pairs) => values.extend(pairs.iter().flat_map(|(key, value)| [key, value])),
            _ => {}
        }
    }
    Ok(())
}

fn check_version(version: &Value) -> Result<()> {
    match version.as_u64() {
        Some(EXTENDED_VERSION) => Ok(()),
        Some(newer) if newer > EXTENDED_VERSION => Err(Error::Unsupported {
            what: format!(
                "a schema of version {newer}; this build reads version {EXTENDED_VERSION}, a newer \
                 zrecord is needed"
            ),
        }),
        _ => Err(corrupt(format!("the version is not {EXTENDED_VERSION}"))),
    }
}

/// The dtype, and how a classic file spells it when that is not canonical.
fn decode_dtype(value: &Value, format: Format) -> Result<(Dtype, Option<String>)> {
    let refused = |error| match error {
        DtypeError::Malformed(reason) => corrupt(format!("dtype: {reason}")),
        DtypeError::Unsupported(what) => Error::Unsupported { what },
    };
    if format == Format::Extended {
        return Ok((Dtype::from_value(value).map_err(refused)?, None));
    }
    let Some(text) = value.as_str() else {
        return Err(corrupt(format!("the dtype is {}, not text", dtype::kind(value))));
    };
    let canonical = dtype::canonical_spelling(text);
    let dtype = Dtype::parse(canonical.as_deref().unwrap_or(text)).map_err(refused)?;
    if dtype.numpy_str().is_none() {
        return Err(corrupt(format!("dtype: {text:?} is none of NumPy's own")));
    }
    Ok((dtype, canonical.map(|_| text.into())))
}

fn get<'a>(map: &'a Metadata, key: &str) -> Result<&'a Value> {
    let found = map.iter().find(|(found, _)| found.as_str() == Some(key));
    found.map(|(_, value)| value).ok_or_else(|| corrupt(format!("the key {key:?} is missing")))
}

fn text<'a>(map: &'a Metadata, key: &str) -> Result<&'a str> {
    let value = get(map, key)?;
    let found = dtype::kind(value);
    value.as_str().ok_or_else(|| corrupt(format!("{key:?} is {found}, not text")))
}

fn expect(key: &str, found: &str, expected: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(corrupt(format!("the {key} is {found:?}, not {expected:?}")))
}

fn corrupt(reason: impl Into<String>) -> Error {
    Error::corrupt(FileName::Schema, reason)
}

/// A key in a message: any other than text only by its kind, since it may be
/// long and what shows every kind is large itself.
fn key_name(key: &Value) -> String {
    key.as_str().map_or_else(|| format!("({})", dtype::kind(key)), |key| format!("{key:?}"))
}

/// A value as it is written. Keys are compared so: any value may be one, also a
/// NaN, which equals nothing.
fn value_bytes(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to memory does not fail.
    let _ = rmpv::encode::write_value(&mut bytes, value);
    bytes
}

fn not_encodable(reason: String) -> Error {
    Error::InvalidArgument {
        argument: "metadata",
        reason: format!("they cannot be kept in a schema: {reason}"),
    }
}

#[cfg(test)]
mod tests;
