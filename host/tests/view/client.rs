//! A client that sends what it is told, right or wrong.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;
use zrecord_host::{Format, Inspector, InspectorOptions};

use crate::support::{Random, append, writable};

/// What must never be sent.
pub const SECRET: &str = "nobody may read this";

/// A store among things that nobody may see, and an inspector of it.
pub struct Shown {
    pub inspector: Inspector,
    pub path: PathBuf,
    pub token: String,
    _guard: TempDir,
}

impl Shown {
    pub fn new() -> Self {
        Self::with(&InspectorOptions::default())
    }

    pub fn with(options: &InspectorOptions) -> Self {
        let guard = tempfile::tempdir().unwrap();
        let path = guard.path().join("a store");
        let store = writable(Format::Extended).open(&path).unwrap();
        append(&store, &[vec![1; 500], vec![2; 300]]);
        store.close().unwrap();
        for name in ["notes.txt", "secret.zr", ".hidden", "lock.zr"] {
            fs::write(path.join(name), SECRET).unwrap();
        }
        fs::write(guard.path().join("secret"), SECRET).unwrap();
        fs::create_dir(path.join("sub")).unwrap();
        fs::write(path.join("sub/meta.zr"), SECRET).unwrap();
        let inspector = Inspector::start(&path, options).unwrap();
        let address = inspector.address();
        let token = address.split("token=").nth(1).unwrap().split('#').next().unwrap().to_owned();
        Self { inspector, path, token, _guard: guard }
    }

    /// The bytes of a file of the store.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path.join(name)).unwrap()
    }

    pub fn connect(&self) -> Client {
        Client::to(self.inspector.port())
    }

    /// The target of a file's request, token and all.
    pub fn target(&self, name: &str) -> String {
        format!("/a%20store/{name}?token={}", self.token)
    }

    /// Asks as a browser does, with more headers.
    pub fn get(&self, name: &str, headers: &str) -> Reply {
        self.ask("GET", &self.target(name), "127.0.0.1", headers)
    }

    pub fn ask(&self, method: &str, target: &str, host: &str, headers: &str) -> Reply {
        let mut client = self.connect();
        client.send(&request(method, target, host, headers));
        client.reply(method == "HEAD").unwrap()
    }
}

pub fn request(method: &str, target: &str, host: &str, headers: &str) -> String {
    format!("{method} {target} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n")
}

/// A number below the limit.
pub fn draw(random: &mut Random, limit: usize) -> usize {
    usize::try_from(random.below(limit as u64)).unwrap()
}

/// Writes a file of that many bytes, most of which take no space.
pub fn sparse(path: &Path, size: u64) {
    fs::File::create(path).unwrap().set_len(size).unwrap();
}

pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

impl Client {
    pub fn to(port: u16) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        // So that a server which never answers fails the test.
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { stream, received: Vec::new() }
    }

    pub fn send(&mut self, text: &str) {
        self.try_send(text.as_bytes()).unwrap();
    }

    pub fn try_send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes)
    }

    /// False at the end, whether the server closed or broke off.
    fn receive(&mut self) -> bool {
        let mut bytes = vec![0; 64 << 10];
        match self.stream.read(&mut bytes) {
            Ok(len) => {
                self.received.extend_from_slice(&bytes[..len]);
                len > 0
            }
            Err(error) if error.kind() == ErrorKind::ConnectionReset => false,
            Err(error) => panic!("the server neither answers nor closes: {error}"),
        }
    }

    /// The next answer; what the server closed before its end is none.
    pub fn reply(&mut self, head_only: bool) -> Option<Reply> {
        let mut reply = self.head()?;
        let len = if head_only { 0 } else { reply.number("Content-Length") };
        while (self.received.len() as u64) < len {
            if !self.receive() {
                return None;
            }
        }
        reply.body = self.received.drain(..usize::try_from(len).unwrap()).collect();
        Some(reply)
    }

    /// The next head, without what follows it.
    pub fn head(&mut self) -> Option<Reply> {
        let end = loop {
            match self.received.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(end) => break end,
                None if self.receive() => {}
                None => return None,
            }
        };
        let head = String::from_utf8(self.received.drain(..end + 4).collect()).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().strip_prefix("HTTP/1.1 ").unwrap();
        let headers = lines.map(|line| line.split_once(": ").unwrap());
        Some(Reply {
            status: status[..3].parse().unwrap(),
            headers: headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
            body: Vec::new(),
        })
    }

    /// Everything up to the end of the connection.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.receive() {}
        std::mem::take(&mut self.received)
    }
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| &**value);
        assert!(found.next().is_none(), "{name} comes twice");
        value
    }

    pub fn number(&self, name: &str) -> u64 {
        self.header(name).unwrap().parse().unwrap()
    }
}
