//! The real init as PID 1 of a container as strict as they come (runc): a read-only root,
//! no capabilities, a uid that no passwd file knows.
