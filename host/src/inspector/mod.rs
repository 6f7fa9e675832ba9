//! The inspector on loopback: the page of `web/`, and one store that it is
//! shown. In builds with the feature `view`.
//!
//! ```no_run
//! use zrecord_host::inspector::{Inspector, InspectorOptions};
//!
//! let inspector = Inspector::start("from-somebody.zr", &InspectorOptions::default())?;
//! println!("{}", inspector.address());
//! std::thread::park(); // It answers until it is dropped.
//! # Ok::<(), zrecord_host::Error>(())
//! ```
//!
//! The page does all of the work, in the browser. What is here hands out bytes
//! and keeps everything else back:
//!
//! - It listens on 127.0.0.1 and answers requests that name this machine as
//!   their host and carry the token of the address, GET and HEAD alone. A
//!   browser that is started here shows a ticket first, which is good for once.
//! - There are two kinds of paths: the page, and `/NAME/FILE`, where NAME is
//!   that of the store and FILE one of the names that files of a store have.
//!   Nothing that a client sends becomes a path of the file system.
//! - Files are regular ones in the directory that was opened at the start, read
//!   by position and never mapped: one that is cut ends its answer.
//!
//! | module | holds |
//! | --- | --- |
//! | `server` | the socket, and the threads that answer |
//! | `connection` | bytes of one client, against the clock |
//! | `request` | what was asked for, as far as HTTP says it |
//! | `rules` | who is answered, and with what |
//! | `answer`, `range` | status, head and body |
//! | `folder` | the files of the store |
//! | `token` | the secrets in addresses |

use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, Result};

mod answer;
mod connection;
mod folder;
mod range;
mod request;
mod rules;
mod server;
mod token;

use folder::Folder;
use rules::Rules;
use server::Server;
use token::Token;

/// How a store is shown.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct InspectorOptions {
    /// The port of 127.0.0.1 to listen on; 0, which is the default, takes one
    /// that is free.
    pub port: u16,
    /// The record that the page shows first.
    pub record: u64,
    /// How long a client may take to send the head of a request, and to take
    /// the next [`BLOCK`] bytes of an answer; 10 s unless given.
    pub patience: Duration,
}

/// How much of a file is read and sent at once, in bytes.
pub const BLOCK: usize = 256 << 10;

/// How soon what starts a browser fails, if it does.
const LAUNCH: Duration = Duration::from_secs(1);

impl Default for InspectorOptions {
    fn default() -> Self {
        Self { port: 0, record: 0, patience: Duration::from_secs(10) }
    }
}

/// A page that looks into one store, served until this is dropped.
#[derive(Debug)]
pub struct Inspector {
    address: String,
    port: u16,
    server: Server,
}

impl Inspector {
    /// Serves the page and the store at `path` on 127.0.0.1.
    ///
    /// A damaged store is served as well: what is wrong with it is what the
    /// page is to show.
    ///
    /// # Errors
    ///
    /// When `path` is no directory with a `meta.zr` in it that can be read, or
    /// when the port is taken.
    pub fn start(path: impl AsRef<Path>, options: &InspectorOptions) -> Result<Self> {
        let path = path.as_ref();
        let folder = Folder::open(path)?;
        let token = Token::draw().map_err(Error::io(path))?;
        let listener = listen(options.port).map_err(Error::io(path))?;
        let port = listener.local_addr().map_err(Error::io(path))?.port();
        let place = place(path);
        let page = format!("/?token={token}#url={place}?token={token}&record={}", options.record);
        let address = format!("http://127.0.0.1:{port}{page}");
        let rules = Rules::new(folder, place, page, token);
        let server = Server::start(listener, rules, options.patience).map_err(Error::io(path))?;
        Ok(Self { address, port, server })
    }

    /// The address of the page, with the token and the store in it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The port that it listens on.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What to tell a person: the address on a line of its own, and how to
    /// reach it from another machine.
    pub fn invitation(&self) -> String {
        let Self { address, port, .. } = self;
        format!(
            "{address}\n(from another machine: `ssh -L {port}:127.0.0.1:{port} HOST` there, then \
             the same address; Ctrl-C ends it)"
        )
    }

    /// Opens the page in the browser of whoever runs this.
    ///
    /// The browser is given an address that works once and leads to the page:
    /// every user of a machine may see what its programs are started with.
    ///
    /// # Errors
    ///
    /// When there is none that could be started.
    pub fn open_browser(&self) -> io::Result<()> {
        let ticket = self.server.rules().issue_ticket()?;
        let address = format!("http://127.0.0.1:{}/?ticket={ticket}", self.port);
        open::that_detached_with_timeout(address, LAUNCH)
    }
}

fn listen(port: u16) -> io::Result<TcpListener> {
    TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::AddrInUse => "another program listens on it; take another port, or 0",
            io::ErrorKind::PermissionDenied => "it takes more rights than this program has",
            _ => return error,
        };
        io::Error::new(error.kind(), format!("port {port}: {reason}"))
    })
}

/// What needs no escape in a segment of a path.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// Where the store lies on the server: named as its folder is, since the page
/// takes a store's name from its address.
fn place(path: &Path) -> String {
    let whole = path.canonicalize().unwrap_or_else(|_| path.into());
    let name = whole.file_name().map_or("store".into(), |name| name.to_string_lossy());
    format!("/{}", utf8_percent_encode(&name, PLAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_the_name_of_its_folder() {
        assert_eq!(place(Path::new("/no/such/store.zr")), "/store.zr");
        assert_eq!(place(Path::new("/no/such/a b&c?d#é%2e")), "/a%20b%26c%3Fd%23%C3%A9%252e");
        assert_eq!(place(Path::new("/")), "/store");
    }
}
