//! The boots of the machine, for `-b`, `--list-boots` and `_BOOT_ID`. The unit `boot-record` writes
//! a line at each boot. A line of the log belongs to the last boot that started before it.

use super::words::Asked;
use crate::exit::Error;
use crate::log_source::lines::{Last, Lines};
use crate::machine::boot_mark::{BootMark, UNIT, boot_id, boot_start};
use crate::session::Session;
use groundstate_units::control::log_line::ShownLine;
use groundstate_units::text::wall_clock::WallTime;
use serde_json::json;

/// The most boots that journalctl reads. Each boot has two lines.
const MOST: u64 = 1000;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Boot {
    id: String,
    start: WallTime,
    /// The time of the shutdown. `None` after a crash, and for the present boot.
    end: Option<WallTime>,
}

/// The boots of the log in their order. The last one is the present boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Boots(Vec<Boot>);

/// The first and last time of a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) since: WallTime,
    pub(super) until: Option<WallTime>,
}

impl Boots {
    /// Reads the boots.
    ///
    /// # Errors
    /// The log of [`UNIT`] cannot be read.
    pub(super) fn read(session: &Session, dir: &str) -> Result<Boots, Error> {
        let names = [UNIT.to_string()];
        let filter = Some;
        let lines = Lines {
            session,
            dir,
            names: &names,
            since: None,
            filter: &filter,
            is_filtered: false,
            on_files: &|| {},
        };
        let answer = lines.last(Last::OfAll(2 * MOST), false)?;
        let Boots(mut boots) = Boots::of(&answer.lines);
        if let Ok(id) = boot_id() {
            // The log has the start as it was before the clock was set.
            boots.retain(|boot| boot.id != id);
            boots.push(Boot { id, start: boot_start(), end: None });
        }
        Ok(Boots(boots))
    }

    fn of(lines: &[ShownLine]) -> Boots {
        let mut boots: Vec<Boot> = Vec::new();
        for line in lines {
            let (id, start, end) = match BootMark::parse(&line.line) {
                Some(BootMark::Boot(id, start)) => (id, start, None),
                Some(BootMark::Shutdown(id, start)) => (id, start, WallTime::parse(&line.time)),
                None => continue,
            };
            match boots.iter_mut().find(|boot| boot.id == id) {
                // The later start is right: the clock may have been set.
                Some(boot) => (boot.start, boot.end) = (start, end),
                None => boots.push(Boot { id: id.to_string(), start, end }),
            }
        }
        Boots(boots)
    }

    /// Returns the times of the boot that is `offset` boots after the boot with this id. Without an
    /// id, a positive offset counts from the first boot of the log, and another one from the
    /// present boot.
    ///
    /// # Errors
    /// The log has no such boot.
    pub(super) fn find(&self, id: Option<&str>, offset: i64) -> Result<Range, Error> {
        let Boots(boots) = self;
        let (from, steps) = match id {
            Some(id) => (boots.iter().position(|boot| boot.id == id), offset),
            None if offset > 0 => (Some(0), offset - 1),
            None => (boots.len().checked_sub(1), offset),
        };
        let at = from
            .and_then(|from| i64::try_from(from).ok()?.checked_add(steps))
            .and_then(|at| usize::try_from(at).ok());
        let Some((at, boot)) = at.and_then(|at| Some((at, boots.get(at)?))) else {
            let name = match id {
                Some(id) if offset == 0 => id.to_string(),
                Some(id) => format!("{id}{offset:+}"),
                None => offset.to_string(),
            };
            let hint = "`journalctl --list-boots` lists the boots";
            return Err(Error::local(format!("the log has no boot {name}: {hint}"), ""));
        };
        // If the clock was set back between two boots, the range of the first one has no end.
        let next = boots.get(at + 1).map(|next| next.start).filter(|next| *next > boot.start);
        let until = next.map(|next| WallTime::from_millis(next.as_millis().saturating_sub(1)));
        Ok(Range { since: boot.start, until })
    }

    /// Returns the id of the boot at this time.
    pub(super) fn at(&self, time: WallTime) -> Option<&str> {
        let mut earlier = self.0.iter().rev().filter(|boot| boot.start <= time);
        earlier.next().map(|boot| boot.id.as_str())
    }

