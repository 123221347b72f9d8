//! Calendar expressions as in systemd timers (systemd.time(7)): `Mon..Fri *-*-* 08:00`, `*-*~1
//! 00:00`, `daily`, `Sat 04:30 Europe/Berlin`. They are parsed here; `elapse` computes the next
//! match.

use crate::spec::value::{Mistake, mistake};
use crate::text::fields::is_default;
use serde::{Deserialize, Serialize};
use serde_with::apply;

/// Microseconds per second. Seconds are counted in microseconds because they may have a fraction.
pub(crate) const SECOND: u32 = 1_000_000;
/// Limit of parts of one list.
const PARTS: usize = 240;
/// The range of years in an expression.
pub(crate) const YEARS: (u32, u32) = (1970, 2199);
/// Limit of bytes of one expression.
const LENGTH: usize = 4096;

/// `start`, `start..stop`, `start/step`, `start..stop/step`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Part {
    /// The first value.
    pub start: u32,
    /// The last possible value.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stop: Option<u32>,
    /// The step from one value to the next; 0 for the first value only.
    #[serde(default, skip_serializing_if = "is_default")]
    pub step: u32,
}

/// Values of a field; empty means every value.
pub type Field = Vec<Part>;

/// The clock of an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ZoneName {
    /// The time zone of the machine.
    #[default]
    Local,
    /// UTC.
    Utc,
    /// A zone of the time zone database.
    Named(String),
}

/// One expression.
#[apply(_ => #[serde(default, skip_serializing_if = "is_default")])]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calendar {
    /// Days of the week; bit 0 is Monday, 0 means any day.
    pub weekdays: u8,
    /// Years.
    pub year: Field,
    /// Months, 1 to 12.
    pub month: Field,
    /// 1 to 31; with `from_end`, 1 is the last day of the month.
    pub day: Field,
    /// The days count from the end of the month.
    pub from_end: bool,
    /// Hours, 0 to 23.
    pub hour: Field,
    /// Minutes, 0 to 59.
    pub minute: Field,
    /// In microseconds; at least one part.
    #[serde_with(skip_apply)]
    pub second: Field,
    /// The clock.
    pub zone: ZoneName,
}

const DAYS: [&str; 7] =
    ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"];

/// Words for whole expressions.
const WORDS: [(&str, &str); 13] = [
    ("minutely", "*-*-* *:*:00"),
    ("hourly", "*-*-* *:00:00"),
    ("daily", "*-*-* 00:00:00"),
    ("weekly", "Mon *-*-* 00:00:00"),
    ("monthly", "*-*-01 00:00:00"),
    ("quarterly", "*-01,04,07,10-01 00:00:00"),
    ("annually", "*-01-01 00:00:00"),
    ("yearly", "*-01-01 00:00:00"),
    ("anually", "*-01-01 00:00:00"),
    ("biannually", "*-01,07-01 00:00:00"),
    ("bi-annually", "*-01,07-01 00:00:00"),
    ("semiannually", "*-01,07-01 00:00:00"),
    ("semi-annually", "*-01,07-01 00:00:00"),
];

/// Parses an expression.
///
/// # Errors
/// The error in words.
pub fn parse(text: &str) -> Result<Calendar, Mistake> {
    let hint = "`daily`, `Mon..Fri *-*-* 08:00`, `*-*~1 02:00`, `Sun 04:30 Europe/Berlin`: systemd.time(7)";
    if text.len() > LENGTH {
        return mistake("a calendar expression that is too long".to_string(), hint);
    }
    match read(text) {
        Some(calendar) => Ok(calendar),
        None => mistake(format!("`{text}` is not a calendar expression"), hint),
    }
}

fn read(text: &str) -> Option<Calendar> {
    let (text, zone) = split_zone(text);
    let lower = text.to_ascii_lowercase();
    let text = WORDS.iter().find(|(word, _)| *word == lower).map_or(text, |(_, meaning)| meaning);
    if text.is_empty() {
        return None;
    }
    let mut reader = Reader { rest: text };
    let weekdays = reader.weekdays()?;
    let mut calendar = reader.date()?;
    calendar.zone = zone;
    calendar.weekdays = if weekdays == 0x7f { 0 } else { weekdays };
    reader.time(&mut calendar)?;
    calendar.tidy();
    calendar.is_possible().then_some(calendar)
}

/// Splits off the last word if it is the name of a zone.
fn split_zone(text: &str) -> (&str, ZoneName) {
    let Some((before, last)) = text.rsplit_once(' ') else { return (text, ZoneName::Local) };
    if last.eq_ignore_ascii_case("utc") {
        return (before.trim_end_matches(' '), ZoneName::Utc);
    }
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '_' | '-' | '+');
    let is_name = last.starts_with(|c: char| c.is_ascii_uppercase())
        && last.len() < 64
        && last.chars().all(fits)
        && !last.split('/').any(str::is_empty);
    let day = |word: &str| day_at_start(word).is_some();
    if is_name && !day(last) {
        return (before.trim_end_matches(' '), ZoneName::Named(last.to_string()));
    }
    (text, ZoneName::Local)
}

