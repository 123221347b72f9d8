//! The fuzz targets: what each holds of any bytes is a function of a module of its name; a fuzzer
//! calls it through `fuzz_targets/`, the tests of the workspace feed `corpus/` to it. Beside
//! them: how input becomes a choice ([`composed`]), how many inputs came past the parser
//! ([`share`]).

pub mod accounts;
pub mod calendar;
pub mod composed;
pub mod exec_line;
pub mod generation;
pub mod graph;
pub mod import;
pub mod kept_machine;
pub mod log_line;
pub mod name;
pub mod policy;
pub mod request;
pub mod settings;
pub mod share;
pub mod unit_file;
pub mod unit_folder;
