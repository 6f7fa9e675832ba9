//! Answers: status, head and body.

use std::io;
use std::ops::Range;
use std::time::SystemTime;

use super::BLOCK;
use super::connection::Connection;
use super::folder::ServedFile;

/// Those that are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Ok,
    PartialContent,
    SeeOther,
    BadRequest,
    Forbidden,
    NotFound,
    MethodNotAllowed,
    RangeNotSatisfiable,
    HeadTooLarge,
    InternalServerError,
}

impl Status {
    /// As the first line of an answer has it.
    fn line(self) -> &'static str {
        match self {
            Self::Ok => "200 OK",
            Self::PartialContent => "206 Partial Content",
            Self::SeeOther => "303 See Other",
            Self::BadRequest => "400 Bad Request",
            Self::Forbidden => "403 Forbidden",
            Self::NotFound => "404 Not Found",
            Self::MethodNotAllowed => "405 Method Not Allowed",
            Self::RangeNotSatisfiable => "416 Range Not Satisfiable",
            Self::HeadTooLarge => "431 Request Header Fields Too Large",
            Self::InternalServerError => "500 Internal Server Error",
        }
    }
}

/// What every answer says: nothing is kept, guessed, framed, or told to pages
/// of others.
const ALWAYS: [(&str, &str); 5] = [
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    // The token is in the address.
    ("Referrer-Policy", "no-referrer"),
    // Beside the page's own policy, which cannot say this.
    ("Content-Security-Policy", "frame-ancestors 'none'"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
];

/// What a request is answered.
#[derive(Debug)]
pub struct Answer {
    status: Status,
    headers: Vec<(&'static str, String)>,
    body: Body,
}

#[derive(Debug)]
enum Body {
    Page(&'static [u8]),
    Text(String),
    File(ServedFile, Range<u64>),
}

impl Answer {
    fn new(status: Status, kind: &str, body: Body) -> Self {
        Self { status, headers: vec![("Content-Type", kind.to_owned())], body }
    }

    /// The page.
    pub fn page(page: &'static [u8]) -> Self {
        Self::new(Status::Ok, "text/html; charset=utf-8", Body::Page(page))
    }

    /// A file, or a part of it.
    pub fn file(file: ServedFile, part: Option<Range<u64>>) -> Self {
        let size = file.size;
        let status = if part.is_some() { Status::PartialContent } else { Status::Ok };
        let range = part
            .as_ref()
            .map(|part| format!("bytes {}-{}/{size}", part.start, part.end.saturating_sub(1)));
        let tag = file.tag.clone();
        let body = Body::File(file, part.unwrap_or(0..size));
        let answer = Self::new(status, "application/octet-stream", body)
            .with("Accept-Ranges", "bytes")
            .with("ETag", tag);
        match range {
            Some(range) => answer.with("Content-Range", range),
            None => answer,
        }
    }

    /// A line of text: why there is nothing to be had here.
    pub fn text(status: Status, text: &str) -> Self {
        Self::new(status, "text/plain; charset=utf-8", Body::Text(format!("{text}\n")))
    }

    /// With one more header.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends it, or its head alone.
    pub fn send(&self, to: &mut Connection<'_>, head_only: bool, stays: bool) -> io::Result<()> {
        to.send(self.head(stays).as_bytes())?;
        match &self.body {
            _ if head_only => Ok(()),
            Body::Page(bytes) => bytes.chunks(BLOCK).try_for_each(|block| to.send(block)),
            Body::Text(text) => to.send(text.as_bytes()),
            Body::File(file, part) => send_file(file, part.clone(), to),
        }
    }

    fn head(&self, stays: bool) -> String {
        let len = match &self.body {
            Body::Page(bytes) => bytes.len() as u64,
            Body::Text(text) => text.len() as u64,
            Body::File(_, part) => part.end - part.start,
        };
        let date = httpdate::fmt_http_date(SystemTime::now());
        let mut head = format!("HTTP/1.1 {}\r\n", self.status.line());
        let mut add = |name: &str, value: &str| {
            for text in [name, ": ", value, "\r\n"] {
                head.push_str(text);
            }
        };
        add("Date", &date);
        add("Content-Length", &len.to_string());
        add("Connection", if stays { "keep-alive" } else { "close" });
        self.headers.iter().for_each(|(name, value)| add(name, value));
        ALWAYS.iter().for_each(|(name, value)| add(name, value));
        head.push_str("\r\n");
        head
    }
}

/// A block at a time. One that the file no longer has ends the connection, by
/// which the client sees that something is missing.
fn send_file(file: &ServedFile, part: Range<u64>, to: &mut Connection<'_>) -> io::Result<()> {
    let mut buffer = vec![0; BLOCK.min(usize::try_from(part.end - part.start).unwrap_or(BLOCK))];
    let mut offset = part.start;
    while offset < part.end {
        let len = usize::try_from(part.end - offset).unwrap_or(BLOCK).min(BLOCK);
        let block = &mut buffer[..len];
        file.read(block, offset)?;
        to.send(block)?;
        offset += len as u64;
    }
    Ok(())
}