/// Returns the day's name at the start and its length. Long names come first.
fn day_at_start(text: &str) -> Option<(u8, usize)> {
    let starts = |name: &str| {
        let head = text.get(..name.len())?;
        let next = text.as_bytes().get(name.len());
        let ends = matches!(next, None | Some(b'-' | b'.' | b',' | b' '));
        (head.eq_ignore_ascii_case(name) && ends).then_some(name.len())
    };
    (0u8..).zip(DAYS).find_map(|(number, name)| {
        let short = name.get(..3)?;
        Some((number, starts(name).or_else(|| starts(short))?))
    })
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.as_bytes().first().copied()
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or_default();
    }

    fn take(&mut self, text: &str) -> bool {
        let found = self.rest.starts_with(text);
        if found {
            self.skip(text.len());
        }
        found
    }

    fn spaces(&mut self) {
        self.rest = self.rest.trim_start_matches(' ');
    }

    fn weekdays(&mut self) -> Option<u8> {
        let (mut days, mut first, mut from): (u8, bool, Option<u8>) = (0, true, None);
        loop {
            let Some((day, bytes)) = day_at_start(self.rest) else {
                return first.then_some(days);
            };
            self.skip(bytes);
            let since = from.unwrap_or(day);
            if since > day {
                return None;
            }
            for day in since..=day {
                days |= 1 << day;
            }
            match self.peek() {
                None => return Some(days),
                Some(b' ') => {
                    self.spaces();
                    return Some(days);
                }
                Some(b',') => {
                    self.skip(1);
                    from = None;
                }
                Some(_) => {
                    if from.is_some() || !(self.take("..") || self.take("-")) {
                        return None;
                    }
                    from = Some(day);
                }
            }
            if matches!(self.peek(), None | Some(b' ')) {
                self.spaces();
                return from.is_none().then_some(days);
            }
            first = false;
        }
    }

    fn date(&mut self) -> Option<Calendar> {
        let mut calendar = Calendar {
            weekdays: 0,
            year: Vec::new(),
            month: Vec::new(),
            day: Vec::new(),
            from_end: false,
            hour: Vec::new(),
            minute: Vec::new(),
            second: Vec::new(),
            zone: ZoneName::Local,
        };
        let before = self.rest;
        if before.is_empty() {
            return Some(calendar);
        }
        let first = self.field(1)?;
        // A field that ends here, or at a colon, is the time of day.
        if matches!(self.peek(), None | Some(b':')) {
            self.rest = before;
            return Some(calendar);
        }
        calendar.from_end = self.take("~");
        if !calendar.from_end && !self.take("-") {
            return None;
        }
        let second = self.field(1)?;
        if matches!(self.peek(), None | Some(b' ')) {
            self.spaces();
            (calendar.month, calendar.day) = (first, second);
            return Some(calendar);
        }
        if calendar.from_end {
            return None;
        }
        calendar.from_end = self.take("~");
        if !calendar.from_end && !self.take("-") {
            return None;
        }
        let third = self.field(1)?;
        if !matches!(self.peek(), None | Some(b' ')) {
            return None;
        }
        self.spaces();
        (calendar.year, calendar.month, calendar.day) = (first, second, third);
        Some(calendar)
    }

    fn time(&mut self, calendar: &mut Calendar) -> Option<()> {
        let zero = || vec![Part { start: 0, stop: None, step: 0 }];
        if self.rest.is_empty() {
            (calendar.hour, calendar.minute, calendar.second) = (zero(), zero(), zero());
            return Some(());
        }
        calendar.hour = self.field(1)?;
        if !self.take(":") {
            return None;
        }
        calendar.minute = self.field(1)?;
        if self.rest.is_empty() {
            calendar.second = zero();
            return Some(());
        }
        if !self.take(":") {
            return None;
        }
        calendar.second = self.field(SECOND)?;
        self.rest.is_empty().then_some(())
    }

    /// Parses `*`, or parts separated by commas. `scale` is 1, or [`SECOND`] if fractions are
    /// allowed.
    fn field(&mut self, scale: u32) -> Option<Field> {
        if self.take("*") {
            let every = Part { start: 0, stop: None, step: SECOND };
            return Some(if scale == SECOND { vec![every] } else { Vec::new() });
        }
        let mut parts = Vec::new();
        loop {
            parts.push(self.part(scale)?);
            if parts.len() > PARTS {
                return None;
            }
            if !self.take(",") {
                return Some(parts);
            }
        }
    }

    fn part(&mut self, scale: u32) -> Option<Part> {
        let start = self.number(scale)?;
        let mut part = Part { start, stop: None, step: 0 };
        if self.take("..") {
            part.stop = Some(self.number(scale)?);
            part.step = scale;
        }
        if self.take("/") {
            part.step = self.number(scale)?;
            if part.step == 0 {
                return None;
            }
        }
        let ends = matches!(self.peek(), None | Some(b' ' | b',' | b'-' | b'~' | b':'));
        ends.then_some(part)
    }

    fn number(&mut self, scale: u32) -> Option<u32> {
        let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
        let whole = digits(self.rest);
        let mut value = self.rest.get(..whole)?.parse::<u32>().ok()?.checked_mul(scale)?;
        self.skip(whole);
        let fraction = self.rest.strip_prefix('.').filter(|_| scale == SECOND).map_or(0, digits);
        if fraction > 0 {
            let mut unit = SECOND / 10;
            for digit in self.rest.bytes().skip(1).take(fraction) {
                value =
                    value.checked_add(u32::from(digit.wrapping_sub(b'0')).checked_mul(unit)?)?;
                unit /= 10;
            }
            self.skip(fraction + 1);
        }
        (value < i32::MAX as u32).then_some(value)
    }
}

