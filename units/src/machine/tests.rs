//! The machine by itself, where a scenario file can not say it.
