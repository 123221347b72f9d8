//! What is not honoured of directives that are taken over: import, `initctl check` and
//! `initctl convert` print it, and `tests/directives.tsv` holds the same text.

/// When it is told.
#[derive(Clone, Copy, Debug)]
pub enum When {
    /// Whenever the directive is used.
    Used,
    /// Where its value is one of these.
    Value(fn(&str) -> bool),
    /// The directive's own code tells it, as a warning or as an error.
    Told,
}

/// A part of a directive that is not honoured.
#[derive(Clone, Copy, Debug)]
pub struct Gap {
    /// As in the file. `Process` stands for each section of a unit that runs processes.
    pub section: &'static str,
    /// As in the file.
    pub name: &'static str,
    /// What is not honoured.
    pub how: &'static str,
    /// When it is told.
    pub when: When,
}

pub(in super::super) const UPHELD: &str =
    "what it brings in is started again as its own Restart= says";
pub(in super::super) const STOPPED_WITH: &str =
    "it is stopped with what it names, and started again while it is needed itself";
pub(in super::super) const BOUND: &str = "without After= the unit waits for the other one too";
pub(in super::super) const UNORDERED: &str =
    "without After= or Before= a failure of the other unit does not keep this one from starting";
pub(in super::super) const JOB_MODE: &str =
    "what a failure or a success brings in joins the goal and replaces nothing";
pub(in super::super) const ROOTED: &str =
    "no command runs with full rights within a root directory";
pub(crate) const AT_SHUTDOWN: &str =
    "a shutdown or a sleep starts no units, so what one of its targets wants does not run";
pub(crate) const AT_SHUTDOWN_HINT: &str =
    "a unit with RemainAfterExit=yes that is up runs its ExecStop= at a shutdown";

fn is_glob(value: &str) -> bool {
    value.contains(['*', '?', '['])
}

const fn told(section: &'static str, name: &'static str, how: &'static str) -> Gap {
    Gap { section, name, how, when: When::Told }
}

/// All of them.
#[rustfmt::skip]
pub(super) const GAPS: &[Gap] = &[
    told("Unit", "Upholds", UPHELD),
    told("Install", "UpheldBy", UPHELD),
    told("Install", "UpheldBy", AT_SHUTDOWN),
    told("Install", "WantedBy", AT_SHUTDOWN),
    told("Install", "RequiredBy", AT_SHUTDOWN),
    told("Unit", "StopPropagatedFrom", STOPPED_WITH),
    told("Unit", "BindsTo", BOUND),
    told("Unit", "BindTo", BOUND),
    told("Unit", "Requires", UNORDERED),
    told("Unit", "RequiresOverridable", UNORDERED),
    Gap {
        section: "Process",
        name: "EnvironmentFile",
        how: "wildcards are not expanded: it is read as the name of one file",
        when: When::Value(is_glob),
    },
    told("Unit", "OnFailureJobMode", JOB_MODE),
    told("Unit", "OnSuccessJobMode", JOB_MODE),
    Gap {
        section: "Unit",
        name: "OnSuccess",
        how: "a success of a unit that a timer, socket or path brought in brings in nothing",
        when: When::Used,
    },
    told("Service", "PermissionsStartOnly", ROOTED),
];
