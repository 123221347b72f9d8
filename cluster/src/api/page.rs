//! Lists in pages.
//! A token is opaque to clients. It holds the list, its revision, and the last name of the previous
//! page. The pages of one list come from one snapshot. Once that snapshot is dropped, the next page
//! starts after that name, and no item that still exists is skipped.
//! A token starts like one of fleet 1.0 (limit and page, 16 bits each), so that errors have the
//! same words. A four-byte fleet token is answered by counting pages.

/// Items on a page, unless `token_limit` is set.
pub const LIMIT: u16 = 100;
/// Error for a token that is not of this list.
const INVALID: &str = "invalid value of nextPageToken query parameter";
const HEAD: usize = 4;
const REVISION: usize = 8;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// A list. Its number is a byte of the token and also identifies the token's format. An older
/// format has the first letter of a unit name in that byte, and no letter has these values. A new
/// format needs new numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum List {
    /// `/units`
    Units = 1,
    /// `/state`
    States = 2,
    /// `/machines`
    Machines = 3,
}

/// The start of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// At the first item.
    First,
    /// After this number of pages.
    Counted(u16),
    /// After an item of an earlier page.
    After {
        /// Revision of the list.
        revision: i64,
        /// Number of pages before.
        page: u16,
        /// The last item.
        last: String,
    },
}

/// A page and the token of the next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// The items.
    pub items: Vec<T>,
    /// Empty for the last page.
    pub next: String,
}

/// A list and its page size.
#[derive(Clone, Copy, Debug)]
pub struct Pages {
    /// The list.
    pub list: List,
    /// Items on a page.
    pub limit: u16,
}

impl Pages {
    /// Parses the token of a request.
    ///
    /// # Errors
    /// The fault of the token, in fleet's words.
    pub fn start(self, tokens: &[String]) -> Result<Start, String> {
        let token = match tokens {
            [] => return Ok(Start::First),
            [token] => token,
            _ => return Err("too many values for page token".to_string()),
        };
        let bytes = decode(token)?;
        let two = |at: usize| Some(u16::from_le_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]));
        if bytes.is_empty() {
            return Err("EOF".to_string());
        }
        let (Some(limit), Some(page)) = (two(0), two(2)) else {
            return Err("unexpected EOF".to_string());
        };
        if limit != self.limit {
            return Err(format!("token limit must be {}", self.limit));
        }
        if page == 0 {
            return Err("token page must be greater than zero".to_string());
        }
        let rest = bytes.get(HEAD..).unwrap_or_default();
        let Some((revision, rest)) = rest.split_first_chunk::<REVISION>() else {
            return Ok(Start::Counted(page));
        };
        let of_this = |(list, _): &(&u8, &[u8])| **list == self.list as u8;
        let (_, last) = rest.split_first().filter(of_this).ok_or(INVALID)?;
        let last = String::from_utf8(last.to_vec()).map_err(|_| INVALID)?;
        Ok(Start::After { revision: i64::from_le_bytes(*revision), page, last })
    }

    /// Cuts a page from items in the order of their keys.
    pub fn cut<T>(
        self,
        items: impl Iterator<Item = (String, T)>,
        start: &Start,
        revision: i64,
    ) -> Page<T> {
        let most = usize::from(self.limit);
        let (after, counted, page) = match start {
            Start::First => (None, 0, 0),
            Start::Counted(page) => (None, most * usize::from(*page), *page),
            Start::After { page, last, .. } => (Some(last), 0, *page),
        };
        let rest = items.filter(|(key, _)| after.is_none_or(|last| key > last)).skip(counted);
        let mut taken: Vec<(String, T)> = rest.take(most + 1).collect();
        let more = taken.len() > most;
        taken.truncate(most);
        let next = match taken.last().filter(|_| more) {
            Some((last, _)) => self.token(page.saturating_add(1), revision, last),
            None => String::new(),
        };
        Page { items: taken.into_iter().map(|(_, item)| item).collect(), next }
    }

    fn token(self, page: u16, revision: i64, last: &str) -> String {
        let mut bytes = Vec::with_capacity(HEAD + REVISION + 1 + last.len());
        bytes.extend(self.limit.to_le_bytes());
        bytes.extend(page.to_le_bytes());
        bytes.extend(revision.to_le_bytes());
        bytes.push(self.list as u8);
        bytes.extend(last.as_bytes());
        encode(&bytes)
    }
}

