//! Schemas against what loaderx wrote, and against bytes that nobody wrote.

use std::path::PathBuf;

use proptest::prelude::*;

use super::*;

fn golden() -> Vec<(String, Vec<u8>)> {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/loaderx-0.9.4");
    let stores = std::fs::read_dir(root).expect(root).map(|entry| entry.unwrap().path());
    let schema = |store: PathBuf| {
        let bytes = std::fs::read(store.join("schema.msgpack")).ok()?;
        Some((store.file_name()?.to_string_lossy().into_owned(), bytes))
    };
    stores.filter_map(schema).collect()
}

fn schema(kind: Kind, dtype: &str, item_shape: &[u64], codec: Codec) -> Schema {
    let dtype = Dtype::parse(dtype).unwrap();
    Schema::new(kind, dtype, item_shape.to_vec(), codec, Vec::new()).unwrap()
}

fn encoded(map: &[(Value, Value)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    rmpv::encode::write_value(&mut bytes, &Value::Map(map.to_vec())).unwrap();
    bytes
}

fn classic_map() -> Metadata {
    schema(Kind::Dense, "<f4", &[2, 4], Codec::Zstd).classic_map().unwrap()
}

fn extended_map() -> Metadata {
    schema(Kind::Dense, "<f4", &[2, 4], Codec::Zstd).extended_map()
}

/// The map with the value of `key` replaced.
fn with(mut map: Metadata, key: &str, value: impl Into<Value>) -> Metadata {
    map.iter_mut().find(|(found, _)| found.as_str() == Some(key)).unwrap().1 = value.into();
    map
}

fn reason(map: &[(Value, Value)], format: Format) -> String {
    match Schema::decode(&encoded(map), format) {
        Err(Error::Corrupt { file: FileName::Schema, reason }) => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_loaderx_wrote_comes_back_byte_for_byte() {
    let golden = golden();
    assert!(golden.len() >= 10, "{} golden schemas", golden.len());
    for (store, bytes) in golden {
        let schema = Schema::decode(&bytes, Format::Classic).expect(&store);
        assert_eq!(schema.encode(Format::Classic).expect(&store), bytes, "{store}");
        // A schema of our own making has the same bytes.
        let own = Schema::new(
            schema.kind(),
            schema.dtype().clone(),
            schema.item_shape().to_vec(),
            schema.codec(),
            Vec::new(),
        );
        assert_eq!(own.unwrap().encode(Format::Classic).expect(&store), bytes, "{store}");
        let shown = match store.as_str() {
            "dense_f32_2x4" => "dense <f4 (2, 4)",
            "dense_scalar_i64" => "dense <i8 ()",
            "ragged_rows_f4x3" => "ragged <f4 (3,)",
            "dense_zstd_dict" => "dense |u1 (256,)",
            _ => continue,
        };
        assert_eq!(schema.to_string(), shown);
    }
}

#[test]
fn a_users_classic_keys_stay_in_their_place() {
    // As loaderx writes a schema whose user gave these keys in this order.
    let map: Metadata = vec![
        ("note".into(), "mine".into()),
        ("dtype".into(), "float32".into()),
        (Value::from(7), Value::F64(0.5)),
        ("kind".into(), "ragged".into()),
        ("item_shape".into(), Value::Array(vec![])),
        ("format".into(), CLASSIC_FORMAT.into()),
        ("version".into(), 1.into()),
        ("codec".into(), "raw".into()),
        ("last".into(), Value::Binary(vec![1, 2])),
    ];
    let schema = Schema::decode(&encoded(&map), Format::Classic).unwrap();
    assert_eq!(schema.encode(Format::Classic).unwrap(), encoded(&map));
    let changed = schema.clone().with_codec(Codec::Zstd);
    let expected = encoded(&with(map, "codec", "zstd"));
    assert_eq!(changed.encode(Format::Classic).unwrap(), expected);

    assert_eq!(schema.dtype().numpy_str(), Some("<f4"));
    let names: Vec<_> = schema.metadata().iter().map(|(key, _)| key.to_string()).collect();
    assert_eq!(names, ["\"note\"", "7", "\"last\""]);
    // The extended format keeps them as the user's map, and gives them back.
    let bytes = schema.encode(Format::Extended).unwrap();
    let extended = Schema::decode(&bytes, Format::Extended).unwrap();
    assert_eq!(extended, schema);
    let back = extended.encode(Format::Classic).unwrap();
    assert_eq!(Schema::decode(&back, Format::Classic).unwrap(), schema);
    assert_eq!(&back[1..6], &encoded(&[("note".into(), Value::Nil)])[1..6]);
}

#[test]
fn opaque_bytes_as_numpy_spells_them_are_read() {
    let map = with(classic_map(), "dtype", "<V2");
    let schema = Schema::decode(&encoded(&map), Format::Classic).unwrap();
    assert_eq!((schema.dtype().numpy_str(), schema.row_bytes()), (Some("|V2"), 16));
    assert_eq!(schema.encode(Format::Classic).unwrap(), encoded(&map));
    assert!(
        Schema::decode(&encoded(&with(extended_map(), "dtype", "<V2")), Format::Extended).is_err()
    );
}

#[test]
fn extended_bytes_are_as_documented() {
    let metadata = vec![("classes".into(), Value::from(10))];
    let dtype = Dtype::parse("bfloat16").unwrap();
    let schema = Schema::new(Kind::Ragged, dtype, vec![3], Codec::ZstdDict, metadata).unwrap();
    let bytes = schema.encode(Format::Extended).unwrap();
    let expected = b"\x87\xa6format\xa7zrecord\xa7version\x02\xa4kind\xa6ragged\xa5dtype\
        \xa8bfloat16\xaaitem_shape\x91\x03\xa5codec\xa9zstd_dict\xa8metadata\x81\xa7classes\x0a";
    assert_eq!(bytes, expected);
    assert_eq!(Schema::decode(&bytes, Format::Extended).unwrap(), schema);
}

#[test]
fn classic_refuses_what_it_cannot_hold() {
    let refused = |schema: Schema, word: &str| match schema.encode(Format::Classic) {
        Err(Error::Unsupported { what }) => assert!(what.contains(word), "{what}"),
        other => panic!("{other:?}"),
    };
    refused(schema(Kind::Dense, "bfloat16", &[], Codec::Raw), "bfloat16 in a classic store");
    let field = Value::Array(vec!["x".into(), "<f4".into()]);
    let dtype = Dtype::from_value(&Value::Array(vec![field])).unwrap();
    let structured = Schema::new(Kind::Dense, dtype, vec![], Codec::Raw, vec![]).unwrap();
    assert!(structured.encode(Format::Extended).is_ok());
    refused(structured, "[('x', '<f4')]");
    let dtype = Dtype::parse("|u1").unwrap();
    let metadata = vec![("version".into(), Value::from(3))];
    let reserved = Schema::new(Kind::Dense, dtype, vec![], Codec::Raw, metadata).unwrap();
    assert!(reserved.encode(Format::Extended).is_ok());
    refused(reserved, "version");
}

#[test]
fn malformed_schemas_are_refused_with_the_reason() {
    for format in [Format::Classic, Format::Extended] {
        let map = || if format == Format::Classic { classic_map() } else { extended_map() };
        for (key, value, word) in [
            ("format", "zebra".into(), "\"zebra\""),
            ("format", Value::Nil, "\"format\" is nil"),
            ("kind", "sparse".into(), "\"sparse\""),
            ("codec", "lz4".into(), "\"lz4\""),
            ("dtype", "=f4".into(), "\"=f4\""),
            ("dtype", Value::from(4), "an integer"),
            ("item_shape", "8".into(), "item_shape"),
            ("item_shape", Value::Array(vec![Value::from(-1)]), "a negative integer"),
            ("item_shape", Value::Array(vec![Value::from(1); 65]), "65 dimensions"),
            ("item_shape", Value::Array(vec![Value::from(1_u64 << 33); 2]), "too large"),
        ] {
            let reason = reason(&with(map(), key, value), format);
            assert!(reason.contains(word), "{reason}");
        }
        for (missing, (key, _)) in map().iter().enumerate() {
            let mut map = map();
            map.remove(missing);
            // loaderx never looks at the version.
            if format == Format::Classic && key.as_str() == Some("version") {
                let schema = Schema::decode(&encoded(&map), format).unwrap();
                map.push(("version".into(), 1.into()));
                assert_eq!(schema.encode(format).unwrap(), encoded(&map));
                continue;
            }
            assert!(reason(&map, format).contains("is missing"));
        }
        let twice = [map(), vec![("kind".into(), "dense".into())]].concat();
        assert!(reason(&twice, format).contains("\"kind\" comes twice"));
        let other = if format == Format::Classic { extended_map() } else { classic_map() };
        assert!(reason(&other, format).contains("the format is"));
    }
    let with_pickle = with(extended_map(), "metadata", "gASV");
    assert!(reason(&with_pickle, Format::Extended).contains("no map"));
    let unknown = [extended_map(), vec![("colour".into(), "red".into())]].concat();
    assert!(reason(&unknown, Format::Extended).contains("colour"));
    let bfloat = with(classic_map(), "dtype", "bfloat16");
    assert!(reason(&bfloat, Format::Classic).contains("none of NumPy's own"));
}

#[test]
fn a_newer_version_is_unsupported() {
    let newer = encoded(&with(extended_map(), "version", 3));
    let error = Schema::decode(&newer, Format::Extended).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { what } if what.contains("version 3")), "{error}");
    for version in [0, 1, -2] {
        assert!(
            reason(&with(extended_map(), "version", version), Format::Extended)
                .contains("is not 2")
        );
    }
    let any = encoded(&with(classic_map(), "version", 99));
    assert!(Schema::decode(&any, Format::Classic).is_ok());
    let objects = encoded(&with(classic_map(), "dtype", "|O"));
    let error = Schema::decode(&objects, Format::Classic).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
}

#[test]
fn limits_hold_both_ways() {
    let keep = |metadata: Metadata| {
        let dtype = Dtype::parse("|u1").unwrap();
        Schema::new(Kind::Dense, dtype, vec![], Codec::Raw, metadata).unwrap()
    };
    let nested = |levels| {
        let deep = (0..levels).fold(Value::Nil, |inner, _| Value::Array(vec![inner]));
        keep(vec![("deep".into(), deep)])
    };
    // The schema and its metadata are two levels.
    let deepest = nested(NESTING_MAX - 2);
    let bytes = deepest.encode(Format::Extended).unwrap();
    assert_eq!(Schema::decode(&bytes, Format::Extended).unwrap(), deepest);
    let error = nested(NESTING_MAX).encode(Format::Extended).unwrap_err();
    assert!(matches!(error, Error::InvalidArgument { argument: "metadata", .. }), "{error}");
    let large = keep(vec![("blob".into(), Value::Binary(vec![0; SCHEMA_SIZE_MAX]))]);
    let error = large.encode(Format::Extended).unwrap_err().to_string();
    assert!(error.contains("the limit is 1048576"), "{error}");

    let mut trailing = encoded(&extended_map());
    trailing.push(0xC0);
    let error = Schema::decode(&trailing, Format::Extended).unwrap_err().to_string();
    assert!(error.contains("1 bytes follow"), "{error}");
    let mut bytes = encoded(&with(extended_map(), "kind", "dense"));
    let text = bytes.windows(5).position(|window| window == b"dense").unwrap();
    bytes[text] = 0xFF;
    let error = Schema::decode(&bytes, Format::Extended).unwrap_err().to_string();
    assert!(error.contains("not UTF-8"), "{error}");
    // Lengths that are not there must not be allocated.
    for hostile in
        [&b"\xdf\xff\xff\xff\xff"[..], b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff", b""]
    {
        assert!(Schema::decode(hostile, Format::Extended).is_err());
    }
    assert!(Schema::decode(&[0x91; 100_000], Format::Classic).is_err());
}

#[test]
fn record_lengths_follow_from_the_schema() {
    let dense = schema(Kind::Dense, "<f4", &[2, 4], Codec::Raw);
    assert_eq!(dense.row_bytes(), 32);
    assert_eq!(dense.check_record_len(32), Ok(()));
    for len in [0, 31, 64] {
        let reason = dense.check_record_len(len).unwrap_err();
        assert_eq!(reason, format!("a record of {len} bytes; dense <f4 (2, 4) has 32"));
    }
    let ragged = schema(Kind::Ragged, "<f4", &[3], Codec::Raw);
    for len in [0, 12, 1_200] {
        assert_eq!(ragged.check_record_len(len), Ok(()));
    }
    assert!(ragged.check_record_len(13).unwrap_err().contains("rows of 12"));
    for kind in [Kind::Dense, Kind::Ragged] {
        let empty = schema(kind, "<f4", &[0, u64::MAX, u64::MAX], Codec::Raw);
        assert_eq!((empty.row_bytes(), empty.check_record_len(0)), (0, Ok(())));
        assert!(empty.check_record_len(4).is_err());
    }
}

#[test]
fn differences_of_layout_are_named() {
    let one = schema(Kind::Dense, "<f4", &[2, 4], Codec::Raw);
    one.same_layout(&schema(Kind::Dense, "<f4", &[2, 4], Codec::Zstd)).unwrap();
    let other = schema(Kind::Ragged, "<f8", &[8], Codec::Raw);
    let error = one.same_layout(&other).unwrap_err().to_string();
    for difference in [
        "the kind is dense, not ragged",
        "the dtype is <f4, not <f8",
        "item shape is (2, 4), not (8,)",
    ] {
        assert!(error.contains(difference), "{error}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::F64),
        (-1e9_f32..1e9).prop_map(Value::F32),
        ".{0,12}".prop_map(Value::from),
        any::<Vec<u8>>().prop_map(Value::Binary),
        (any::<i8>(), any::<Vec<u8>>()).prop_map(|(kind, bytes)| Value::Ext(kind, bytes)),
    ];
    leaf.prop_recursive(4, 32, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            prop::collection::vec((inner.clone(), inner), 0..4).prop_map(Value::Map),
        ]
    })
}

#[test]
fn a_key_that_equals_nothing_keeps_its_place() {
    let mut map = classic_map();
    map.retain(|(key, _)| key.as_str() != Some("version"));
    map.push((f64::NAN.into(), 1.into()));
    let schema = Schema::decode(&encoded(&map), Format::Classic).unwrap();
    let once = schema.encode(Format::Classic).unwrap();
    let again = Schema::decode(&once, Format::Classic).unwrap();
    assert_eq!(again.encode(Format::Classic).unwrap(), once);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]

    #[test]
    fn any_schema_roundtrips(
        dense: bool,
        dtype in prop::sample::select(vec!["|u1", ">f8", "<M8[ns]", "<U3", "|S0", "float8_e5m2"]),
        item_shape in prop::collection::vec(0_u64..1_000, 0..5),
        codec in prop::sample::select(Codec::ALL.to_vec()),
        values in prop::collection::vec(any_value(), 0..4),
    ) {
        let kind = if dense { Kind::Dense } else { Kind::Ragged };
        let metadata = (0..).map(|n| format!("key {n}").into()).zip(values).collect();
        let dtype = Dtype::parse(dtype).unwrap();
        let schema = Schema::new(kind, dtype, item_shape, codec, metadata).unwrap();
        for format in [Format::Classic, Format::Extended] {
            if format == Format::Classic && schema.dtype().numpy_str().is_none() {
                continue;
            }
            let bytes = schema.encode(format).unwrap();
            let decoded = Schema::decode(&bytes, format).unwrap();
            prop_assert_eq!(&decoded, &schema);
            prop_assert_eq!(decoded.encode(format).unwrap(), bytes);
        }
    }

    #[test]
    fn damaged_schemas_never_panic(place in 0_usize..80, byte: u8, bytes: Vec<u8>) {
        for format in [Format::Classic, Format::Extended] {
            let mut damaged = encoded(&if byte % 2 == 0 { classic_map() } else { extended_map() });
            let len = damaged.len();
            damaged[place % len] = byte;
            if let Ok(schema) = Schema::decode(&damaged, format) {
                let _ = (schema.encode(Format::Classic), schema.encode(Format::Extended));
            }
            let _ = Schema::decode(&bytes, format);
        }
    }
}
