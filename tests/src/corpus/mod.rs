//! Unit files of Debian packages and what the importer makes of them. [`sample`] finds
//! and converts them, [`report`] counts, [`honoured`] says what counts as
//! honoured, [`tricky`] looks closely at a few, [`oracle`] asks systemd about the same files.

pub mod honoured;
pub mod oracle;
pub mod report;
pub mod sample;
pub mod tricky;
