//! Files of the store: every range of them, what stands in their place, and
//! changes while they are looked at.

use std::fs;
use std::time::Duration;

use zrecord_host::inspector::BLOCK;

use crate::client::{Reply, SECRET, Shown, draw, request};
use crate::support::Random;

/// Writes chunk 7, which the store does not need, with bytes by chance.
fn write_chunk(shown: &Shown, random: &mut Random, size: usize) -> Vec<u8> {
    let bytes: Vec<u8> = (0..size).map(|_| random.next().to_le_bytes()[3]).collect();
    fs::write(shown.path.join("7.zr"), &bytes).unwrap();
    bytes
}

/// A range, and the bytes of a file that it chooses: none, if it cannot be.
fn draw_range(random: &mut Random, bytes: &[u8]) -> (String, Option<std::ops::Range<usize>>) {
    let size = bytes.len();
    // Beyond the end at times, and often at an edge.
    let edges = [0, 1, size / 2, size.saturating_sub(1), size, size + 1, size * 3 + 7, BLOCK];
    let mut position = || match random.below(2) {
        0 => edges[draw(random, edges.len())],
        _ => draw(random, size + 10),
    };
    let (one, other) = (position(), position());
    let (first, last) = (one.min(other), one.max(other));
    let (text, chosen) = match random.below(3) {
        0 => (format!("{first}-{last}"), first..size.min(last + 1)),
        1 => (format!("{first}-"), first..size),
        _ => (format!("-{last}"), size.saturating_sub(last)..size),
    };
    (format!("bytes={text}"), (!chosen.is_empty()).then_some(chosen))
}

#[test]
fn ranges_are_those_of_the_file() {
    let shown = Shown::new();
    let mut random = Random::new(3);
    let mut client = shown.connect();
    let mut outcomes = [0; 2];
    for size in [0, 1, 2, 4095, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 17] {
        let bytes = write_chunk(&shown, &mut random, size);
        for _ in 0..60 {
            let (range, chosen) = draw_range(&mut random, &bytes);
            let header = format!("Range: {range}\r\n");
            client.send(&request("GET", &shown.target("7.zr"), "localhost", &header));
            let reply = client.reply(false).unwrap();
            let said = reply.header("Content-Range");
            outcomes[usize::from(chosen.is_some())] += 1;
            match chosen {
                Some(part) => {
                    assert_eq!(reply.status, 206, "{range} of {size}");
                    let expected = format!("bytes {}-{}/{size}", part.start, part.end - 1);
                    assert_eq!(said, Some(&*expected), "{range} of {size}");
                    assert!(reply.body == bytes[part], "{range} of {size}: other bytes");
                }
                None => {
                    assert_eq!(reply.status, 416, "{range} of {size}");
                    assert_eq!(said, Some(&*format!("bytes */{size}")));
                }
            }
        }
    }
    assert!(outcomes.iter().all(|count| *count > 50), "{outcomes:?}");
}

#[test]
fn what_is_no_single_range_is_answered_with_the_whole() {
    let shown = Shown::new();
    let bytes = shown.bytes("meta.zr");
    for header in [
        "",
        "Range: bytes=0-1,5-6\r\n",
        "Range: bytes=0-1, 4-\r\n",
        "Range: bytes=5-2\r\n",
        "Range: bytes=a-2\r\n",
        "Range: bytes=\r\n",
        "Range: bytes\r\n",
        "Range: records=0-1\r\n",
        "Range: bytes=0-1\r\nRange: bytes=2-3\r\n",
        "Range: bytes=0-1\r\nIf-Range: \"another\"\r\n",
        "Range: bytes=0-1\r\nIf-Range: Mon, 30 Nov 2026 07:28:00 GMT\r\n",
    ] {
        let reply = shown.get("meta.zr", header);
        assert_eq!((reply.status, reply.header("Content-Range")), (200, None), "{header}");
        assert_eq!(reply.header("Accept-Ranges"), Some("bytes"));
        assert!(reply.body == bytes, "{header}");
    }
}