    /// Returns the table of `--list-boots`. `newest` is the time of the newest line of the log, and
    /// `date` formats a time.
    pub(super) fn table(
        &self,
        asked: &Asked,
        newest: Option<WallTime>,
        date: impl Fn(WallTime) -> String,
    ) -> String {
        let Boots(boots) = self;
        let present = boots.len().saturating_sub(1);
        let skipped = boots.len().saturating_sub(
            asked.lines.and_then(|lines| usize::try_from(lines).ok()).unwrap_or(usize::MAX),
        );
        let mut rows: Vec<(i64, &Boot, Option<WallTime>)> = Vec::new();
        for (at, boot) in boots.iter().enumerate().skip(skipped) {
            let end = if at == present { newest.max(Some(boot.start)) } else { boot.end };
            let back = i64::try_from(present.saturating_sub(at)).unwrap_or(i64::MAX);
            rows.push((-back, boot, end));
        }
        if asked.reverse {
            rows.reverse();
        }
        if asked.is_for_programs() {
            let micros = |time: WallTime| time.as_millis().saturating_mul(1000);
            let rows = rows.iter().map(|(index, boot, end)| {
                let mut row = json!({
                    "index": index, "boot_id": boot.id, "first_entry": micros(boot.start),
                });
                if let (Some(end), Some(row)) = (end, row.as_object_mut()) {
                    row.insert("last_entry".to_string(), micros(*end).into());
                }
                row
            });
            let rows = serde_json::Value::Array(rows.collect());
            return format!("{rows}\n");
        }
        let width = boots.len().to_string().len().max(2) + 1;
        let mut text = String::new();
        let head = ("IDX", "BOOT ID", "FIRST ENTRY", "LAST ENTRY");
        if !asked.quiet {
            let (index, id, first, last) = head;
            text.push_str(&format!("{index:>width$} {id:32} {first:27} {last}\n"));
        }
        for (index, boot, end) in rows {
            let last = end.map_or("no shutdown".to_string(), &date);
            let first = date(boot.start);
            text.push_str(&format!("{index:>width$} {} {first:27} {last}\n", boot.id));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::words::Form;
    use super::*;

    const IDS: [&str; 3] = [
        "11111111111111111111111111111111",
        "22222222222222222222222222222222",
        "33333333333333333333333333333333",
    ];

    fn at(hour: u32) -> WallTime {
        WallTime::parse(&format!("2026-11-21T{hour:02}:00:00.000Z")).unwrap()
    }

    fn boots(lines: &[(u32, String)]) -> Boots {
        let line = |(hour, line): &(u32, String)| ShownLine {
            time: at(*hour).to_string(),
            unit: UNIT.to_string(),
            run: None,
            stream: "output".into(),
            level: None,
            line: line.clone(),
            continued: false,
        };
        Boots::of(&lines.iter().map(line).collect::<Vec<_>>())
    }

    fn boot(id: &str, hour: u32) -> (u32, String) {
        (hour, format!("boot {id} started {}", at(hour)))
    }

    fn shutdown(id: &str, start: u32, end: u32) -> (u32, String) {
        (end, format!("shutdown {id} started {}", at(start)))
    }

    /// The second boot ends by a crash.
    fn three() -> Boots {
        boots(&[
            boot(IDS[0], 1),
            (2, "/var/log/wtmp: No space left on device".to_string()),
            shutdown(IDS[0], 1, 2),
            boot(IDS[1], 3),
            // The unit was restarted.
            shutdown(IDS[1], 3, 4),
            boot(IDS[1], 3),
            boot(IDS[2], 5),
        ])
    }

    #[test]
    fn boot_is_found_by_its_number_from_either_end_or_its_id() {
        let boots = three();
        let found = |id: Option<&str>, offset| boots.find(id, offset).ok();
        let before = |hour| WallTime::from_millis(at(hour).as_millis() - 1);
        let first = Range { since: at(1), until: Some(before(3)) };
        let second = Range { since: at(3), until: Some(before(5)) };
        let third = Range { since: at(5), until: None };
        for (id, offset, want) in [
            (None, 0, Some(third)),
            (None, -1, Some(second)),
            (None, -2, Some(first)),
            (None, -3, None),
            (None, 1, Some(first)),
            (None, 3, Some(third)),
            (None, 4, None),
            (None, i64::MAX, None),
            (None, i64::MIN, None),
            (Some(IDS[1]), 0, Some(second)),
            (Some(IDS[1]), 1, Some(third)),
            (Some(IDS[1]), -2, None),
            (Some("no"), 0, None),
        ] {
            assert_eq!(found(id, offset), want, "{id:?} {offset}");
        }
        assert_eq!(boots.at(at(0)), None);
        assert_eq!(boots.at(at(2)), Some(IDS[0]));
        assert_eq!(boots.at(at(9)), Some(IDS[2]));
        assert_eq!(Boots::default().find(None, 0).ok(), None);
        let Err(Error::Failed(_, failure)) = boots.find(None, -9) else { panic!() };
        assert_eq!(
            failure.message,
            "the log has no boot -9: `journalctl --list-boots` lists the boots"
        );
    }

    #[test]
    fn boot_is_without_an_end_after_the_clock_was_set_back() {
        let boots = boots(&[boot(IDS[0], 5), boot(IDS[1], 1)]);
        let found = boots.find(None, -1).unwrap();
        assert_eq!(found, Range { since: at(5), until: None });
    }

    #[test]
    fn boots_are_listed_as_text_and_as_json() {
        let table = |asked: &Asked| three().table(asked, Some(at(9)), |time| time.to_string());
        let text = table(&Asked { lines: Some(2), ..Asked::default() });
        let want = "IDX BOOT ID                          FIRST ENTRY                 LAST ENTRY\n \
             -1 22222222222222222222222222222222 2026-11-21T03:00:00.000Z    no shutdown\n  \
             0 33333333333333333333333333333333 2026-11-21T05:00:00.000Z    2026-11-21T09:00:00.000Z\n";
        assert_eq!(text, want);
        let json = table(&Asked { form: Form::Json, reverse: true, ..Asked::default() });
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let micros = |hour| at(hour).as_millis() * 1000;
        let want = json!([
            {"index": 0, "boot_id": IDS[2], "first_entry": micros(5), "last_entry": micros(9)},
            {"index": -1, "boot_id": IDS[1], "first_entry": micros(3)},
            {"index": -2, "boot_id": IDS[0], "first_entry": micros(1), "last_entry": micros(2)},
        ]);
        assert_eq!(json, want);
    }

    #[test]
    fn shutdown_is_the_end_of_a_boot_and_a_crash_has_none() {
        let ends: Vec<_> = three().0.into_iter().map(|boot| boot.end).collect();
        assert_eq!(ends, [Some(at(2)), None, None]);
    }

    #[test]
    fn start_at_the_shutdown_replaces_the_start_before_the_clock_was_set() {
        let boots = boots(&[boot(IDS[0], 1), shutdown(IDS[0], 7, 8), boot(IDS[1], 9)]);
        assert_eq!(boots.find(Some(IDS[0]), 0).unwrap().since, at(7));
        assert_eq!((boots.at(at(6)), boots.at(at(8))), (None, Some(IDS[0])));
    }
}
