//! A scriptable stand-in service. It becomes ready, crashes, ignores signals, forks and reloads as
//! its flags and its control pipe say. So a test never needs a real daemon or a sleep. Start with
//! [`flags::HELP`]; the main loop is [`life`].

mod bomb;
pub mod flags;
pub mod life;
mod mute;
pub mod notify;
pub mod order;
