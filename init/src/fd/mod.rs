//! Descriptors that other processes pass to init.

pub(crate) mod passed_fd;
