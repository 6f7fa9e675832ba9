//! The socket, and the threads that answer.
//!
//! One thread takes connections and queues them, a few answer them, each one
//! client at a time. A browser keeps connections that it does not use; such a
//! one is given up as soon as another client waits.

use std::io;
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::answer::{Answer, Status};
use super::connection::Connection;
use super::request::Method;
use super::rules::Rules;

/// A browser asks for six things at once.
const THREADS: usize = 16;
/// How many clients wait in here; more wait in the system.
const QUEUE: usize = 128;
/// Until more connections are taken when the system has no room for one.
const BREATH: Duration = Duration::from_millis(50);

/// What the threads know of each other.
#[derive(Debug, Default)]
pub struct State {
    waiting: AtomicUsize,
    ended: AtomicBool,
}

impl State {
    /// Whether a client waits for a thread.
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Whether nobody is to be answered any more.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

/// What a thread needs to answer.
#[derive(Debug)]
struct Desk {
    rules: Rules,
    patience: Duration,
    state: State,
}

/// A server, until it is dropped.
#[derive(Debug)]
pub struct Server {
    desk: Arc<Desk>,
    address: SocketAddr,
    threads: Vec<JoinHandle<()>>,
    /// The process whose threads they are.
    process: u32,
}

impl Server {
    pub fn start(listener: TcpListener, rules: Rules, patience: Duration) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let desk = Arc::new(Desk { rules, patience, state: State::default() });
        let (sender, receiver) = sync_channel(QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        // Made first, so that its end ends those threads that could be started.
        let mut server = Self { desk, address, threads: Vec::new(), process: process::id() };
        for _ in 0..THREADS {
            let (desk, receiver) = (Arc::clone(&server.desk), Arc::clone(&receiver));
            server.spawn(move || desk.work(&receiver))?;
        }
        let desk = Arc::clone(&server.desk);
        server.spawn(move || desk.welcome(&listener, &sender))?;
        Ok(server)
    }

    /// What it answers by.
    pub fn rules(&self) -> &Rules {
        &self.desk.rules
    }

    fn spawn(&mut self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = thread::Builder::new().name("zrecord-view".into()).spawn(work)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A forked child has the socket, but none of the threads.
        if process::id() != self.process {
            self.threads.drain(..).for_each(mem::forget);
            return;
        }
        self.desk.state.ended.store(true, Ordering::Relaxed);
        // Whoever waits for a connection is given one to look up.
        drop(TcpStream::connect(self.address));
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Desk {
    /// Takes connections, until the end.
    fn welcome(&self, listener: &TcpListener, sender: &SyncSender<TcpStream>) {
        for stream in listener.incoming() {
            if self.state.has_ended() {
                return;
            }
            let Ok(stream) = stream else {
                thread::sleep(BREATH);
                continue;
            };
            self.state.waiting.fetch_add(1, Ordering::Relaxed);
            if sender.send(stream).is_err() {
                return;
            }
        }
    }

    /// Answers one client after the other, until no more can come.
    fn work(&self, receiver: &Mutex<Receiver<TcpStream>>) {
        loop {
            let next = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok(stream) = next else { return };
            self.state.waiting.fetch_sub(1, Ordering::Relaxed);
            if let Err(error) = self.converse(stream) {
                log::debug!("a client of the inspector: {error}");
            }
        }
    }

    fn converse(&self, stream: TcpStream) -> io::Result<()> {
        let mut connection = Connection::new(stream, &self.state, self.patience)?;
        while let Some(request) = connection.request()? {
            let (answer, head_only, stays) = match &request {
                Ok(request) => {
                    let head_only = request.method == Method::Head;
                    (self.rules.answer(request), head_only, request.keeps_alive)
                }
                Err(status) => (malformed(*status), false, false),
            };
            answer.send(&mut connection, head_only, stays)?;
            if !stays {
                return connection.finish();
            }
        }
        Ok(())
    }
}

fn malformed(status: Status) -> Answer {
    let text = match status {
        Status::HeadTooLarge => "That is more than any browser says of itself.",
        _ => "That is no request.",
    };
    Answer::text(status, text)
}
