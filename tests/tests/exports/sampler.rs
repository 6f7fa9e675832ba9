//! The interface `sampler`: the frozen vectors, and any options.

use serde_json::Value;
use zrecord_core::sampler as core;
use zrecord_tests::component::bindings::sampler::{Error, Mode, Options};
use zrecord_tests::component::instance::World;
use zrecord_tests::component::pair::Pair;

use super::Compared;

const VECTORS: &str = include_str!("../../vectors/sampler.json");
const EDGES: [u64; 12] =
    [0, 1, 2, 3, 7, 100, 4096, 1 << 31, u32::MAX as u64, 1 << 32, 1 << 63, u64::MAX];

fn natively(options: Options) -> Result<core::Sampler, Error> {
    core::Sampler::new(core::SamplerOptions {
        length: options.length,
        batch_size: options.batch_size,
        mode: match options.mode {
            Mode::Sequential => core::Mode::Sequential,
            Mode::Iid => core::Mode::Iid,
            Mode::Cyclic => core::Mode::Cyclic,
        },
        seed: options.seed,
        rank: options.rank,
        world_size: options.world_size,
    })
    .map_err(|error| Error::InvalidArgument(error.to_string()))
}

/// The batches of `count` steps.
fn expected(sampler: &core::Sampler, first: u64, count: u64) -> Vec<u64> {
    let size = usize::try_from(sampler.batch_size()).unwrap();
    let mut batches = vec![0; size * usize::try_from(count).unwrap()];
    for (batch, done) in batches.chunks_mut(size).zip(0..) {
        sampler.fill(first + done, batch).unwrap();
    }
    batches
}

fn any(random: &mut fastrand::Rng) -> u64 {
    match random.u8(..3) {
        0 => EDGES[random.usize(..EDGES.len())],
        1 => random.u64(..300),
        _ => random.u64(..) >> random.u8(..64),
    }
}

fn any_options(random: &mut fastrand::Rng) -> Options {
    Options {
        length: any(random),
        batch_size: any(random),
        mode: [Mode::Sequential, Mode::Iid, Mode::Cyclic][random.usize(..3)],
        seed: any(random),
        rank: if random.bool() { 0 } else { any(random) },
        world_size: if random.bool() { 1 } else { any(random) },
    }
}

/// Any options, those that are refused and those that are not.
pub fn create(world: World) -> Compared {
    let mut pair = Pair::empty(world);
    let mut random = fastrand::Rng::with_seed(11);
    let mut made = 0;
    for _ in 0..2_000 {
        let options = any_options(&mut random);
        let expected = natively(options).map(drop);
        made += u32::from(expected.is_ok());
        pair.expect("create", &expected, |component| component.create_sampler(options));
    }
    assert!((200..1_800).contains(&made), "{made} were made");
    pair.take_compared()
}

pub fn batches(world: World) -> Compared {
    let mut pair = Pair::empty(world);
    frozen(&mut pair);
    let mut random = fastrand::Rng::with_seed(12);
    let mut filled = 0;
    while filled < 500 {
        let mut options = any_options(&mut random);
        options.batch_size %= 2_000;
        let Ok(sampler) = natively(options) else { continue };
        pair.expect("create", &Ok(()), |component| component.create_sampler(options));
        let (first, count) = (any(&mut random) >> 1, random.u64(..5));
        let batches = Ok(expected(&sampler, first, count));
        pair.expect("batches", &batches, |component| component.batches(first, count));
        filled += 1;
    }
    limits(&mut pair);
    pair.take_compared()
}

/// The vectors that every language's tests read.
fn frozen(pair: &mut Pair) {
    let vectors: Value = serde_json::from_str(VECTORS).unwrap();
    let cases = vectors["cases"].as_array().unwrap();
    assert!(cases.len() > 200);
    for case in cases {
        let number = |key: &str| case[key].as_str().unwrap().parse::<u64>().unwrap();
        let options = Options {
            length: number("length"),
            batch_size: number("batch_size"),
            mode: match case["mode"].as_str().unwrap() {
                "sequential" => Mode::Sequential,
                "iid" => Mode::Iid,
                "cyclic" => Mode::Cyclic,
                other => panic!("{other}"),
            },
            seed: number("seed"),
            rank: number("rank"),
            world_size: number("world_size"),
        };
        let indices = case["indices"].as_array().unwrap().iter();
        let indices: Vec<u64> =
            indices.map(|index| index.as_str().unwrap().parse().unwrap()).collect();
        pair.expect("a frozen sampler", &Ok(()), |component| component.create_sampler(options));
        pair.expect("a frozen batch", &Ok(indices), |component| {
            component.batches(number("step"), 1)
        });
    }
}

/// No more than 2^24 indices at once, and no step past the last.
fn limits(pair: &mut Pair) {
    let options = Options {
        length: 1 << 40,
        batch_size: 1 << 12,
        mode: Mode::Iid,
        seed: 3,
        rank: 0,
        world_size: 1,
    };
    let sampler = natively(options).unwrap();
    pair.expect("create", &Ok(()), |component| component.create_sampler(options));
    let most = 1 << 12;
    let all = Ok(expected(&sampler, 5, most));
    pair.expect("the most", &all, |component| component.batches(5, most));
    for count in [most + 1, 1 << 52, u64::MAX] {
        pair.expect("more", &Err(Error::TooLarge), |component| component.batches(5, count));
    }
    pair.expect("none", &Ok(vec![]), |component| component.batches(u64::MAX, 0));
    let last = Ok(expected(&sampler, u64::MAX, 1));
    pair.expect("the last step", &last, |component| component.batches(u64::MAX, 1));
    pair.expect("past the last step", &true, |component| {
        matches!(component.batches(u64::MAX, 2), Err(Error::InvalidArgument(_)))
    });
}

pub fn batches_per_cycle(world: World) -> Compared {
    let mut pair = Pair::empty(world);
    let mut random = fastrand::Rng::with_seed(13);
    let (mut with, mut without) = (0, 0);
    while with < 50 || without < 50 {
        let options = any_options(&mut random);
        let Ok(sampler) = natively(options) else { continue };
        pair.expect("create", &Ok(()), |component| component.create_sampler(options));
        let expected = sampler.batches_per_cycle();
        *(if expected.is_some() { &mut with } else { &mut without }) += 1;
        pair.expect("per cycle", &expected, |component| component.batches_per_cycle());
    }
    pair.take_compared()
}
