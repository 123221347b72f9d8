//! A time zone: conversion between UTC and local time. `jiff` parses a file of the time zone
//! database (RFC 9636) with its footer; nothing here opens files.

use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

/// The directory of the time zone database.
pub const DIRECTORY: &str = "/usr/share/zoneinfo";
/// The file of the machine's zone.
pub const LOCAL: &str = "/etc/localtime";
/// Limit of bytes that are read from such a file.
pub const FILE: usize = 256 * 1024;

/// Local time of one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zone(TimeZone);

impl Default for Zone {
    fn default() -> Zone {
        Zone::utc()
    }
}

impl Zone {
    /// UTC.
    pub fn utc() -> Zone {
        Zone(TimeZone::UTC)
    }

    /// Parses a file. Returns `None` if it is no zone.
    pub fn parse(bytes: &[u8]) -> Option<Zone> {
        TimeZone::tzif("", bytes).ok().map(Zone)
    }

    /// Parses a POSIX `TZ` rule: `CET-1CEST,M3.5.0,M10.5.0/3`.
    pub fn of_rule(text: &str) -> Option<Zone> {
        TimeZone::posix(text).ok().map(Zone)
    }

    /// Returns the offset east of UTC in seconds at a UTC time; 0 outside the calendar's range.
    pub fn offset(&self, utc: i64) -> i64 {
        Timestamp::from_second(utc).map_or(0, |at| i64::from(self.0.to_offset(at).seconds()))
    }

    /// Returns the UTC seconds at which clocks show `local`: none if it is skipped, two if it
    /// occurs twice, the earlier first.
    pub fn instants(&self, local: i64) -> [Option<i64>; 2] {
        let Ok(shown) = Timestamp::from_second(local) else { return [None, None] };
        let utc = |offset: Offset| Some(local - i64::from(offset.seconds()));
        match self.0.to_ambiguous_timestamp(Offset::UTC.to_datetime(shown)).offset() {
            AmbiguousOffset::Unambiguous { offset } => [utc(offset), None],
            AmbiguousOffset::Gap { .. } => [None, None],
            AmbiguousOffset::Fold { before, after } => {
                let (one, other) = (utc(before), utc(after));
                [one.min(other), one.max(other)]
            }
        }
    }
}

/// Returns the days from 1970-01-01 to a Gregorian date.
pub(crate) fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years that start in March have the leap day at their end.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Returns year, month and day of a number of days since 1970-01-01.
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

    const DAY: i64 = 86_400;

    #[test]
    fn days_since_1970_are_converted_to_a_date_and_back() {
        assert_eq!((days(1970, 1, 1), days(2000, 3, 1), days(1969, 12, 31)), (0, 11_017, -1));
        for day in (-200_000..200_000).step_by(37) {
            let (year, month, of_month) = civil(day);
            assert_eq!(days(year, month, of_month), day);
        }
    }

    #[test]
    fn skipped_local_time_has_no_instant_and_repeated_one_has_two() {
        let zone = Zone::of_rule("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let local = |month, day, hour: i64| days(2026, month, day) * DAY + hour * 3_600 + 1_800;
        assert_eq!(zone.instants(local(3, 29, 2)), [None, None]);
        let both = zone.instants(local(10, 25, 2));
        assert_eq!(both[1].unwrap() - both[0].unwrap(), 3_600);
        let summer = local(7, 1, 12);
        assert_eq!(zone.instants(summer), [Some(summer - 7_200), None]);
        assert_eq!(zone.offset(summer - 7_200), 7_200);
    }

    #[test]
    fn time_outside_the_calendar_has_no_instant() {
        let zone = Zone::of_rule("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        for at in [i64::MIN, i64::MAX] {
            assert_eq!((zone.offset(at), zone.instants(at)), (0, [None, None]));
        }
    }

    #[test]
    fn zone_file_without_transitions_follows_its_closing_rule() {
        let header = [b"TZif2".as_slice(), &[0; 15]].concat();
        let count = |all: [u32; 6]| all.into_iter().flat_map(u32::to_be_bytes).collect::<Vec<u8>>();
        let kind = [[0, 0, 0x0e, 0x10, 0, 0].as_slice(), b"CET\0"].concat();
        let first = [header.clone(), count([0, 0, 0, 0, 1, 4]), kind.clone()].concat();
        let block = [i64::MIN.to_be_bytes().as_slice(), &[0], &kind].concat();
        let rule = b"\nCET-1CEST,M3.5.0,M10.5.0/3\n".to_vec();
        let file = [first, header, count([0, 0, 0, 1, 1, 4]), block, rule].concat();
        let zone = Zone::parse(&file).unwrap();
        assert_eq!(zone.offset(days(2026, 7, 1) * DAY), 7_200);
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
