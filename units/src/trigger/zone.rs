//! A time zone as data: where it is how late, and back. Read from the bytes of a file of
//! the time zone database (RFC 9636), its closing rule (POSIX `TZ`) written out as
//! transitions until the last year a calendar expression can name.

/// The directory of the time zone database.
pub const DIRECTORY: &str = "/usr/share/zoneinfo";
/// The machine's own zone.
pub const LOCAL: &str = "/etc/localtime";
/// Bytes of such a file that are read.
pub const FILE: usize = 256 * 1024;

const DAY: i64 = 86_400;
/// Hours a rule may be away from UTC, and from the day it names: RFC 9636.
const OFFSET_HOURS: i64 = 24;
const RULE_HOURS: i64 = 167;
/// Years the closing rule is written out for.
const FIRST_YEAR: i64 = 1970;
const LAST_YEAR: i64 = 2_200;

/// Local time of one place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Seconds east of UTC before the first transition.
    first: i64,
    /// From this second of UTC on, that many seconds east of it. In order.
    transitions: Vec<(i64, i64)>,
}

impl Zone {
    /// UTC.
    pub fn utc() -> Zone {
        Zone::default()
    }

    /// From the bytes of a file; None: they are none.
    pub fn parse(bytes: &[u8]) -> Option<Zone> {
        let mut bytes = Bytes(bytes);
        let first = Header::read(&mut bytes)?;
        if first.version == 0 {
            return first.zone(&mut bytes, 4);
        }
        bytes.take(first.length(4)?)?;
        let second = Header::read(&mut bytes)?;
        let mut zone = second.zone(&mut bytes, 8)?;
        let footer = std::str::from_utf8(bytes.0).ok()?;
        let rule = footer.strip_prefix('\n')?.split('\n').next().unwrap_or_default();
        if let Some(rule) = Rule::parse(rule) {
            zone.extend(&rule);
        }
        Some(zone)
    }

    /// From a POSIX `TZ` rule alone: `CET-1CEST,M3.5.0,M10.5.0/3`.
    pub fn of_rule(text: &str) -> Option<Zone> {
        let rule = Rule::parse(text)?;
        let mut zone = Zone { first: rule.offset, transitions: Vec::new() };
        zone.extend(&rule);
        Some(zone)
    }

    /// Seconds east of UTC at a second of UTC.
    pub fn offset(&self, utc: i64) -> i64 {
        let at = self.transitions.partition_point(|(from, _)| *from <= utc);
        let before = at.checked_sub(1).and_then(|at| self.transitions.get(at));
        before.map_or(self.first, |(_, offset)| *offset)
    }

    /// The seconds of UTC at which clocks show `local`: none where they are put forward over
    /// it, two where they are put back to it; the earlier first.
    pub fn instants(&self, local: i64) -> [Option<i64>; 2] {
        // Offsets that hold within two days around it: no zone is further from UTC than one.
        let from = self.transitions.partition_point(|(at, _)| *at < local - 2 * DAY);
        let near = self.transitions.iter().skip(from).take_while(|(at, _)| *at < local + 2 * DAY);
        let mut found = [None, None];
        let before = self.offset(local - 2 * DAY);
        for offset in std::iter::once(before).chain(near.map(|(_, offset)| *offset)) {
            let utc = local - offset;
            if self.offset(utc) != offset || found.contains(&Some(utc)) {
                continue;
            }
            match found {
                [None, _] => found = [Some(utc), None],
                [Some(one), None] => found = [Some(one.min(utc)), Some(one.max(utc))],
                [Some(_), Some(_)] => {}
            }
        }
        found
    }

    fn extend(&mut self, rule: &Rule) {
        let mut last = self.transitions.last().map_or(i64::MIN, |(at, _)| *at);
        let Some(summer) = &rule.summer else {
            if self.transitions.is_empty() {
                self.first = rule.offset;
            }
            return;
        };
        // No expression names a year before; a file may end with a change before all history.
        let from = civil(last.div_euclid(DAY)).0.max(FIRST_YEAR);
        for year in from..=LAST_YEAR {
            let start = summer.start.second(year) - rule.offset;
            let end = summer.end.second(year) - summer.offset;
            let mut both = [(start, summer.offset), (end, rule.offset)];
            both.sort_unstable();
            for (at, offset) in both {
                // Of changes so far from their days that they overtake each other the first counts.
                if at > last {
                    self.transitions.push((at, offset));
                    last = at;
                }
            }
        }
    }
}

struct Bytes<'b>(&'b [u8]);

impl<'b> Bytes<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (head, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(head)
    }

    /// Big-endian, signed, of 4 or 8 bytes.
    fn number(&mut self, width: usize) -> Option<i64> {
        let bytes = self.take(width)?;
        let first = if bytes.first()? & 0x80 != 0 { -1i64 } else { 0 };
        Some(bytes.iter().fold(first, |number, byte| (number << 8) | i64::from(*byte)))
    }
}

