//! Sequences of operations on a good store against a list of byte strings,
//! over the host or the core; and arguments of gathers, right and wrong.

use zrecord_core::codec::Codec;
use zrecord_core::format::Format;

use super::choices::Choices;
use super::memory;
use super::observe;
use super::steps::{self, Model, Step};
use super::subject::{Core, Host, Subject};

/// The buffers of a compaction and of a new table, encoders, and all records
/// a few times.
const MEMORY_MAX: usize = 48 << 20;
/// The most bytes of a gather's destination.
const DST_MAX: usize = 4096;
const UNTOUCHED: u8 = 0xA5;

/// Runs one input.
pub fn run(input: &[u8]) {
    super::codec::trained();
    memory::bounded(MEMORY_MAX, || {
        let mut choices = Choices::new(input);
        let format = choices.one_of(&[Format::Extended, Format::Classic]);
        let over_files: bool = choices.any();
        let chunk_size_max = choices.one_of(&[150, 1000, u64::MAX]);
        let steps = steps::choose(&mut choices);
        if over_files {
            let (_guard, path) = observe::folder();
            let mut host = Host::open(&path, Some(format), chunk_size_max).unwrap();
            let model = apply(format, &steps, &mut host);
            for _ in 0..4 {
                check_gather(&model, &host.store, &mut choices);
            }
            assert_eq!(host.store.verify(&mut |_| {}).unwrap(), []);
        } else {
            apply(format, &steps, &mut Core::create(format, chunk_size_max).unwrap());
        }
    });
}

/// Applies steps that must all be made, but for those whose arguments are
/// wrong or that the format refuses.
fn apply(format: Format, steps: &[Step], subject: &mut impl Subject) -> Model {
    let mut model = Model::default();
    let mut trained = false;
    for step in steps {
        let length = model.records.len();
        let done = model.apply(step, subject);
        let right = match step {
            Step::Append { codec, lens, .. } => {
                (format == Format::Extended || !lens.contains(&0))
                    && (*codec != Codec::ZstdDict || trained)
            }
            Step::Delete(picks) => picks.is_empty() || (length > 0 && !picks.contains(&u8::MAX)),
            // A classic store keeps the one that it uses.
            Step::Train => done || format == Format::Extended || !trained,
            Step::Compact | Step::Sync | Step::Reopen { .. } => true,
        };
        assert_eq!(done, right, "{step:?}");
        trained |= done && matches!(step, Step::Train);
        model.check(subject);
    }
    model
}

/// A gather of any arguments writes exactly what was asked for, or nothing.
fn check_gather(model: &Model, store: &zrecord_host::Store, choices: &mut Choices<'_>) {
    let length = model.records.len();
    let count = choices.below(8);
    let mut indices = Vec::new();
    let mut offsets = Vec::new();
    let mut end = 0;
    for _ in 0..count {
        let wrong = choices.once_in(16);
        let pick = choices.number(1);
        let index = if wrong || length == 0 { pick } else { pick % length as u64 };
        indices.push(index);
        let near = end + u64::from(choices.any::<u8>() % 3);
        offsets.push(if choices.once_in(16) { choices.number(end) } else { near });
        let record = usize::try_from(index).ok().and_then(|index| model.records.get(index));
        end = near + record.map_or(0, |record| record.as_ref().map_or(0, Vec::len)) as u64;
    }
    if choices.once_in(16) {
        offsets.push(0);
    }
    let size = if choices.once_in(8) { choices.number(end) } else { end };
    let size = usize::try_from(size).unwrap_or(DST_MAX).min(DST_MAX);
    let mut dst = vec![UNTOUCHED; size];
    let gathered = store.gather(&indices, &mut dst, &offsets);
    match expected(model, &indices, &offsets, size) {
        Some(expected) => {
            gathered.unwrap();
            assert!(dst == expected, "a gather wrote something else");
        }
        None => {
            assert!(gathered.is_err(), "{indices:?} at {offsets:?} into {size} bytes");
            assert!(dst.iter().all(|byte| *byte == UNTOUCHED), "written before the error");
        }
    }
}

/// The destination after a gather; `None` when its arguments are wrong.
fn expected(model: &Model, indices: &[u64], offsets: &[u64], size: usize) -> Option<Vec<u8>> {
    if indices.len() != offsets.len() {
        return None;
    }
    let mut dst = vec![UNTOUCHED; size];
    let mut places = Vec::new();
    for (index, offset) in indices.iter().zip(offsets) {
        let record = model.records.get(usize::try_from(*index).ok()?)?.as_ref()?;
        let start = usize::try_from(*offset).ok()?;
        let end = start.checked_add(record.len())?;
        dst.get_mut(start..end)?.copy_from_slice(record);
        places.push((start, end));
    }
    places.sort_unstable();
    places.windows(2).all(|pair| pair[0].1 <= pair[1].0).then_some(dst)
}
