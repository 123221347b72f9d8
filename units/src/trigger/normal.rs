//! The normal form of a calendar expression: all fields written out, as in `systemd-analyze
//! calendar`. Parsing it gives the same expression.

use super::calendar::{Calendar, Field, Part, SECOND, ZoneName};
use std::fmt;

const SHORT_DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

impl fmt::Display for Calendar {
    /// Returns the normal form.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_weekdays(f, self.weekdays)?;
        write_field(f, &self.year, 4)?;
        f.write_str("-")?;
        write_field(f, &self.month, 2)?;
        f.write_str(if self.from_end { "~" } else { "-" })?;
        write_field(f, &self.day, 2)?;
        f.write_str(" ")?;
        write_field(f, &self.hour, 2)?;
        f.write_str(":")?;
        write_field(f, &self.minute, 2)?;
        f.write_str(":")?;
        write_seconds(f, &self.second)?;
        match &self.zone {
            ZoneName::Local => Ok(()),
            ZoneName::Utc => f.write_str(" UTC"),
            ZoneName::Named(name) => write!(f, " {name}"),
        }
    }
}

fn write_weekdays(f: &mut fmt::Formatter<'_>, days: u8) -> fmt::Result {
    if days == 0 {
        return Ok(());
    }
    let (mut day, mut first) = (0, true);
    while day < 7 {
        let run = (day..7).take_while(|day| days & (1 << day) != 0).count();
        let name = |day: usize| SHORT_DAYS.get(day).copied().unwrap_or_default();
        if run > 0 {
            f.write_str(if first { "" } else { "," })?;
            first = false;
            f.write_str(name(day))?;
        }
        match run {
            0 | 1 => {}
            2 => write!(f, ",{}", name(day + 1))?,
            run => write!(f, "..{}", name(day + run - 1))?,
        }
        day += run + 1;
    }
    f.write_str(" ")
}

fn write_field(f: &mut fmt::Formatter<'_>, field: &Field, width: usize) -> fmt::Result {
    if field.is_empty() {
        return f.write_str("*");
    }
    for (index, part) in field.iter().enumerate() {
        f.write_str(if index > 0 { "," } else { "" })?;
        write!(f, "{:0width$}", part.start)?;
        if let Some(stop) = part.stop {
            write!(f, "..{stop:0width$}")?;
        }
        if part.step > 0 && !(part.stop.is_some() && part.step == 1) {
            write!(f, "/{}", part.step)?;
        }
    }
    Ok(())
}

fn write_seconds(f: &mut fmt::Formatter<'_>, field: &Field) -> fmt::Result {
    if *field == [Part { start: 0, stop: None, step: SECOND }] {
        return f.write_str("*");
    }
    let decimal = |f: &mut fmt::Formatter<'_>, value: u32, width: usize| match value % SECOND {
        0 => write!(f, "{:0width$}", value / SECOND),
        rest => write!(f, "{:0width$}.{rest:06}", value / SECOND),
    };
    for (index, part) in field.iter().enumerate() {
        f.write_str(if index > 0 { "," } else { "" })?;
        decimal(f, part.start, 2)?;
        if let Some(stop) = part.stop {
            f.write_str("..")?;
            decimal(f, stop, 2)?;
        }
        if part.step > 0 && !(part.stop.is_some() && part.step == SECOND) {
            f.write_str("/")?;
            decimal(f, part.step, 1)?;
        }
    }
    Ok(())
}
