//! Dtypes as NumPy writes them, and as it does not.

use super::*;

fn size(text: &str) -> u64 {
    let dtype = Dtype::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!((dtype.to_string().as_str(), dtype.to_value()), (text, text.into()));
    assert_eq!(Dtype::from_value(&text.into()), Ok(dtype.clone()));
    dtype.item_size()
}

#[test]
fn every_numpy_kind_has_its_size() {
    for (text, expected) in [
        ("|b1", 1),
        ("|i1", 1),
        ("|u1", 1),
        ("<i2", 2),
        (">i2", 2),
        ("<u4", 4),
        (">i8", 8),
        ("<f2", 2),
        ("<f4", 4),
        (">f8", 8),
        ("<f12", 12),
        ("<f16", 16),
        ("<c8", 8),
        ("<c16", 16),
        ("<c24", 24),
        ("<c32", 32),
        ("<M8", 8),
        ("<M8[ns]", 8),
        (">M8[D]", 8),
        ("<m8[25us]", 8),
        ("<m8[as]", 8),
        ("<U3", 12),
        (">U1", 4),
        ("<U0", 0),
        ("|S5", 5),
        ("|S0", 0),
        ("|V12", 12),
        ("|V2147483647", ITEM_SIZE_MAX),
    ] {
        assert_eq!(size(text), expected, "{text}");
    }
}

#[test]
fn every_ml_dtypes_name_has_its_size() {
    for (name, expected) in ML_DTYPES {
        assert_eq!(size(name), expected);
        assert_eq!(Dtype::parse(name).unwrap().ml_dtypes_name(), Some(name));
        assert_eq!(Dtype::parse(name).unwrap().numpy_str(), None);
    }
    assert_eq!(size("bfloat16"), 2);
}