/// The header of a data block: how much of what follows.
struct Header {
    version: u8,
    isut: usize,
    isstd: usize,
    leaps: usize,
    times: usize,
    types: usize,
    names: usize,
}

impl Header {
    fn read(bytes: &mut Bytes<'_>) -> Option<Header> {
        if bytes.take(4)? != b"TZif" {
            return None;
        }
        let version = *bytes.take(16)?.first()?;
        let mut count = || usize::try_from(bytes.number(4)?).ok().filter(|count| *count < 65_536);
        Some(Header {
            version,
            isut: count()?,
            isstd: count()?,
            leaps: count()?,
            times: count()?,
            types: count()?,
            names: count()?,
        })
    }

    /// Bytes of the block, with times of that width.
    fn length(&self, width: usize) -> Option<usize> {
        let times = self.times.checked_mul(width + 1)?;
        let rest = self.types * 6 + self.names + self.leaps * (width + 4) + self.isstd + self.isut;
        times.checked_add(rest)
    }

    fn zone(&self, bytes: &mut Bytes<'_>, width: usize) -> Option<Zone> {
        let times: Option<Vec<i64>> = (0..self.times).map(|_| bytes.number(width)).collect();
        let times = times?;
        let kinds = bytes.take(self.times)?;
        let mut offsets = Vec::new();
        for _ in 0..self.types {
            offsets.push(bytes.number(4)?);
            bytes.take(2)?;
        }
        bytes.take(self.names + self.leaps * (width + 4) + self.isstd + self.isut)?;
        let offset = |kind: &u8| {
            offsets.get(usize::from(*kind)).copied().filter(|offset| offset.abs() < DAY + 7_200)
        };
        let mut transitions = Vec::new();
        for (at, kind) in times.into_iter().zip(kinds) {
            transitions.push((at, offset(kind)?));
        }
        if !transitions.is_sorted_by(|a, b| a.0 < b.0) {
            return None;
        }
        Some(Zone { first: offset(&0)?, transitions })
    }
}

/// A POSIX `TZ` rule: `CET-1CEST,M3.5.0,M10.5.0/3`.
struct Rule {
    offset: i64,
    summer: Option<Summer>,
}

struct Summer {
    offset: i64,
    start: Date,
    end: Date,
}

enum Day {
    /// `Mm.w.d`: month, week (5 is the last), day of the week from Sunday on.
    OfWeek(i64, i64, i64),
    /// `Jn`: 1 to 365, the 29th of February is never counted.
    Plain(i64),
    /// `n`: 0 to 365.
    Counted(i64),
}

/// A day of the year and the second of it.
struct Date {
    day: Day,
    time: i64,
}

impl Date {
    /// The second of local time in that year, before its own change.
    fn second(&self, year: i64) -> i64 {
        let first = days(year, 1, 1);
        let leap = days(year, 3, 1) - days(year, 2, 1) == 29;
        let day = match self.day {
            Day::Counted(number) => first + number,
            Day::Plain(number) => first + number - 1 + i64::from(leap && number >= 60),
            Day::OfWeek(month, week, weekday) => {
                let start = days(year, month, 1);
                // The first of January 1970 was a Thursday.
                let shift = (weekday - (start + 4)).rem_euclid(7);
                let after =
                    if month == 12 { days(year + 1, 1, 1) } else { days(year, month + 1, 1) };
                let found = start + shift + 7 * (week - 1);
                if found >= after { found - 7 } else { found }
            }
        };
        day * DAY + self.time
    }
}

impl Rule {
    fn parse(text: &str) -> Option<Rule> {
        let mut rest = Text(text);
        rest.name()?;
        let offset = -rest.time(OFFSET_HOURS)?;
        if rest.0.is_empty() {
            return Some(Rule { offset, summer: None });
        }
        rest.name()?;
        let summer =
            if rest.0.starts_with(',') { offset + 3_600 } else { -rest.time(OFFSET_HOURS)? };
        let (start, end) = (rest.date()?, rest.date()?);
        let summer = Some(Summer { offset: summer, start, end });
        rest.0.is_empty().then_some(Rule { offset, summer })
    }
}

struct Text<'t>(&'t str);

