//! Unit files of Debian packages and the importer's result for them. [`sample`] finds and converts
//! them, [`report`] counts, [`honoured`] defines which directives count as honoured, [`tricky`]
//! checks a few in detail, [`oracle`] compares with systemd.

pub mod honoured;
pub mod oracle;
pub mod report;
pub mod sample;
pub mod tricky;