impl Calendar {
    /// Expands two-digit years, sorts the parts and removes duplicates.
    fn tidy(&mut self) {
        let full = |year: u32| match year {
            0..=69 => year + 2000,
            70..=99 => year + 1900,
            _ => year,
        };
        for part in &mut self.year {
            part.start = full(part.start);
            part.stop = part.stop.map(full);
        }
        for field in self.fields_mut() {
            field.sort_unstable();
            field.dedup();
        }
    }

    fn fields_mut(&mut self) -> [&mut Field; 6] {
        [
            &mut self.year,
            &mut self.month,
            &mut self.day,
            &mut self.hour,
            &mut self.minute,
            &mut self.second,
        ]
    }

    fn is_possible(&self) -> bool {
        // Days from the end are limited to 28, which every month has.
        let last_day = if self.from_end { 28 } else { 31 };
        let fits = |field: &Field, least: u32, most: u32, from_end: bool| {
            field.iter().all(|part| part.fits(least, most, from_end))
        };
        fits(&self.year, YEARS.0, YEARS.1, false)
            && fits(&self.month, 1, 12, false)
            && fits(&self.day, 1, last_day, self.from_end)
            && fits(&self.hour, 0, 23, false)
            && fits(&self.minute, 0, 59, false)
            && fits(&self.second, 0, 60 * SECOND - 1, false)
    }
}

impl Part {
    /// Checks that a part is in range and that a step leads to at least one more value.
    fn fits(self, least: u32, most: u32, from_end: bool) -> bool {
        let within = |value: u32| (least..=most).contains(&value);
        if !within(self.start) {
            return false;
        }
        match self.stop {
            Some(stop) => within(stop) && self.start.saturating_add(self.step) <= stop,
            None if from_end && self.step > 0 => self.start >= least + self.step,
            None => self.step == 0 || self.start.saturating_add(self.step) <= most,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calendar_expression_is_written_in_its_normal_form() {
        for (text, normal) in [
            ("daily", "*-*-* 00:00:00"),
            ("Weekly", "Mon *-*-* 00:00:00"),
            ("Sat,Thu,Mon..Wed,Sat..Sun", "Mon..Thu,Sat,Sun *-*-* 00:00:00"),
            ("Mon..Sun 8:05", "*-*-* 08:05:00"),
            ("2003-03-05 05:40", "2003-03-05 05:40:00"),
            ("03-05", "*-03-05 00:00:00"),
            ("*-*~7/1", "*-*~07/1 00:00:00"),
            ("05:40:23.42/3.17", "*-*-* 05:40:23.420000/3.170000"),
            ("*:0/15", "*-*-* *:00/15:00"),
            ("Fri *-*-* 18:00 Europe/Berlin", "Fri *-*-* 18:00:00 Europe/Berlin"),
            ("00:00 utc", "*-*-* 00:00:00 UTC"),
            ("12..14:10,20,30", "*-*-* 12..14:10,20,30:00"),
        ] {
            assert_eq!(parse(text).map(|calendar| calendar.to_string()), Ok(normal.to_string()));
        }
    }

    #[test]
    fn invalid_calendar_expression_is_refused() {
        for bad in [
            "",
            "8:88",
            "*/2",
            "25:00",
            "2200-01-01",
            "13-01",
            "*-*-32",
            "*-*~29",
            "*-*~1/7",
            "*-*~7..1",
            "Mon..",
            "Sun..Mon",
            "0/0:00",
            "10..9:00",
            "hourly daily",
            "00:00:60",
            "Xyz *-*-*",
            "1:2:3:4",
            "*-*-*-*",
        ] {
            assert!(parse(bad).is_err(), "{bad}: {:?}", parse(bad));
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_without_a_panic(text in "([0-9]{1,4}|[*~:/.,-]| |Mon|Sun|UTC|Asia/Tokyo|.){0,16}") {
            if let Ok(calendar) = parse(&text) {
                proptest::prop_assert_eq!(parse(&calendar.to_string()), Ok(calendar));
            }
        }
    }
}
