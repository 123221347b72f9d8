//! A request as the API judges it: method, path, query and two headers. Paths and queries are read
//! as in fleet's server (percent escapes, first value of a repeated key). [`super::route`] knows
//! the resources.

use super::caller::Caller;

/// A complete request.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// `GET`, `PUT`…
    pub method: String,
    /// The path as sent, with escapes.
    pub path: String,
    /// The text after the `?`, as sent.
    pub query: String,
    /// Every Content-Type header.
    pub content_types: Vec<String>,
    /// The body.
    pub body: Vec<u8>,
    /// The caller.
    pub caller: Caller,
    /// True for a request of fleetctl 1.0; see [`super::first_look`].
    pub is_original: bool,
}

impl Request {
    /// All values of a query key, in order.
    pub fn values(&self, key: &str) -> Vec<String> {
        let pairs = self.query.split(['&', ';']).filter(|pair| !pair.is_empty());
        let read = pairs.map(|pair| pair.split_once('=').unwrap_or((pair, "")));
        let own = read.filter(|(name, _)| unescape(name, true).as_deref() == Some(key));
        own.filter_map(|(_, value)| unescape(value, true)).collect()
    }

    /// The first value of a query key, or `None` if that value is empty.
    pub fn filter(&self, key: &str) -> Option<String> {
        self.values(key).into_iter().next().filter(|value| !value.is_empty())
    }
}

/// Decodes percent escapes. Returns `None` for an invalid escape or text that is not UTF-8.
pub fn unescape(text: &str, plus_is_blank: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                let (high, low) = (digit(rest.next())?, digit(rest.next())?);
                bytes.push(u8::try_from(high * 16 + low).ok()?);
            }
            b'+' if plus_is_blank => bytes.push(b' '),
            other => bytes.push(other),
        }
    }
    String::from_utf8(bytes).ok()
}

/// Escapes a name so that it is one part of a path. The result escapes at least the characters that
/// fleetctl 1.0 escapes.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            other => out.push_str(&format!("%{other:02X}")),
        }
    }
    out
}

/// Removes empty, `.` and `..` parts from a path. Returns `None` if there are none.
pub fn cleaned(path: &str) -> Option<String> {
    let dirty = |part: &str| part.is_empty() || part == "." || part == "..";
    let inner = path.strip_prefix('/').unwrap_or(path);
    let ends_in_slash = inner.ends_with('/');
    let inner = inner.strip_suffix('/').unwrap_or(inner);
    if path.is_empty() || path == "/" || (path.starts_with('/') && !inner.split('/').any(dirty)) {
        return None;
    }
    let mut parts: Vec<&str> = Vec::new();
    for part in inner.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let slash = if ends_in_slash && !parts.is_empty() { "/" } else { "" };
    Some(format!("/{}{slash}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escaped_name_unescapes_unchanged() {
        assert_eq!(escape("hello@1.service"), "hello%401.service");
        assert_eq!(unescape("hello%401.service", false).as_deref(), Some("hello@1.service"));
        for bad in ["%", "%4", "%zz", "%ff"] {
            assert_eq!(unescape(bad, false), None, "{bad}");
        }
    }

    #[test]
    fn only_an_unclean_path_is_cleaned() {
        let table = [
            ("/", None),
            ("/fleet/v1/units", None),
            ("/fleet/v1/units/", None),
            ("//fleet/v1/units", Some("/fleet/v1/units")),
            ("/fleet//v1/units/", Some("/fleet/v1/units/")),
            ("/fleet/v1/../../..", Some("/")),
            ("/fleet/v1/units/..", Some("/fleet/v1")),
            ("x", Some("/x")),
        ];
        for (path, clean) in table {
            assert_eq!(cleaned(path).as_deref(), clean, "{path}");
        }
    }

    #[test]
    fn filter_is_the_first_value_of_a_query_key() {
        let request = Request {
            query: "alt=json&unitName=a%40.service&unitName=b&x".into(),
            ..Request::default()
        };
        assert_eq!(request.values("unitName"), ["a@.service", "b"]);
        assert_eq!(request.filter("unitName").as_deref(), Some("a@.service"));
        assert_eq!(request.filter("x"), None);
    }
}
