//! The head of a request, as far as HTTP itself says what it means.

/// What is done with what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// It is sent.
    Get,
    /// All but its bytes is.
    Head,
    /// Anything else.
    Other,
}

/// A request that is well formed.
#[derive(Debug)]
pub struct Request {
    pub method: Method,
    /// The server that the client thinks it talks to; old clients may not say.
    pub host: Option<String>,
    /// As it was sent: nothing is decoded.
    pub path: String,
    query: String,
    pub range: Option<String>,
    /// What the file's tag must be for the range to count.
    pub if_range: Option<String>,
    /// Whether the client wants to ask for more afterwards.
    pub keeps_alive: bool,
}

/// What bytes turn out to be.
#[derive(Debug)]
pub enum Parsed {
    /// A request, of so many bytes.
    Whole(Request, usize),
    /// The beginning of one.
    Partial,
    /// No request.
    Malformed,
    /// One with more headers than anybody needs.
    TooLarge,
}

/// More headers than any browser sends.
const HEADERS_MAX: usize = 64;

impl Request {
    /// Reads the head that the bytes begin with.
    pub fn parse(bytes: &[u8]) -> Parsed {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut headers);
        match head.parse(bytes) {
            Ok(httparse::Status::Complete(len)) => match Self::of(&head) {
                Some(request) => Parsed::Whole(request, len),
                None => Parsed::Malformed,
            },
            Ok(httparse::Status::Partial) => Parsed::Partial,
            Err(httparse::Error::TooManyHeaders) => Parsed::TooLarge,
            Err(_) => Parsed::Malformed,
        }
    }

    /// The first parameter of that name in the query.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(known, _)| *known == name).map(|(_, value)| value)
    }

    fn of(head: &httparse::Request<'_, '_>) -> Option<Self> {
        let is_old = head.version? == 0;
        let mut host = one(head, "host").ok()?;
        if host.is_none() && !is_old {
            return None;
        }
        let mut target = head.path?;
        // As a proxy is asked; what stands there replaces the host.
        if let Some(rest) = target.strip_prefix("http://") {
            let (authority, path) = rest.split_at(rest.find('/')?);
            (host, target) = (Some(authority.to_owned()), path);
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let connection = one(head, "connection").ok()?.unwrap_or_default();
        let closes = connection.split(',').any(|word| word.trim().eq_ignore_ascii_case("close"));
        // A body is nothing that is asked for here: it is not read, and what
        // comes after it neither.
        let has_body = one(head, "transfer-encoding") != Ok(None)
            || !matches!(
                one(head, "content-length").as_ref().map(Option::as_deref),
                Ok(None | Some("0"))
            );
        Some(Self {
            method: match head.method? {
                "GET" => Method::Get,
                "HEAD" => Method::Head,
                _ => Method::Other,
            },
            host,
            path: path.to_owned(),
            query: query.to_owned(),
            range: one(head, "range").unwrap_or_default(),
            if_range: one(head, "if-range").unwrap_or_default(),
            keeps_alive: !(is_old || closes || has_body),
        })
    }
}

/// A header that came several times.
#[derive(Debug, PartialEq, Eq)]
struct Repeated;

/// The value of a header that must come once at most.
fn one(head: &httparse::Request<'_, '_>, name: &str) -> Result<Option<String>, Repeated> {
    let mut found = head.headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    let value = found.next().map(|header| String::from_utf8_lossy(header.value).into_owned());
    if found.next().is_some() { Err(Repeated) } else { Ok(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Request {
        match Request::parse(text.as_bytes()) {
            Parsed::Whole(request, len) => {
                assert_eq!(len, text.len());
                request
            }
            other => panic!("{text:?} is {other:?}"),
        }
    }

    #[test]
    fn what_a_browser_sends() {
        let request = whole(
            "GET /a%20b/0.zr?token=1&x HTTP/1.1\r\nHost: localhost:1\r\nRange: bytes=0-1\r\n\
             If-Range: \"tag\"\r\n\r\n",
        );
        assert_eq!((request.method, request.host.as_deref()), (Method::Get, Some("localhost:1")));
        assert_eq!(request.path, "/a%20b/0.zr");
        assert_eq!((request.parameter("token"), request.parameter("x")), (Some("1"), None));
        assert_eq!(request.range.as_deref(), Some("bytes=0-1"));
        assert_eq!(request.if_range.as_deref(), Some("\"tag\""));
        assert!(request.keeps_alive);
    }

    #[test]
    fn what_stands_in_the_target_replaces_the_host() {
        let request = whole("HEAD http://elsewhere:2/x HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_eq!((request.host.as_deref(), &*request.path), (Some("elsewhere:2"), "/x"));
    }

    #[test]
    fn a_connection_ends_where_its_end_cannot_be_told() {
        for text in [
            "GET / HTTP/1.0\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: x\r\nConnection: te, Close\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
        ] {
            assert!(!whole(text).keeps_alive, "{text}");
        }
        assert!(whole("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n").keeps_alive);
    }

    #[test]
    fn what_is_no_request() {
        for text in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
            "GET http://x HTTP/1.1\r\nHost: x\r\n\r\n",
            "GET / HTTP/2.0\r\nHost: x\r\n\r\n",
            "GET / HTTP/1.1\r\nHost\r\n\r\n",
            "\x16\x03\x01\x02",
        ] {
            let parsed = Request::parse(text.as_bytes());
            assert!(matches!(parsed, Parsed::Malformed), "{text:?} is {parsed:?}");
        }
        let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "A: b\r\n".repeat(64));
        assert!(matches!(Request::parse(many.as_bytes()), Parsed::TooLarge));
        assert!(matches!(Request::parse(b"GET / HT"), Parsed::Partial));
    }
}
