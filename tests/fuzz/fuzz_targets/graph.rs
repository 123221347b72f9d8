//! Any units with any edges between them. What is held of them: `../src/graph.rs`.
#![no_main]

groundstate_fuzz::target!(graph, |fine| *fine > 12);