#[test]
fn head_says_what_get_would_send() {
    let shown = Shown::new();
    let mut client = shown.connect();
    let mut ask = |method: &str, target: &str, headers: &str| -> Reply {
        client.send(&request(method, target, "localhost", headers));
        client.reply(method == "HEAD").unwrap()
    };
    let page = format!("/?token={}", shown.token);
    let missing = shown.target("9.zr");
    for target in [&page, &shown.target("meta.zr"), &shown.target("0.zr"), &missing] {
        let (head, get) = (ask("HEAD", target, ""), ask("GET", target, ""));
        let known = |reply: &Reply| {
            let headers = reply.headers.iter().filter(|(name, _)| name != "Date").cloned();
            (reply.status, headers.collect::<Vec<_>>())
        };
        assert_eq!(known(&head), known(&get), "{target}");
        assert_eq!(get.body.len() as u64, head.number("Content-Length"));
    }
    // Ranges are not defined for it.
    let head = ask("HEAD", &shown.target("0.zr"), "Range: bytes=0-1\r\n");
    let len = shown.bytes("0.zr").len() as u64;
    assert_eq!((head.status, head.number("Content-Length")), (200, len));
}

#[test]
fn a_changed_file_has_another_tag() {
    let shown = Shown::new();
    let path = shown.path.join("7.zr");
    let tag = || shown.get("7.zr", "Range: bytes=0-0\r\n").header("ETag").unwrap().to_owned();
    fs::write(&path, "first").unwrap();
    let mut tags = vec![tag()];
    assert_eq!(tag(), tags[0], "nothing has changed");
    let (is_tag, old) = (tags[0].starts_with('"') && tags[0].ends_with('"'), tags[0].clone());
    assert!(is_tag, "a strong tag, not {old}");
    // Of the same size, a moment later.
    let changed = fs::metadata(&path).unwrap().modified().unwrap() + Duration::from_nanos(100);
    fs::write(&path, "other").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(changed).unwrap();
    tags.push(tag());
    // Of the same size and time, but another file.
    fs::write(path.with_extension("new"), "third").unwrap();
    let new = fs::File::options().write(true).open(path.with_extension("new")).unwrap();
    new.set_modified(changed).unwrap();
    fs::rename(path.with_extension("new"), &path).unwrap();
    tags.push(tag());
    fs::write(&path, "longer than before").unwrap();
    tags.push(tag());
    for (position, tag) in tags.iter().enumerate() {
        assert!(!tags[..position].contains(tag), "{tags:?}");
    }
    let ask = |tag: &str| {
        let headers = format!("Range: bytes=0-1\r\nIf-Range: {tag}\r\n");
        shown.get("7.zr", &headers).status
    };
    assert_eq!((ask(&tags[3]), ask(&old)), (206, 200));
}

#[cfg(unix)]
#[test]
fn what_stands_in_the_place_of_a_file_is_refused() {
    use std::os::unix::fs::symlink;
    let shown = Shown::new();
    let outside = shown.path.with_file_name("secret");
    symlink(&outside, shown.path.join("1.zr")).unwrap();
    symlink("meta.zr", shown.path.join("2.zr")).unwrap();
    symlink("/nowhere", shown.path.join("3.zr")).unwrap();
    fs::create_dir(shown.path.join("4.zr")).unwrap();
    let made = std::process::Command::new("mkfifo").arg(shown.path.join("5.zr")).status().unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(shown.path.join("6.zr")).unwrap();
    for number in 1..=6 {
        let reply = shown.get(&format!("{number}.zr"), "");
        assert_eq!(reply.status, 403, "{number}.zr");
        assert!(!String::from_utf8_lossy(&reply.body).contains(SECRET));
        assert!(reply.body.ends_with(b"\n") && reply.body.len() < 100, "a line says why");
    }
}

/// What is at the path of the store by now is not what was opened.
#[cfg(unix)]
#[test]
fn a_folder_that_was_replaced_is_not_looked_into() {
    let shown = Shown::new();
    let before = shown.bytes("meta.zr");
    let moved = shown.path.with_file_name("moved");
    fs::rename(&shown.path, &moved).unwrap();
    let other = shown.path.with_file_name("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("meta.zr"), SECRET).unwrap();
    std::os::unix::fs::symlink(&other, &shown.path).unwrap();
    let reply = shown.get("meta.zr", "");
    assert!(reply.status == 200 && reply.body == before);
}

#[test]
fn all_names_of_files_are_served() {
    let shown = Shown::new();
    let names = ["schema.msgpack", "dict.zr", "dict.1.zr", "dict.255.zr", "4294967295.zr"];
    let new = ["meta.zr.new", "schema.msgpack.new", "dict.zr.new", "dict.3.zr.new"];
    for name in names.into_iter().chain(new) {
        assert_eq!(shown.get(name, "").status, 404, "{name}");
        fs::write(shown.path.join(name), name).unwrap();
        let reply = shown.get(name, "");
        assert_eq!((reply.status, &*reply.body), (200, name.as_bytes()));
    }
}
