//! Compares calendar expressions with the output of `systemd-analyze calendar`. `calendar/make`
//! writes that output to `calendar/table.tsv`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

use groundstate_units::text::wall_clock::WallTime;
use groundstate_units::trigger::calendar::parse;
use groundstate_units::trigger::zone::Zone;

const TABLE: &str = include_str!("calendar/table.tsv");

fn micros(text: &str) -> i64 {
    let text = text.trim_end_matches('Z').replace(' ', "T");
    let wall = WallTime::parse(&format!("{text}.000Z")).unwrap_or_else(|| panic!("{text}"));
    i64::try_from(wall.as_millis()).unwrap() * 1_000
}

fn shown(at: i64) -> String {
    let seconds = u64::try_from(at / 1_000_000).unwrap();
    WallTime::from_millis(seconds * 1_000).to_string().replace(".000Z", "Z")
}

#[test]
fn every_expression_matches_at_the_times_that_systemd_prints() {
    let mut wrong = Vec::new();
    for line in TABLE.lines() {
        let mut columns = line.split('\t');
        let mut column = || columns.next().unwrap();
        let (rule, base, expression, normal) = (column(), column(), column(), column());
        let calendar = parse(expression);
        if normal == "refused" {
            if calendar.is_ok() {
                wrong.push(format!("{expression}: not refused"));
            }
            continue;
        }
        let Ok(calendar) = calendar else {
            wrong.push(format!("{expression}: refused"));
            continue;
        };
        if calendar.to_string() != normal {
            wrong.push(format!("{expression}: {calendar}, not {normal}"));
        }
        let zone = Zone::of_rule(rule).unwrap();
        let wanted: Vec<&str> = columns.filter(|time| *time != "never").collect();
        let utc = Zone::utc();
        let zone = if normal.ends_with(" UTC") { &utc } else { &zone };
        let mut found = Vec::new();
        let mut at = micros(base);
        while found.len() < 5
            && let Some(next) = calendar.next(at, zone)
        {
            found.push(shown(next));
            at = next;
        }
        if found != wanted {
            wrong.push(format!("{rule} {base} {expression}:\n   {found:?}\n  not {wanted:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} lines differ:\n{}", wrong.len(), wrong.join("\n"));
}