/// Encodes base64 with the URL alphabet and padding.
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let index = usize::try_from(bits >> (18 - 6 * place) & 63).unwrap_or_default();
            let letter = ALPHABET.get(index).copied().unwrap_or(b'=');
            text.push(if place > chunk.len() { '=' } else { char::from(letter) });
        }
    }
    text
}

fn decode(text: &str) -> Result<Vec<u8>, String> {
    let illegal = |at: usize| format!("illegal base64 data at input byte {at}");
    let letters = text.trim_end_matches('=');
    let padding = text.len() - letters.len();
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for (at, letter) in letters.bytes().enumerate() {
        let value = ALPHABET.iter().position(|own| *own == letter).ok_or_else(|| illegal(at))?;
        bits = (bits << 6 | u32::try_from(value).unwrap_or_default()) & 0xff_ffff;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push(u8::try_from(bits >> held & 0xff).unwrap_or_default());
        }
    }
    if !text.len().is_multiple_of(4) || padding > 2 {
        return Err(illegal(letters.len()));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn units(limit: u16) -> Pages {
        Pages { list: List::Units, limit }
    }

    #[test]
    fn faults_of_a_token_have_fleets_messages() {
        let start_of = |tokens: &[&str]| {
            let tokens: Vec<String> = tokens.iter().map(ToString::to_string).collect();
            units(100).start(&tokens)
        };
        assert_eq!(start_of(&[]), Ok(Start::First));
        assert_eq!(start_of(&["ZAABAA=="]), Ok(Start::Counted(1)));
        let table: [(&[&str], &str); 7] = [
            (&["a", "b"], "too many values for page token"),
            (&[""], "EOF"),
            (&["ZAA="], "unexpected EOF"),
            (&["*"], "illegal base64 data at input byte 0"),
            (&["basdfasdf"], "illegal base64 data at input byte 9"),
            (&["EwBMLg=="], "token limit must be 100"),
            (&["ZAAAAA=="], "token page must be greater than zero"),
        ];
        for (tokens, words) in table {
            assert_eq!(start_of(tokens), Err(words.to_string()), "{tokens:?}");
        }
    }

    #[test]
    fn tokens_are_encoded_as_by_fleet() {
        let pair =
            |limit: u16, page: u16| encode(&[limit.to_le_bytes(), page.to_le_bytes()].concat());
        assert_eq!(pair(12482, 0), "wjAAAA==");
        assert_eq!(pair(19, 11852), "EwBMLg==");
        assert_eq!(pair(100, 1), "ZAABAA==");
    }

    #[test]
    fn pages_hold_every_item_once_and_none_is_empty() {
        for total in [0_usize, 1, 59, 60, 61, 120, 103] {
            let items = || (0..total).map(|n| (format!("{n:05}"), n));
            let (mut seen, mut from, mut pages) = (Vec::new(), Start::First, 0);
            loop {
                let page = units(60).cut(items(), &from, 7);
                assert!(!page.items.is_empty() || total == 0);
                seen.extend(page.items);
                pages += 1;
                if page.next.is_empty() {
                    break;
                }
                from = units(60).start(&[page.next]).unwrap();
                assert!(matches!(from, Start::After { revision: 7, .. }));
            }
            assert_eq!(seen, (0..total).collect::<Vec<_>>());
            assert_eq!(pages, total.div_ceil(60).max(1));
        }
    }

    #[test]
    fn page_after_the_last_item_is_empty() {
        let items = (0..5).map(|n| (n.to_string(), n));
        assert_eq!(
            units(100).cut(items, &Start::Counted(9), 1),
            Page { items: vec![], next: String::new() }
        );
    }

    proptest! {
        #[test]
        fn any_token_is_parsed_or_refused_without_a_panic(token in ".{0,60}") {
            let _ = units(100).start(&[token]);
        }

        #[test]
        fn encoded_bytes_decode_unchanged(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(decode(&encode(&bytes)), Ok(bytes));
        }
    }
}
