//! Unit files of Debian packages and what the importer makes of them. [`sample`] finds
//! and converts them, [`report`] counts, [`oracle`] asks systemd about the same files.

pub mod oracle;
pub mod report;
pub mod sample;
