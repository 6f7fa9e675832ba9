//! Schemas, dtypes and saved states of loaders, of any content: an error, or
//! something that survives being written and read again.

use rmpv::Value;
use zrecord_core::dtype::{self, Dtype};
use zrecord_core::format::Format;
use zrecord_core::schema::Schema;
use zrecord_host::LoaderState;

use super::choices::Choices;
use super::memory;

/// A byte of a schema may become a value of the map, and values are kept,
/// copied and written again.
pub const MEMORY_PER_BYTE: usize = 512;
/// What is taken besides.
pub const MEMORY_FIXED: usize = 1 << 20;
/// How deep made-up values are nested: beyond every limit.
const DEPTH_MAX: usize = 80;

/// Runs one input.
pub fn run(input: &[u8]) {
    let (kind, made) = make(input);
    memory::bounded(MEMORY_FIXED + MEMORY_PER_BYTE * made.len(), || match kind {
        0 | 1 => [Format::Classic, Format::Extended].into_iter().for_each(|f| check(&made, f)),
        2 => check_dtype(&String::from_utf8_lossy(&made)),
        _ => check_state(&made),
    });
}

/// What kind of thing an input is, and its bytes.
fn make(input: &[u8]) -> (u8, Vec<u8>) {
    let mut choices = Choices::new(input);
    let kind = choices.any::<u8>() % 4;
    // A made-up map is larger than the choices that made it.
    let made = if kind == 1 { made_up(&mut choices) } else { choices.rest().to_vec() };
    (kind, made)
}

/// The bytes that an input stands for: those of a schema, or of something else.
pub fn bytes(input: &[u8]) -> Vec<u8> {
    make(input).1
}

/// A schema that can be read can be written, and says the same again.
fn check(bytes: &[u8], format: Format) {
    let Ok(schema) = Schema::decode(bytes, format) else { return };
    assert!(schema.item_shape().len() <= dtype::DIMENSIONS_MAX);
    assert!(schema.dtype().item_size() <= dtype::ITEM_SIZE_MAX);
    let row_bytes = schema.row_bytes();
    assert!(schema.check_record_len(row_bytes).is_ok());
    let _ = schema.check_record_len(row_bytes.wrapping_add(1));
    assert!(!schema.to_string().is_empty());
    assert_eq!(Dtype::parse(&schema.dtype().to_string()).as_ref(), Ok(schema.dtype()));
    let Ok(encoded) = schema.encode(format) else { return };
    let again = Schema::decode(&encoded, format).unwrap();
    assert!(schema.same_layout(&again).is_ok(), "{schema} was read back as {again}");
    assert_eq!(again.encode(format).unwrap(), encoded, "a second writing differs");
    // What one format holds, the other holds or refuses.
    for other in [Format::Classic, Format::Extended] {
        if let Ok(encoded) = schema.encode(other) {
            assert!(schema.same_layout(&Schema::decode(&encoded, other).unwrap()).is_ok());
        }
    }
}

fn check_dtype(text: &str) {
    let Ok(dtype) = Dtype::parse(text) else { return };
    assert!(dtype.item_size() <= dtype::ITEM_SIZE_MAX);
    assert_eq!(Dtype::from_value(&dtype.to_value()).unwrap(), dtype);
    let shown = dtype.to_string();
    // The literal of a structured type may have other spaces and quotes.
    assert!(shown == text || dtype.is_structured(), "{text:?} is shown as {shown:?}");
    assert_eq!(Dtype::parse(&shown).unwrap(), dtype);
}

/// A checkpoint may come from anywhere: going on from it is an error or
/// gives a step and a length that this loader can serve.
fn check_state(bytes: &[u8]) {
    let Ok(state) = serde_json::from_slice::<LoaderState>(bytes) else { return };
    let written = serde_json::to_vec(&state).unwrap();
    assert_eq!(serde_json::from_slice::<LoaderState>(&written).unwrap(), state);
    for (length, available) in [(1, 1), (1000, 1000), (state.length, u64::MAX), (10, 2000)] {
        let own = LoaderState { version: 1, length, ..state.clone() };
        for strict in [true, false] {
            let Ok(resumption) = state.check(&own, available, strict) else { continue };
            assert!(resumption.length <= available || resumption.length == length);
            assert_eq!(resumption.step, state.step);
        }
    }
}

