//! The kinds of init.

/// What init is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// PID 1 of a machine's initial pid namespace.
    Machine,
    /// PID 1 of a pid namespace within.
    Container,
    /// Not PID 1.
    Supervisor,
}

impl Mode {
    /// The word of the control socket.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Mode::Machine => "machine",
            Mode::Container => "container",
            Mode::Supervisor => "supervisor",
        }
    }
}
