//! Prints the documents that are generated from the key table: `documents man` prints the man page,
//! `documents schema` the editor schema. Both are checked in below `contrib/`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "printing is all it does")]

use groundstate_units::unit::json_schema;

use groundstate_units::unit::man_page;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("man") => print!("{}", man_page::man_page()),
        Some("schema") => match serde_json::to_string_pretty(&json_schema::json_schema()) {
            Ok(text) => println!("{text}"),
            Err(error) => {
                eprintln!("{error}");
                return ExitCode::FAILURE;
            }
        },
        _ => {
            eprintln!("usage: documents man|schema");
            return ExitCode::from(64);
        }
    }
    ExitCode::SUCCESS
}