impl Text<'_> {
    fn skip(&mut self, mark: char) -> bool {
        let found = self.0.strip_prefix(mark);
        self.0 = found.unwrap_or(self.0);
        found.is_some()
    }

    fn name(&mut self) -> Option<()> {
        let length = if self.0.starts_with('<') {
            self.0.find('>')? + 1
        } else {
            self.0.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(self.0.len())
        };
        self.0 = self.0.get(length..)?;
        (length >= 3).then_some(())
    }

    fn number(&mut self) -> Option<i64> {
        let length = self.0.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.0.len());
        let (digits, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        digits.parse::<i64>().ok().filter(|number| *number <= 1_000)
    }

    /// `[+-]hh[:mm[:ss]]`, in seconds; so many hours at most.
    fn time(&mut self, hours: i64) -> Option<i64> {
        let sign = if self.skip('-') { -1 } else { 1 };
        self.skip('+');
        let mut seconds = self.number().filter(|number| *number <= hours)? * 3_600;
        for unit in [60, 1] {
            if self.skip(':') {
                seconds += self.number().filter(|number| *number < 60)? * unit;
            }
        }
        Some(sign * seconds)
    }

    fn date(&mut self) -> Option<Date> {
        if !self.skip(',') {
            return None;
        }
        let day = if self.skip('M') {
            let month = self.number()?;
            let week = self.skip('.').then(|| self.number())??;
            let weekday = self.skip('.').then(|| self.number())??;
            let fits = (1..=12).contains(&month) && (1..=5).contains(&week) && weekday < 7;
            fits.then_some(Day::OfWeek(month, week, weekday))?
        } else if self.skip('J') {
            Day::Plain(self.number().filter(|number| (1..=365).contains(number))?)
        } else {
            Day::Counted(self.number().filter(|number| *number <= 365)?)
        };
        let time = if self.skip('/') { self.time(RULE_HOURS)? } else { 7_200 };
        Some(Date { day, time })
    }
}

/// Days from the first of January 1970 to a date of the Gregorian calendar.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that begin in March have the leap day at their end.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month and day of a number of days since the first of January 1970.
pub(crate) fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ruled(rule: &str) -> Zone {
        Zone::of_rule(rule).unwrap()
    }

    #[test]
    fn days_are_counted_there_and_back() {
        assert_eq!((days(1970, 1, 1), days(2000, 3, 1), days(1969, 12, 31)), (0, 11_017, -1));
        for day in (-200_000..200_000).step_by(37) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
        }
    }

    #[test]
    fn clocks_put_forward_show_no_such_time_and_put_back_show_it_twice() {
        let zone = ruled("CET-1CEST,M3.5.0,M10.5.0/3");
        let local = |month, day, hour: i64| days(2026, month, day) * DAY + hour * 3_600 + 1_800;
        assert_eq!(zone.instants(local(3, 29, 2)), [None, None]);
        let both = zone.instants(local(10, 25, 2));
        assert_eq!(both[1].unwrap() - both[0].unwrap(), 3_600);
        let summer = local(7, 1, 12);
        assert_eq!(zone.instants(summer), [Some(summer - 7_200), None]);
        assert_eq!(zone.offset(summer - 7_200), 7_200);
    }

    #[test]
    fn rules_of_all_forms_are_read() {
        let south = ruled("AEST-10AEDT,M10.1.0,M4.1.0/3");
        assert_eq!(south.offset(days(2026, 1, 1) * DAY), 39_600);
        assert_eq!(south.offset(days(2026, 7, 1) * DAY), 36_000);
        let odd = ruled("<-03>3<-02>,M3.5.0/-2,M10.5.0/-1");
        assert_eq!(odd.offset(days(2026, 7, 1) * DAY), -7_200);
        let days_of_year = ruled("XXX1YYY,J60/0,300");
        assert_eq!(days_of_year.offset(days(2028, 3, 1) * DAY + 3_599), -3_600);
        assert_eq!(days_of_year.offset(days(2028, 3, 1) * DAY + 3_600), 0);
        assert_eq!(ruled("JST-9").offset(0), 32_400);
        let bad = ["", "X", "CET", "CET-1CEST", "CET-1CEST,M13.1.0,M1.1.0", "CET-1 "];
        // Further from UTC than any place, and than a local time is looked for.
        for bad in bad.into_iter().chain(["<330>-330", "XXX25", "XXX1:60", "XXX1YYY,J60/168,300"]) {
            assert!(Rule::parse(bad).is_none(), "{bad}");
        }
    }

    #[test]
    fn a_file_that_ends_before_all_history_is_read_in_no_time() {
        let header = [b"TZif2".as_slice(), &[0; 15]].concat();
        let count = |all: [u32; 6]| all.into_iter().flat_map(u32::to_be_bytes).collect::<Vec<u8>>();
        let first = [header.clone(), count([0, 0, 0, 0, 1, 0]), vec![0; 6]].concat();
        let block = [i64::MIN.to_be_bytes().as_slice(), &[0], &[0; 6]].concat();
        let rule = b"\nCET-1CEST,M3.5.0,M10.5.0/3\n".to_vec();
        let file = [first, header, count([0, 0, 0, 1, 1, 0]), block, rule].concat();
        let zone = Zone::parse(&file).unwrap();
        assert_eq!(zone.offset(days(2026, 7, 1) * DAY), 7_200);
        assert!(zone.transitions.len() < 500, "{}", zone.transitions.len());
        let odd = Zone::of_rule("AAA0BBB,J1/-167,J2/167").unwrap();
        assert!(odd.transitions.is_sorted());
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>, at in -1_000_000_000_000i64..1_000_000_000_000) {
            let mut file = b"TZif2".to_vec();
            file.extend(&bytes);
            if let Some(zone) = Zone::parse(&file) {
                let _ = (zone.offset(at), zone.instants(at));
            }
        }
    }
}
