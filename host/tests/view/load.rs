//! Many clients at once, bad ones among them, and the end.

use std::fs;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use zrecord_host::InspectorOptions;

use crate::client::{Client, Shown, request, sparse};

/// How many clients the server answers at once.
const THREADS: usize = 16;
/// Many more.
const MANY: usize = 40;

fn impatient() -> Shown {
    let mut options = InspectorOptions::default();
    options.patience = Duration::from_millis(300);
    Shown::with(&options)
}

#[test]
fn a_hundred_clients_at_once() {
    const CLIENTS: usize = 100;
    let shown = Arc::new(Shown::new());
    let bytes = shown.bytes("meta.zr");
    let barrier = Arc::new(Barrier::new(CLIENTS));
    let threads: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let (shown, barrier, bytes) = (Arc::clone(&shown), Arc::clone(&barrier), bytes.clone());
            thread::spawn(move || {
                let mut client = shown.connect();
                barrier.wait();
                for step in 0..10 {
                    let first = (number * 37 + step * 101) % (bytes.len() - 50);
                    let range = format!("Range: bytes={first}-{}\r\n", first + 49);
                    let text = request("GET", &shown.target("meta.zr"), "localhost", &range);
                    client.send(&text);
                    // One that was idle may have been given up for another.
                    let reply = client.reply(false).unwrap_or_else(|| {
                        client = shown.connect();
                        client.send(&text);
                        client.reply(false).unwrap()
                    });
                    assert_eq!(reply.status, 206);
                    assert!(reply.body == bytes[first..first + 50]);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

#[test]
fn requests_may_come_one_behind_the_other() {
    let shown = Shown::new();
    let mut client = shown.connect();
    let one = |name: &str| request("GET", &shown.target(name), "localhost", "");
    client.send(&format!("{}{}{}", one("meta.zr"), one("9.zr"), one("0.zr")));
    assert!(client.reply(false).unwrap().body == shown.bytes("meta.zr"));
    assert_eq!(client.reply(false).unwrap().status, 404);
    assert!(client.reply(false).unwrap().body == shown.bytes("0.zr"));
    client.send(&request("GET", &shown.target("0.zr"), "localhost", "Connection: close\r\n"));
    assert_eq!(client.reply(false).unwrap().header("Connection"), Some("close"));
    assert!(client.rest().is_empty());
}

/// More clients than threads that keep connections they do not use, as
/// browsers do.
#[test]
fn idle_clients_keep_nobody_out() {
    let shown = Shown::new();
    let text = request("GET", &shown.target("0.zr"), "localhost", "");
    let idle: Vec<Client> = (0..MANY)
        .map(|_| {
            let mut client = shown.connect();
            client.send(&text);
            assert_eq!(client.reply(false).unwrap().status, 200);
            client
        })
        .collect();
    assert_eq!(shown.get("0.zr", "").status, 200);
    drop(idle);
}

/// Clients that send nothing, a part, or drop by drop, each kind more than
/// there are threads.
#[test]
fn slow_clients_are_given_up() {
    let shown = impatient();
    let group = || (0..THREADS + 1).map(|_| shown.connect()).collect::<Vec<Client>>();
    let (mut silent, mut partial, mut dripping) = (group(), group(), group());
    partial.iter_mut().for_each(|client| client.send("GET / HTT"));
    let drops = thread::spawn(move || {
        for byte in "GET /?x HTTP/1.1\r\nA: ".bytes().chain(std::iter::repeat(b'x')) {
            let sent = dripping.iter_mut().map(|client| client.try_send(&[byte]));
            if sent.filter(Result::is_ok).count() == 0 {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(shown.get("0.zr", "").status, 200);
    drops.join().unwrap();
    for client in silent.iter_mut().chain(&mut partial) {
        assert!(client.rest().is_empty(), "nothing is answered to what is no request");
    }
}

/// Clients that ask for much and take nothing of it.
#[test]
fn clients_that_take_nothing_are_given_up() {
    let shown = impatient();
    sparse(&shown.path.join("7.zr"), 1 << 26);
    let mut greedy: Vec<Client> = (0..MANY).map(|_| shown.connect()).collect();
    for client in &mut greedy {
        client.send(&request("GET", &shown.target("7.zr"), "localhost", ""));
    }
    // It is the last in turn: of those before it, some may still have a thread.
    assert_eq!(shown.get("0.zr", "").status, 200);
    let is_cut = |client: &mut Client| {
        let len = client.head().unwrap().number("Content-Length");
        (client.rest().len() as u64) < len
    };
    let cut = greedy.iter_mut().map(is_cut).filter(|cut| *cut).count();
    assert!(cut > MANY - THREADS, "only {cut} of {MANY} were given up");
}

#[test]
fn heads_are_bounded() {
    let shown = Shown::new();
    let target = shown.target("0.zr");
    let long = "x".repeat(40 << 10);
    for text in [
        request("GET", &target, "localhost", &format!("A: {long}\r\n")),
        request("GET", &format!("{target}&{long}"), "localhost", ""),
        request("GET", &target, "localhost", &"A: b\r\n".repeat(100)),
        format!("{long}{long}"),
    ] {
        let mut client = shown.connect();
        // It may be told before it has said everything.
        let _ = client.try_send(text.as_bytes());
        assert_eq!(client.reply(false).unwrap().status, 431);
        assert!(client.rest().is_empty());
    }
    let mut client = shown.connect();
    client.send(&request("GET", &target, "localhost", &format!("A: {}\r\n", &long[..8 << 10])));
    assert_eq!(client.reply(false).unwrap().status, 200);
}

#[test]
fn what_is_no_request_is_told_so() {
    let shown = Shown::new();
    for text in
        ["\x16\x03\x01\x02\x00\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "hello\r\n\r\n"]
    {
        let mut client = shown.connect();
        client.send(text);
        assert_eq!(client.reply(false).unwrap().status, 400, "{text:?}");
        assert!(client.rest().is_empty());
    }
    assert_eq!(shown.get("0.zr", "").status, 200);
}

/// The server had promised more than is left: the client must see that.
#[test]
fn a_file_that_is_cut_ends_its_answer() {
    let shown = Shown::new();
    let path = shown.path.join("7.zr");
    for _ in 0..20 {
        sparse(&path, 1 << 26);
        let mut client = shown.connect();
        client.send(&request("GET", &shown.target("7.zr"), "localhost", ""));
        let len = client.head().unwrap().number("Content-Length");
        assert_eq!(len, 1 << 26);
        fs::File::options().write(true).open(&path).unwrap().set_len(1 << 20).unwrap();
        assert!((client.rest().len() as u64) < len);
    }
    let reply = shown.get("7.zr", "Range: bytes=1048575-\r\n");
    assert_eq!((reply.status, reply.body), (206, vec![0]));
}

#[test]
fn the_end_is_the_end() {
    let shown = Shown::new();
    let mut idle = shown.connect();
    idle.send(&request("GET", &shown.target("0.zr"), "localhost", ""));
    assert_eq!(idle.reply(false).unwrap().status, 200);
    let mut partial = shown.connect();
    partial.send("GET /");
    drop(shown);
    assert!(idle.rest().is_empty() && partial.rest().is_empty());
}
