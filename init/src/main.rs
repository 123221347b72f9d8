//! PID 1: facts in, deeds out.

#![allow(dead_code, unused_imports)]

mod logger;
mod spawn;
mod sys;

fn main() {}
