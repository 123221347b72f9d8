//! Running on without the event loop when init has crashed and its state cannot be restored.

pub(crate) mod caretaker;
pub(crate) mod pipe_drain;
