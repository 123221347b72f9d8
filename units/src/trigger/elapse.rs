//! When a calendar expression comes next. Pure: the time and the zone are given.
