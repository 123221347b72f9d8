//! Any text as a calendar expression, any bytes as a time zone. The checks are in
//! `../src/calendar.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(8);
groundstate_fuzz::target!(calendar, |calendar: &groundstate_units::trigger::calendar::Calendar| {
    calendar.weekdays != 0 && calendar.from_end
});
