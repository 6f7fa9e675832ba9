//! The contract in `wit/`: it parses, and every item of it is documented and
//! says since when it is there.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use wit_parser::{Docs, Resolve, Stability, TypeDefKind};

/// Every item of a package that has documentation of its own.
fn items(resolve: &Resolve) -> Vec<(String, &Docs, Option<&Stability>)> {
    let mut items = Vec::new();
    for (_, world) in &resolve.worlds {
        items.push((world.name.clone(), &world.docs, Some(&world.stability)));
    }
    for (_, interface) in &resolve.interfaces {
        let name = interface.name.clone().unwrap();
        items.push((name.clone(), &interface.docs, Some(&interface.stability)));
        for function in interface.functions.values() {
            let name = format!("{name}.{}", function.name);
            items.push((name, &function.docs, Some(&function.stability)));
        }
        for (short, id) in &interface.types {
            let (name, of_type) = (format!("{name}.{short}"), &resolve.types[*id]);
            let part = |part: &str| format!("{name}.{part}");
            match &of_type.kind {
                // `use` has nothing to say.
                TypeDefKind::Type(wit_parser::Type::Id(_)) => continue,
                TypeDefKind::Record(record) => items.extend(
                    record.fields.iter().map(|field| (part(&field.name), &field.docs, None)),
                ),
                TypeDefKind::Variant(variant) => items
                    .extend(variant.cases.iter().map(|case| (part(&case.name), &case.docs, None))),
                TypeDefKind::Enum(list) => {
                    items.extend(list.cases.iter().map(|case| (part(&case.name), &case.docs, None)))
                }
                _ => {}
            }
            items.push((name.clone(), &of_type.docs, Some(&of_type.stability)));
        }
    }
    items
}

fn parse(folder: &str) -> Resolve {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut resolve = Resolve::new();
    resolve.push_dir(root.join(folder)).unwrap();
    resolve
}

#[test]
fn every_item_is_documented_and_dated() {
    for (folder, count) in [("wit", 150), ("wit/step", 15)] {
        let resolve = parse(folder);
        let items = items(&resolve);
        assert!(items.len() >= count, "{folder} has only {} items", items.len());
        for (name, docs, stability) in items {
            assert!(docs.contents.is_some(), "{folder}: {name} is not documented");
            let dated = |stability| matches!(stability, &Stability::Stable { .. });
            assert!(stability.is_none_or(dated), "{folder}: {name} has no @since");
        }
    }
}

#[test]
fn a_preprocessing_step_imports_nothing() {
    let resolve = parse("wit/step");
    let (_, world) = resolve.worlds.iter().next().unwrap();
    assert_eq!((world.name.as_str(), world.imports.len()), ("preprocess", 0));
}