#[test]
fn other_spellings_are_refused() {
    for text in [
        "",
        "<",
        "|",
        "<f",
        "f4",
        "=f4",
        "=f8",
        "!f4",
        "float32",
        "uint8",
        "<f5",
        "<f1",
        "<V2",
        "<W4",
        "<i16",
        "<u3",
        "<u1",
        ">i1",
        "|f4",
        "|M8[ns]",
        "<b1",
        "|b2",
        "|U3",
        "<S5",
        "|S",
        "|S05",
        "|S-1",
        "|S+1",
        "|S 1",
        "|a5",
        "<M4",
        "<M8[",
        "<M8[]",
        "<M8[ns",
        "<M8ns]",
        "<M8[n s]",
        "<M8[25]",
        "<M8[0s]",
        "<M8[05s]",
        "<M8[s]x",
        "<M8[s][s]",
        "<M8[ns/3]",
        "<M8[99999999999s]",
        "|V2147483648",
        "<U536870912",
        "|V18446744073709551616",
        "é4",
        "<é",
        "<f4\0",
        "<f4 ",
        " <f4",
        "bfloat17",
        "BFLOAT16",
        "|S１",
    ] {
        match Dtype::parse(text) {
            Err(DtypeError::Malformed(reason)) => {
                assert!(reason.contains(&format!("{text:?}")), "{text}: {reason}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}

#[test]
fn pointers_are_refused_with_the_reason() {
    for (text, word) in
        [("|O", "object"), ("|O8", "object"), ("O", "no dtype"), ("object", "object")]
    {
        assert!(Dtype::parse(text).unwrap_err().to_string().contains(word), "{text}");
    }
    let strings = Dtype::parse("|T16").unwrap_err();
    assert!(matches!(&strings, DtypeError::Unsupported(reason) if reason.contains("pointers")));
}

fn list<const N: usize>(values: [Value; N]) -> Value {
    Value::Array(values.into())
}

fn shape<const N: usize>(sizes: [u64; N]) -> Value {
    sizes.iter().map(|size| Value::from(*size)).collect()
}

/// `[("x", "<i4"), ("", "|V4"), (("a title", "y"), "<f8", (2, 3)),
/// ("z", [("u", "bfloat16")], (1,)), ("w", "|S0", ())]`
fn structured() -> Value {
    list([
        list(["x".into(), "<i4".into()]),
        list(["".into(), "|V4".into()]),
        list([list(["a title".into(), "y".into()]), "<f8".into(), shape([2, 3])]),
        list(["z".into(), list([list(["u".into(), "bfloat16".into()])]), shape([1])]),
        list(["w".into(), "|S0".into(), shape([])]),
    ])
}

#[test]
fn a_structured_type_keeps_its_description() {
    let dtype = Dtype::from_value(&structured()).unwrap();
    assert_eq!(dtype.item_size(), 4 + 4 + 48 + 2);
    assert_eq!(dtype.to_value(), structured());
    assert!(dtype.is_structured() && dtype.numpy_str().is_none());
    let shown = "[('x', '<i4'), ('', '|V4'), (('a title', 'y'), '<f8', (2, 3)), \
                 ('z', [('u', 'bfloat16')], (1,)), ('w', '|S0', ())]";
    assert_eq!(dtype.to_string(), shown);
    assert_eq!(Dtype::parse(shown), Ok(dtype));
    assert_eq!(Dtype::from_value(&list([])).unwrap().item_size(), 0);
}

#[test]
fn any_name_of_a_field_survives_being_shown() {
    for name in
        ["it's", "a \"b\"", "back\\slash", "two\nlines", "tab\t", "\u{7f}", "ünïcode 日本", "]), ("]
    {
        let value = list([list([name.into(), "<f4".into()])]);
        let dtype = Dtype::from_value(&value).unwrap();
        assert_eq!(Dtype::parse(&dtype.to_string()), Ok(dtype), "{name:?}");
    }
    // As Python may also write them.
    for (text, name) in [
        (r#"[("it's",'<f4')]"#, "it's"),
        (r"[ ( 'a\x41\u00e9\U0001f600\n\r\t' , '<f4' ) ]", "aAé😀\n\r\t"),
    ] {
        let expected = Dtype::from_value(&list([list([name.into(), "<f4".into()])]));
        assert_eq!(Dtype::parse(text), expected, "{text}");
    }
}

#[test]
fn text_that_is_no_list_of_fields_is_refused() {
    let deep = format!("{}'|u1'{}", "[('a', ".repeat(100_000), ")]".repeat(100_000));
    for (text, word) in [
        ("[", "byte 1"),
        ("[(", "a string"),
        ("[('a", "a string that ends"),
        ("[('a'", "\",\""),
        ("[('a')]", "\",\""),
        ("[('a', '<f4'", "\")\""),
        ("[('a', '<f4')", "\",\""),
        ("[('a', '<f4') ('b', '<f4')]", "\",\""),
        ("[('a', '<f4')] ['", "the end"),
        ("[['a', '<f4']]", "\"(\""),
        ("[('a', '<f4', 2)]", "\"(\""),
        ("[('a', '<f4', (-1,))]", "a size"),
        ("[('a', '<f4', (02,))]", "a size"),
        ("[('a', '<f4', (18446744073709551616,))]", "a size"),
        (&format!("[('a', '<f4', ({}))]", "1, ".repeat(65)), "no size beyond 64"),
        ("[('a', '<f4', (2 3))]", "\",\""),
        ("[(('a', 'b', 'c'), '<f4')]", "\")\""),
        ("[('\\q', '<f4')]", "known escapes"),
        ("[('\\ud800', '<f4')]", "known escapes"),
        ("[('\\U99999999', '<f4')]", "known escapes"),
        ("[('a', '<f4'), ('a', '<f4')]", "two fields"),
        ("[('a', \"[('b', '<f4')]\")]", "is no dtype"),
        ("[('a', '|O')]", "object"),
        (&deep, "nested deeper"),
    ] {
        let reason = Dtype::parse(text).expect_err(word).to_string();
        assert!(reason.contains(word), "{word}: {reason}");
    }
}

#[test]
fn malformed_structures_are_refused() {
    let field = |name: &str, dtype: &str| list([name.into(), dtype.into()]);
    let mut deep = Value::from("|u1");
    for _ in 0..=NESTING_MAX {
        deep = list([list(["a".into(), deep])]);
    }
    for (value, word) in [
        (Value::Nil, "nil"),
        (Value::from(3), "an integer"),
        (list(["x".into()]), "a field is"),
        (list([list(["x".into()])]), "a field is"),
        (list([list(["x".into(), "<f4".into(), shape([]), Value::Nil])]), "a field is"),
        (list([list([Value::Nil, "<f4".into()])]), "the name of a field"),
        (list([list([list([Value::from(1), "x".into()]), "<f4".into()])]), "the name"),
        (list([list([list(["t".into(), Value::Nil]), "<f4".into()])]), "the name"),
        (list([field("", "<f4")]), "without a name"),
        (list([list(["".into(), "|V4".into(), shape([2])])]), "without a name"),
        (list([list([list(["t".into(), "".into()]), "|V4".into()])]), "without a name"),
        (list([field("x", "<f4"), field("x", "|u1")]), "two fields are called \"x\""),
        (list([field("t", "|u1"), list([list(["t".into(), "y".into()]), "|u1".into()])]), "two"),
        (list([field("x", "=f4")]), "field \"x\""),
        (list([field("x", "|O")]), "field \"x\": the object dtype"),
        (list([list(["x".into(), "|u1".into(), Value::from(3)])]), "a shape is a list"),
        (list([list(["x".into(), "|u1".into(), list([Value::from(-1)])])]), "negative"),
        (list([list(["x".into(), "|u1".into(), shape([1; 65])])]), "65 dimensions"),
        (list([list(["x".into(), "<f8".into(), shape([1 << 31])])]), "more than 2147483647"),
        (list([list(["x".into(), "<f8".into(), shape([1 << 40, 1 << 40])])]), "more than"),
        (list(["x", "y"].map(|x| list([x.into(), "|u1".into(), shape([1 << 63])]))), "more than"),
        (deep, "nested deeper than 16"),
    ] {
        let reason = Dtype::from_value(&value).expect_err(word).to_string();
        assert!(reason.contains(word), "{value}: {reason}");
    }
}
