//! When a timer unit is due, from all its reasons together.
