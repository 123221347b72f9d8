//! The logger with real pipes and processes.
