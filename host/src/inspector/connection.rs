//! One client: what it sends and what it takes, against the clock.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use super::answer::Status;
use super::request::{Parsed, Request};
use super::server::State;

/// The longest head of a request, in bytes; what a browser sends has about one
/// thousand.
const HEAD_MAX: usize = 16 << 10;
/// How long nothing else is looked at while a client does nothing.
const PAUSE: Duration = Duration::from_millis(50);
/// How long a client is listened to that was told to go.
const PARTING: Duration = Duration::from_secs(1);

/// A connection to a client.
pub struct Connection<'a> {
    stream: TcpStream,
    state: &'a State,
    patience: Duration,
    /// What came and was not looked at.
    received: Vec<u8>,
    is_new: bool,
}

impl<'a> Connection<'a> {
    pub fn new(stream: TcpStream, state: &'a State, patience: Duration) -> io::Result<Self> {
        // Heads are not held back for bodies to come along.
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PAUSE))?;
        stream.set_write_timeout(Some(PAUSE))?;
        Ok(Self { stream, state, patience, received: Vec::new(), is_new: true })
    }

    /// The next request, or what is wrong with it; nothing when the client has
    /// gone, is too slow, or is idle while others wait.
    pub fn request(&mut self) -> io::Result<Option<Result<Request, Status>>> {
        let deadline = Instant::now() + self.patience;
        loop {
            match Request::parse(&self.received) {
                Parsed::Whole(request, len) => {
                    self.received.drain(..len);
                    self.is_new = false;
                    return Ok(Some(Ok(request)));
                }
                Parsed::Malformed => return Ok(Some(Err(Status::BadRequest))),
                Parsed::TooLarge => return Ok(Some(Err(Status::HeadTooLarge))),
                Parsed::Partial if self.received.len() >= HEAD_MAX => {
                    return Ok(Some(Err(Status::HeadTooLarge)));
                }
                Parsed::Partial => {}
            }
            let is_idle = !self.is_new && self.received.is_empty();
            if !self.receive(deadline, is_idle)? {
                return Ok(None);
            }
        }
    }

    /// Waits for bytes; false when there are no more to be waited for.
    fn receive(&mut self, deadline: Instant, is_idle: bool) -> io::Result<bool> {
        let mut bytes = [0; 4096];
        while Instant::now() < deadline && !self.state.has_ended() {
            match self.stream.read(&mut bytes) {
                Ok(0) => return Ok(false),
                Ok(len) => {
                    self.received.extend_from_slice(&bytes[..len]);
                    return Ok(true);
                }
                Err(error) if is_pause(&error) => {
                    if is_idle && self.state.has_waiting() {
                        return Ok(false);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Sends all of the bytes.
    pub fn send(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        let deadline = Instant::now() + self.patience;
        while !bytes.is_empty() {
            if Instant::now() >= deadline || self.state.has_ended() {
                return Err(ErrorKind::TimedOut.into());
            }
            match self.stream.write(bytes) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(len) => bytes = &bytes[len..],
                Err(error) if is_pause(&error) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Ends it. Whatever the client still sends is read for a moment: were it
    /// not, the system would take back the answer that is on its way.
    pub fn finish(mut self) -> io::Result<()> {
        self.stream.shutdown(Shutdown::Write)?;
        let deadline = Instant::now() + PARTING;
        while self.receive(deadline, false)? {
            self.received.clear();
        }
        Ok(())
    }
}

/// Nothing has happened for a while.
fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}
