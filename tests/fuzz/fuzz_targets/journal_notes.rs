//! Any bytes as notes of what happened since init kept its state. What is held of them: `../src/journal_notes.rs`.
#![no_main]

groundstate_fuzz::composes_behind!(0);
groundstate_fuzz::target!(journal_notes, |notes: &usize| *notes > 6);
