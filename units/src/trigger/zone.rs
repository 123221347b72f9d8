//! A time zone: which local time it is where, and back.
