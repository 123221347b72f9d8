//! The state of init outside of its memory: what an image of its program that ends unexpectedly,
//! or on purpose, leaves to the next one. How the bytes lie is in [`frame`], what they are about in
//! [`state`], how descriptors go along in [`carried`], how it is kept while init is at work in
//! [`keeper`], what has happened since in [`notes`], of that what init has found out in [`learnt`] and what it had started in
//! [`started`]. Who writes them to go on as another binary is [`crate::upgrade`]; who
//! reads them, [`crate::resume`].

mod begun;
pub(crate) mod carried;
mod frame;
pub(crate) mod learnt;
pub(crate) mod notes;
mod opened;
pub(crate) mod started;
pub(crate) mod state;
pub(crate) mod turns;
