//! Any text as an exec line, and any value of its variables. The checks are in
//! `../src/exec_line.rs`.
#![no_main]

groundstate_fuzz::target!(exec_line, |line: &groundstate_units::spec::ExecLine| {
    line.words.len() > 2
        && line.words.iter().flatten().any(|it| *it == groundstate_units::spec::Piece::MainPid)
});
