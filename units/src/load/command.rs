//! The unit of `init -- CMD`: the words of init's command line take the place of all unit files.

use crate::spec::{
    ExecLine, Input, Kind, Log, Particular, Piece, Prefixes, Restart, Run, Stdio, SuccessStatus,
};
use crate::text::diagnostic::Place;
use crate::text::name::Name;
use crate::unit::assembly::Draft;
use crate::unit::settings::Settings;

/// A command that is the only unit. Its processes have init's descriptors 0, 1 and 2, its working
/// directory and its umask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments. No variable is replaced.
    pub words: Vec<String>,
    /// Init's umask.
    pub umask: u32,
}

impl Command {
    /// The name of the unit.
    pub const UNIT: &str = "command";

    /// Makes the unit, without a file.
    pub(super) fn draft(&self, settings: &Settings) -> Option<Draft> {
        let at = Place { file: "init's command line".into(), line: 1, column: 1 };
        let name = Name::new(Command::UNIT).ok()?;
        let mut draft = Draft::new(name, at, Kind::ForegroundSupervised, settings);
        draft.live.restart = Restart::Never;
        draft.live.success_status = SuccessStatus { codes: vec![0], signals: Vec::new() };
        let literal = |word: &String| vec![Piece::Literal(word.clone())];
        let words = self.words.iter().map(literal).collect();
        let stdio = Stdio { input: Input::Inherit, ..Stdio::default() };
        draft.set_run(&Run {
            exec_start: vec![ExecLine { prefixes: Prefixes::default(), words }],
            log: Log::Inherit,
            // The child does not leave the directory that it inherits.
            working_dir: ".".to_string(),
            umask: self.umask,
            particular: Some(Box::new(Particular { stdio, ..Particular::default() })),
            ..Run::of(draft.kind)
        });
        Some(draft)
    }
}
