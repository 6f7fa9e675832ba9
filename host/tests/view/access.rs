//! Who is answered, and what can be reached.

use crate::client::{Reply, SECRET, Shown, draw, request};
use crate::support::Random;

/// The page, as it is built.
const PAGE: &[u8] = include_bytes!("../../../web/dist/zrecord-view.html");

fn assert_keeps_to_itself(reply: &Reply, of: &str) {
    for (name, value) in [
        ("Cache-Control", "no-store"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
        ("Content-Security-Policy", "frame-ancestors 'none'"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
    ] {
        assert_eq!(reply.header(name), Some(value), "{of}");
    }
    assert_eq!(reply.header("Content-Encoding"), None);
    assert_eq!(reply.header("Access-Control-Allow-Origin"), None);
    assert!(reply.header("Date").is_some_and(|date| date.ends_with("GMT")));
    let holds = reply.body.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    assert!(!holds, "{of} gives away what is nobody's business");
}

fn assert_refused(reply: &Reply, status: u16, of: &str) {
    assert_eq!(reply.status, status, "{of}");
    assert_eq!(reply.header("Content-Type"), Some("text/plain; charset=utf-8"));
    assert_keeps_to_itself(reply, of);
    assert!(reply.body.len() < 200, "{of}");
}

#[test]
fn the_page_and_the_files_of_the_store() {
    let shown = Shown::new();
    let page = shown.ask("GET", &format!("/?token={}", shown.token), "localhost:1", "");
    assert_eq!((page.status, page.header("Content-Type")), (200, Some("text/html; charset=utf-8")));
    assert!(page.body == PAGE, "another page than the one that is built");
    assert_keeps_to_itself(&page, "the page");
    for name in ["meta.zr", "0.zr"] {
        let file = shown.get(name, "");
        assert_eq!((file.status, file.body == shown.bytes(name)), (200, true), "{name}");
        assert_eq!(file.header("Content-Type"), Some("application/octet-stream"));
        assert_keeps_to_itself(&file, name);
    }
    let absent = shown.get("schema.msgpack", "");
    assert_refused(&absent, 404, "a file that the store does not have");
}

#[test]
fn the_page_that_is_built_asks_nobody_else_for_anything() {
    let text = std::str::from_utf8(PAGE).unwrap();
    let policy = text.split("Content-Security-Policy\" content=\"").nth(1).unwrap();
    let policy = policy.split('"').next().unwrap();
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
    assert!(policy.contains("connect-src 'self'") && !policy.contains("unsafe-inline"));
}

#[test]
fn without_the_token_there_is_nothing() {
    let shown = Shown::new();
    let token = &shown.token;
    assert_eq!(token.len(), 32);
    let upper = token.to_uppercase();
    let mut wrong = token.clone();
    let last = if wrong.ends_with('0') { "1" } else { "0" };
    wrong.replace_range(31.., last);
    let queries = [
        String::new(),
        "?".into(),
        "?token".into(),
        "?token=".into(),
        format!("?token={wrong}"),
        format!("?token={}", &token[..31]),
        format!("?token={token}0"),
        format!("?token={token}%00"),
        format!("?token= {token}").replace(' ', "+"),
        format!("?Token={token}"),
        format!("?x=token={token}"),
        format!("?{token}"),
        format!("?token={wrong}&token={token}"),
        format!("#token={token}"),
        if upper == *token { "?token=x".into() } else { format!("?token={upper}") },
    ];
    for query in &queries {
        for path in ["/", "/a%20store/meta.zr", "/a%20store/0.zr", "/nothing", "/../secret"] {
            for method in ["GET", "HEAD", "POST"] {
                let target = format!("{path}{query}");
                let reply = shown.ask(method, &target, "localhost", "");
                let of = format!("{method} {target}");
                if method == "HEAD" {
                    assert_eq!(reply.status, 403, "{of}");
                } else {
                    assert_refused(&reply, 403, &of);
                }
            }
        }
    }
    let elsewhere =
        format!("X-Token: {token}\r\nCookie: token={token}\r\nReferer: /?token={token}\r\n");
    assert_refused(&shown.ask("GET", "/", "localhost", &elsewhere), 403, "headers");
}

#[test]
fn two_inspectors_have_two_tokens() {
    let (one, other) = (Shown::new(), Shown::new());
    assert_ne!(one.token, other.token);
    let target = other.target("meta.zr");
    assert_refused(&one.ask("GET", &target, "localhost", ""), 403, "another's token");
}

/// A name of somebody else's that leads here is no name of this machine, even
/// when the token is known.
#[test]
fn other_names_of_this_machine_are_refused() {
    let shown = Shown::new();
    let port = shown.inspector.port();
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("localhost.evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        format!("0.0.0.0:{port}"),
        "192.168.0.1".into(),
        String::new(),
    ] {
        for target in [format!("/?token={}", shown.token), shown.target("meta.zr")] {
            assert_refused(&shown.ask("GET", &target, &host, ""), 403, &host);
        }
    }
    let target = format!("http://evil.example{}", shown.target("meta.zr"));
    assert_refused(&shown.ask("GET", &target, "localhost", ""), 403, &target);
    // Through a tunnel the port is another.
    for host in [format!("127.0.0.1:{port}"), "localhost:9".into(), "[::1]:9".into()] {
        assert_eq!(shown.ask("GET", &shown.target("meta.zr"), &host, "").status, 200, "{host}");
    }
}

#[test]
fn nothing_is_done_but_looking() {
    let shown = Shown::new();
    for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "GETS"] {
        for target in [format!("/?token={}", shown.token), shown.target("meta.zr")] {
            let body = "Content-Length: 5\r\n";
            let mut client = shown.connect();
            client.send(&format!("{}hello", request(method, &target, "localhost", body)));
            let reply = client.reply(false).unwrap();
            assert_refused(&reply, 405, method);
            assert_eq!(reply.header("Allow"), Some("GET, HEAD"));
            assert!(client.rest().is_empty(), "a body is no request");
        }
    }
    assert_eq!(shown.bytes("notes.txt"), SECRET.as_bytes());
}

const ELSEWHERE: [&str; 34] = [
    "/a%20store",
    "/a%20store/",
    "/a store/meta.zr",
    "/a+store/meta.zr",
    "/A%20store/meta.zr",
    "/meta.zr",
    "//a%20store/meta.zr",
    "/a%20store//meta.zr",
    "/./a%20store/meta.zr",
    "/a%20store/./meta.zr",
    "/a%20store/meta.zr/",
    "/a%20store/META.ZR",
    "/a%20store/meta.zr%00",
    "/a%20store/m%65ta.zr",
    "/a%20store/..",
    "/a%20store/../secret",
    "/a%20store/..%2fsecret",
    "/a%20store/%2e%2e/secret",
    "/a%20store/%2e%2e%2fsecret",
    "/a%20store/..%5csecret",
    "/a%20store/..%c0%afsecret",
    "/a%20store/sub/meta.zr",
    "/a%20store/sub%2fmeta.zr",
    "/a%20store/notes.txt",
    "/a%20store/secret.zr",
    "/a%20store/.hidden",
    "/a%20store/lock.zr",
    "/a%20store/00.zr",
    "/a%20store/+0.zr",
    "/a%20store/4294967296.zr",
    "/a%20store/dict.0.zr",
    "/a%20store/dict.256.zr",
    "/index.html",
    "/zrecord-view.html",
];

#[test]
fn nothing_else_is_reachable() {
    let shown = Shown::new();
    for path in ELSEWHERE {
        let target = format!("{path}?token={}", shown.token);
        let reply = shown.ask("GET", &target, "localhost", "");
        // A space ends the target, so that is no request at all.
        let status = if path.contains(' ') { 400 } else { 404 };
        assert_refused(&reply, status, path);
    }
    for path in ["/etc/passwd", "/proc/self/environ", "//etc/passwd"] {
        for before in ["", "/a%20store", "/a%20store/../../../../../..", "file://"] {
            let target = format!("{before}{path}?token={}", shown.token);
            assert!(shown.ask("GET", &target, "localhost", "").status >= 400, "{target}");
        }
    }
}

/// Paths drawn out of what paths are made of: whatever is answered is the page
/// or a file of the store.
#[test]
fn whatever_is_asked_for_only_the_store_is_answered() {
    const PARTS: [&str; 16] = [
        "/",
        "/",
        "..",
        ".",
        "a%20store",
        "a%20store/",
        "meta.zr",
        "0.zr",
        "secret",
        "sub",
        "%2f",
        "%2e",
        "lock.zr",
        "notes.txt",
        "//",
        "%00",
    ];
    let shown = Shown::new();
    let mut random = Random::new(11);
    let mut found = 0;
    let mut client = shown.connect();
    for _ in 0..3000 {
        let parts = 1 + random.below(5);
        let path: String = (0..parts).map(|_| PARTS[draw(&mut random, PARTS.len())]).collect();
        let target = format!("/{path}?token={}", shown.token);
        client.send(&request("GET", &target, "localhost", ""));
        let reply = client.reply(false).unwrap();
        assert_keeps_to_itself(&reply, &path);
        let expected = match &*path {
            "a%20store/meta.zr" => Some(shown.bytes("meta.zr")),
            "a%20store/0.zr" => Some(shown.bytes("0.zr")),
            _ => None,
        };
        match expected {
            Some(bytes) => assert!(reply.status == 200 && reply.body == bytes, "{path}"),
            None => assert_eq!(reply.status, 404, "{path}"),
        }
        found += u32::from(reply.status == 200);
    }
    assert!(found > 0, "some paths are right by chance");
}
