//! The fuzz targets of the same decoders, for what their corpora stand for and for the life they
//! lead what was taken through; the files are the fuzzer's.

#[path = "../../../fuzz/src/composed.rs"]
pub mod composed;
#[path = "../../../fuzz/src/generation.rs"]
pub mod generation;
#[path = "../../../fuzz/src/journal_notes.rs"]
pub mod journal_notes;
#[path = "../../../fuzz/src/kept_init.rs"]
pub mod kept_init;
#[path = "../../../fuzz/src/kept_machine.rs"]
pub mod kept_machine;
#[path = "../../../fuzz/src/parcel.rs"]
pub mod parcel;