/// A map with the keys of a schema, in which values are often right.
fn made_up(choices: &mut Choices<'_>) -> Vec<u8> {
    let extended = choices.any();
    let mut map: Vec<(Value, Value)> = Vec::new();
    for key in ["format", "version", "kind", "dtype", "item_shape", "codec", "metadata"] {
        let value =
            if choices.once_in(6) { value(choices, 0) } else { right(key, extended, choices) };
        map.push((key.into(), value));
    }
    for _ in 0..choices.below(4) {
        let entry = (value(choices, DEPTH_MAX), value(choices, 0));
        let place = choices.below(map.len() + 1);
        map.insert(place, entry);
    }
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &Value::Map(map)).unwrap();
    if choices.once_in(8) {
        let place = choices.below(bytes.len());
        bytes[place] = choices.any();
    }
    bytes
}

/// A value that suits the key.
fn right(key: &str, extended: bool, choices: &mut Choices<'_>) -> Value {
    match key {
        "format" if extended => "zrecord".into(),
        "format" => "loaderx-zrecord".into(),
        "version" => if extended { 2 } else { 1 }.into(),
        "kind" => choices.one_of(&["dense", "ragged"]).into(),
        "codec" => choices.one_of(&["raw", "zstd", "zstd_dict"]).into(),
        "dtype" => dtype_value(choices, 0),
        "item_shape" => {
            let dimensions = choices.below(6);
            (0..dimensions).map(|_| Value::from(choices.number(3))).collect()
        }
        _ => Value::Map(Vec::new()),
    }
}

/// A dtype by its text, or a structured one.
fn dtype_value(choices: &mut Choices<'_>, depth: usize) -> Value {
    let texts = [
        "|u1",
        "<f4",
        ">i8",
        "|b1",
        "<U3",
        "|S0",
        "|V16",
        "<M8[ns]",
        "<m8[7D]",
        "bfloat16",
        "float8_e4m3",
        "|O",
        "<U4294967295",
        "|S2147483647",
        "<M8[25us/3]",
        "",
    ];
    if depth > 20 || !choices.once_in(3) {
        return choices.one_of(&texts).into();
    }
    let count = choices.below(5);
    let fields = (0..count).map(|_| {
        let name = match choices.any::<u8>() % 4 {
            0 => Value::Array(vec!["title".into(), "name".into()]),
            1 => "".into(),
            2 => choices.one_of(&["a", "b"]).into(),
            _ => String::from_utf8_lossy(choices.bytes(6)).into_owned().into(),
        };
        let mut field = vec![name, dtype_value(choices, depth + 1)];
        if choices.once_in(3) {
            let sizes = choices.below(4);
            field.push((0..sizes).map(|_| Value::from(choices.number(2))).collect());
        }
        Value::Array(field)
    });
    Value::Array(fields.collect())
}

/// Any value, perhaps deep.
fn value(choices: &mut Choices<'_>, depth: usize) -> Value {
    match choices.any::<u8>() % 10 {
        0 => Value::Nil,
        1 => Value::Boolean(choices.any()),
        2 => choices.number(0).into(),
        3 => choices.any::<i64>().into(),
        4 => Value::F64(choices.any()),
        5 => String::from_utf8_lossy(choices.bytes(12)).into_owned().into(),
        6 => Value::Binary(choices.bytes(12).to_vec()),
        7 => Value::Ext(choices.any(), choices.bytes(4).to_vec()),
        8 if depth < DEPTH_MAX => {
            let levels = choices.below(DEPTH_MAX);
            (0..levels).fold(value(choices, DEPTH_MAX), |value, _| Value::Array(vec![value]))
        }
        _ if depth < DEPTH_MAX => {
            let count = choices.below(4);
            let pair = |_| (value(choices, depth + 20), value(choices, depth + 20));
            Value::Map((0..count).map(pair).collect())
        }
        _ => Value::Nil,
    }
}
