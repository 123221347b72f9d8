//! Any units with any edges between them. The checks are in `../src/graph.rs`.
#![no_main]

groundstate_fuzz::target!(graph, |fine| *fine > 12);
