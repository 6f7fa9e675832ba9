//! Times batches of one store: `cargo run --release --example gather -- LEN
//! COUNT CODEC`. Every answer is checked before it is timed.

use std::time::{Duration, Instant};

use zrecord_host::{Codec, Mode, OpenOptions};

const BATCH: usize = 256;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let len: usize = arguments.next().map_or(Ok(12 << 10), |text| text.parse())?;
    let count: usize = arguments.next().map_or(Ok(20_000), |text| text.parse())?;
    let codec = arguments.next().and_then(|name| Codec::from_name(&name)).unwrap_or(Codec::Raw);
    let directory = std::env::temp_dir().join(format!("zrecord-gather-{}", std::process::id()));
    let path = directory.join("store.zr");
    let mut state = 1_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let bytes: Vec<u8> = (0..len * count)
        .map(|position| if position % 4 == 0 { random().to_le_bytes()[3] } else { 7 })
        .collect();
    let offsets: Vec<u64> = (0..count).map(|record| (record * len) as u64).collect();
    let begun = Instant::now();
    let store = OpenOptions::new().mode(Mode::Append).open(&path)?;
    store.append(&bytes, &offsets, Some(codec))?;
    println!("append {:?}, {:?}", begun.elapsed(), store.stats()?);

    let mut dst = vec![0; BATCH * len];
    let rows: Vec<Vec<u64>> =
        (0..200).map(|_| (0..BATCH).map(|_| random() % count as u64).collect()).collect();
    let mut times: Vec<Duration> = Vec::new();
    for pass in 0..5 {
        for batch in &rows {
            let begun = Instant::now();
            store.gather_packed(batch, &mut dst, len as u64)?;
            if pass > 0 {
                times.push(begun.elapsed());
            }
            for (index, row) in batch.iter().zip(dst.chunks_exact(len)) {
                let start = usize::try_from(*index)? * len;
                if row != &bytes[start..start + len] {
                    return Err(format!("record {index} is not what was appended").into());
                }
            }
        }
    }
    // What a plain copy from a map takes, which is what numpy does.
    if codec == Codec::Raw {
        let chunk = std::fs::File::open(path.join("0.zr"))?;
        // SAFETY: nobody changes the file while this runs.
        let map = unsafe { memmap2::Mmap::map(&chunk)? };
        let mut plain: Vec<Duration> = Vec::new();
        for batch in rows.iter().cycle().take(800) {
            let begun = Instant::now();
            for (index, row) in batch.iter().zip(dst.chunks_exact_mut(len)) {
                let start = usize::try_from(*index)? * len;
                row.copy_from_slice(&map[start..start + len]);
            }
            plain.push(begun.elapsed());
        }
        plain.sort();
        println!("plain copy: median {:?}, best {:?}", plain[plain.len() / 2], plain[0]);
    }
    times.sort();
    let median = times[times.len() / 2];
    let rate = (BATCH * len) as f64 / median.as_secs_f64() / 1e9;
    println!("{BATCH} x {len} {codec}: median {median:?}, best {:?}, {rate:.1} GB/s", times[0]);
    store.close()?;
    std::fs::remove_dir_all(&directory)?;
    Ok(())
}
