//! Who is answered, and with what.

use std::io::{self, ErrorKind};
use std::sync::{Mutex, PoisonError};

use zrecord_core::storage::FileName;

use super::answer::{Answer, Status};
use super::folder::Folder;
use super::range::Selection;
use super::request::{Method, Request};
use super::token::Token;

/// The page, in one file: its scripts are of this one address too.
const PAGE: &[u8] = include_bytes!(env!("ZRECORD_INSPECTOR"));

/// What there is to be seen, and who may.
#[derive(Debug)]
pub struct Rules {
    folder: Folder,
    /// The path of the store on this server.
    place: String,
    /// Where the page is, with all that it is told.
    page: String,
    token: Token,
    /// Leads to the page, once.
    ticket: Mutex<Option<Token>>,
}

impl Rules {
    pub fn new(folder: Folder, place: String, page: String, token: Token) -> Self {
        Self { folder, place, page, token, ticket: Mutex::new(None) }
    }

    /// A ticket to the page, in the place of those that were not used.
    pub fn issue_ticket(&self) -> io::Result<String> {
        let ticket = Token::draw()?;
        let text = ticket.to_string();
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = Some(ticket);
        Ok(text)
    }

    /// Whether a request shows the ticket, which is none from then on.
    fn redeems_ticket(&self, request: &Request) -> bool {
        let Some(text) = request.parameter("ticket") else { return false };
        let mut ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        let is_good = request.method == Method::Get
            && request.path == "/"
            && ticket.as_ref().is_some_and(|ticket| ticket.is(text));
        if is_good {
            *ticket = None;
        }
        is_good
    }

    /// What a request is answered.
    pub fn answer(&self, request: &Request) -> Answer {
        if !request.host.as_deref().is_some_and(is_this_machine) {
            let text = "This is only for a browser that asks for 127.0.0.1 or localhost.";
            return Answer::text(Status::Forbidden, text);
        }
        if self.redeems_ticket(request) {
            return Answer::text(Status::SeeOther, "The page is there.")
                .with("Location", &*self.page);
        }
        if !request.parameter("token").is_some_and(|text| self.token.is(text)) {
            let text = match request.parameter("ticket") {
                Some(_) => "This address was good for once. Open the one that was printed.",
                None => "The address lacks the token that was printed with it.",
            };
            return Answer::text(Status::Forbidden, text);
        }
        if request.method == Method::Other {
            return Answer::text(Status::MethodNotAllowed, "Only GET and HEAD.")
                .with("Allow", "GET, HEAD");
        }
        if request.path == "/" {
            return Answer::page(PAGE);
        }
        match self.file_name(&request.path) {
            Some(name) => self.file(name, request),
            None => Answer::text(Status::NotFound, "There is nothing here."),
        }
    }

    /// The file of the store that a path names: its place, a slash, and
    /// exactly a name that such files have.
    fn file_name(&self, path: &str) -> Option<FileName> {
        let name = path.strip_prefix(&self.place)?.strip_prefix('/')?;
        // What a lock file holds is nobody's business: nothing.
        FileName::parse(name).filter(|name| *name != FileName::Lock)
    }

    fn file(&self, name: FileName, request: &Request) -> Answer {
        let file = match self.folder.file(name) {
            Ok(file) => file,
            Err(error) => return refused(&error),
        };
        // Ranges are defined for GET, and count for the state that is meant.
        let range = request.range.as_deref().filter(|_| {
            let is_meant = request.if_range.as_ref().is_none_or(|tag| *tag == file.tag);
            request.method == Method::Get && is_meant
        });
        match range.map_or(Selection::Whole, |range| Selection::of(range, file.size)) {
            Selection::Whole => Answer::file(file, None),
            Selection::Part(part) => Answer::file(file, Some(part)),
            Selection::Unsatisfiable => {
                Answer::text(Status::RangeNotSatisfiable, "The file has no such bytes.")
                    .with("Content-Range", format!("bytes */{}", file.size))
                    .with("ETag", file.tag)
            }
        }
    }
}

/// A file that is not there is told from one that is not to be read.
fn refused(error: &io::Error) -> Answer {
    let status = match error.kind() {
        ErrorKind::NotFound => Status::NotFound,
        ErrorKind::InvalidInput | ErrorKind::PermissionDenied | ErrorKind::IsADirectory => {
            Status::Forbidden
        }
        _ => Status::InternalServerError,
    };
    Answer::text(status, &error.to_string())
}

/// Whether a browser that says this host means the machine it runs on.
///
/// A page from elsewhere can have its own name resolved to 127.0.0.1, and would
/// then share an origin with this server; but it cannot hide that name, and can
/// take none of these. The port says nothing more: no name of another's comes
/// with a better one, and through a tunnel it is another than ours.
fn is_this_machine(host: &str) -> bool {
    const NAMES: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];
    NAMES.iter().any(|name| {
        let Some(head) = host.get(..name.len()) else { return false };
        let port = match &host[name.len()..] {
            "" => return head.eq_ignore_ascii_case(name),
            rest => rest.strip_prefix(':'),
        };
        let is_port = |port: &str| port.parse::<u16>().is_ok() && !port.starts_with('+');
        head.eq_ignore_ascii_case(name) && port.is_some_and(is_port)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_this_machine_and_no_others() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:80",
            "localhost",
            "LocalHost:8000",
            "localhost:65535",
            "[::1]",
            "[::1]:9000",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "localhost.evil.example",
            "localhost.",
            "127.0.0.1.evil.example:80",
            "evil.example/localhost",
            "127.0.0.1@evil.example",
            "localhost:80@evil.example",
            "localhost:",
            "localhost:65536",
            "localhost:+80",
            "localhost:8o",
            "127.0.0.2",
            "0.0.0.0",
            "::1",
            "[::2]",
            "127.0.0.1:80:80",
            "localhosté",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
