//! `zrecord view`: what it says, what it opens and how it ends.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![cfg(unix)]

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

mod support;
use support::{copy_golden, fresh, golden};

fn zrecord(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_zrecord")).args(arguments).output().unwrap()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The command, which hears Ctrl-C also where these tests run in the background
/// of a shell: that ignores it, and hands that down.
fn listening() -> Command {
    const COMMAND: &str = env!("CARGO_BIN_EXE_zrecord");
    if !cfg!(target_os = "linux") {
        return Command::new(COMMAND);
    }
    let mut command = Command::new("/usr/bin/env");
    command.args(["--default-signal=INT", COMMAND]);
    command
}

/// A command that serves, until it is dropped.
struct Viewing {
    child: Child,
    out: BufReader<ChildStdout>,
    err: ChildStderr,
    address: String,
}

impl Viewing {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let err = child.stderr.take().unwrap();
        let mut address = String::new();
        out.read_line(&mut address).unwrap();
        Self { child, out, err, address: address.trim_end().to_owned() }
    }

    fn of(path: &Path, arguments: &[&str]) -> Self {
        let mut command = listening();
        Self::start(command.arg("view").arg(path).arg("--no-browser").args(arguments))
    }

    fn port(&self) -> u16 {
        let rest = self.address.strip_prefix("http://127.0.0.1:").unwrap();
        rest.split('/').next().unwrap().parse().unwrap()
    }

    fn token(&self) -> &str {
        self.address.rsplit("token=").next().unwrap().split('&').next().unwrap()
    }

    /// Whether a path, with the token, is answered by a file.
    fn status(&self, path: &str) -> String {
        let mut client = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        let token = self.token();
        write!(client, "HEAD {path}?token={token} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(client).read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    /// Where a path leads to, if it leads anywhere.
    fn location(&self, path: &str) -> Option<String> {
        let mut client = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        write!(client, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
        let mut reply = String::new();
        client.read_to_string(&mut reply).unwrap();
        let location = reply.split("\r\nLocation: ").nth(1)?;
        assert!(reply.starts_with("HTTP/1.1 303 See Other\r\n"), "{reply}");
        location.split("\r\n").next().map(str::to_owned)
    }

    /// Ends it as Ctrl-C does; what it said besides.
    fn interrupt(mut self) -> (std::process::ExitStatus, String, String) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
        let status = self.child.wait().unwrap();
        let (mut out, mut err) = (String::new(), String::new());
        self.out.read_to_string(&mut out).unwrap();
        self.err.read_to_string(&mut err).unwrap();
        (status, out, err)
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        // One that has ended already cannot be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn it_prints_the_address_and_ctrl_c_ends_it() {
    let viewing = Viewing::of(&golden().join("dense_zstd_dict"), &["--record", "17"]);
    let (port, token) = (viewing.port(), viewing.token().to_owned());
    assert_eq!(
        viewing.address,
        format!(
            "http://127.0.0.1:{port}/?token={token}\
             #url=/dense_zstd_dict?token={token}&record=17"
        )
    );
    for path in ["/", "/dense_zstd_dict/meta.zr", "/dense_zstd_dict/dict.zr"] {
        assert_eq!(viewing.status(path), "HTTP/1.1 200 OK", "{path}");
    }
    assert_eq!(viewing.status("/dense_zstd_dict/notes"), "HTTP/1.1 404 Not Found");
    let (status, out, err) = viewing.interrupt();
    // As a shell knows it, 130.
    assert_eq!(status.signal(), Some(2));
    assert_eq!(err, "");
    assert_eq!(out.lines().count(), 1, "{out}");
    assert!(out.contains(&format!("ssh -L {port}:127.0.0.1:{port}")), "{out}");
}

#[test]
fn the_port_may_be_chosen_once() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let store = golden().join("dense_raw");
    let output = zrecord(&["view", text(&store), "--no-browser", "--port", &port]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains(&format!("port {port}: another program listens on it")), "{said}");
    assert!(output.stdout.is_empty());
    drop(taken);
    let viewing = Viewing::of(&store, &["--port", &port]);
    assert_eq!(viewing.port().to_string(), port);
    assert_eq!(viewing.status("/dense_raw/meta.zr"), "HTTP/1.1 200 OK");
}

#[test]
fn what_is_no_store_is_refused_in_one_line() {
    let (_guard, path) = fresh();
    let folder = path.parent().unwrap();
    let (empty, file) = (folder.join("empty"), folder.join("file"));
    fs::create_dir(&empty).unwrap();
    fs::write(empty.join("0.zr"), "a chunk alone").unwrap();
    fs::write(&file, "text").unwrap();
    let (linked, strange) = (folder.join("linked"), folder.join("strange"));
    fs::create_dir(&linked).unwrap();
    symlink(golden().join("dense_raw/meta.zr"), linked.join("meta.zr")).unwrap();
    fs::create_dir_all(strange.join("meta.zr")).unwrap();
    for (path, reason) in [
        (&path, "meta.zr: No such file or directory"),
        (&empty, "there is no meta.zr in it"),
        (&file, "it is not a folder"),
        (&linked, "meta.zr: it is a symbolic link"),
        (&strange, "meta.zr: it is not a regular file"),
    ] {
        let output = zrecord(&["view", text(path), "--no-browser"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.starts_with(&format!("zrecord: {}: ", path.display())), "{said}");
        assert!(said.contains(reason) && said.lines().count() == 1, "{said}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_damaged_store_and_a_link_to_one_are_shown() {
    let (_guard, path) = fresh();
    copy_golden("dense_zstd", &path);
    fs::write(path.join("meta.zr"), "nothing of a store").unwrap();
    let link = path.with_file_name("link");
    symlink(&path, &link).unwrap();
    for path in [&path, &link] {
        let viewing = Viewing::of(path, &[]);
        assert!(viewing.address.contains("#url=/store.zr?token="), "{}", viewing.address);
        assert_eq!(viewing.status("/store.zr/meta.zr"), "HTTP/1.1 200 OK");
    }
}

/// A program that stands for what opens a browser on this desktop.
fn with_opener(folder: &Path, script: &str) -> Command {
    let program = folder.join("xdg-open");
    fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let mut command = listening();
    command.arg("view").arg(golden().join("dense_raw")).env("PATH", folder);
    command
}

#[cfg(target_os = "linux")]
#[test]
fn the_browser_is_opened_unless_it_must_not_be() {
    let folder = tempfile::tempdir().unwrap();
    let opened = folder.path().join("opened");
    let script = format!("printf %s \"$1\" > '{0}.new'; /bin/mv '{0}.new' '{0}'", opened.display());
    let viewing = Viewing::start(with_opener(folder.path(), &script).arg("--no-browser"));
    assert_eq!(viewing.status("/"), "HTTP/1.1 200 OK");
    let (_, _, err) = viewing.interrupt();
    assert!(err.is_empty() && !opened.exists(), "{err}");
    let viewing = Viewing::start(&mut with_opener(folder.path(), &script));
    while !opened.exists() {
        std::thread::yield_now();
    }
    let told = fs::read_to_string(&opened).unwrap();
    assert!(!told.contains(viewing.token()), "others may see what programs are started with");
    let (origin, path) = told.split_at(told.rfind("/?ticket=").unwrap());
    let elsewhere = path.replacen("/?", "/dense_raw/meta.zr?", 1);
    assert_eq!(viewing.location(&elsewhere), None, "it leads to the page alone");
    assert_eq!(viewing.location(&format!("{}0", path)), None);
    assert_eq!(viewing.address.strip_prefix(origin), viewing.location(path).as_deref());
    assert_eq!(viewing.location(path), None, "it is good for once");
    let (_, _, err) = viewing.interrupt();
    assert_eq!(err, "");
}

#[cfg(target_os = "linux")]
#[test]
fn where_there_is_no_browser_the_address_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let mut viewing = Viewing::start(&mut with_opener(folder.path(), "exit 3"));
    let mut said = String::new();
    BufReader::new(&mut viewing.err).read_line(&mut said).unwrap();
    assert_eq!(said, "zrecord: note: no browser could be started; open the address in one\n");
    assert_eq!(viewing.status("/dense_raw/meta.zr"), "HTTP/1.1 200 OK");
    let (_, _, rest) = viewing.interrupt();
    assert_eq!(rest, "");
}

#[test]
fn help_says_what_is_served() {
    let output = zrecord(&["view", "--help"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success());
    for word in ["127.0.0.1", "--port", "--no-browser", "--record", "token"] {
        assert!(said.contains(word), "{said}");
    }
    let wrong = zrecord(&["view", "x", "--port", "65536"]);
    assert_eq!(wrong.status.code(), Some(2));
}
