//! All that a child needs, settled in PID 1 before the clone: words, environment, limits,
//! identity, descriptors. A unit with env-files leaves the words and the environment to the
//! child (see [`super::command_builder`]), one that asks for the uncommon its [`super::child_setup`] too.

use super::command_builder::Draft;
use super::request::{Request, Said};
use crate::process_tracking::place::Place;
use crate::sys::child::Orders;
use groundstate_units::machine::event::{ExecFailure, Stage};
use groundstate_units::spec::{Ids, Run};
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// A process ready to be cloned.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(super) stdio: [Rc<OwnedFd>; 3],
    pub(super) listen: Vec<Rc<OwnedFd>>,
    pub(super) ready: Option<(Rc<OwnedFd>, u16)>,
    pub(super) place: Option<Place>,
    pub(super) take_terminal: bool,
    pub(super) is_awaited: bool,
    pub(super) score: Option<i16>,
    pub(super) work: Work,
    pub(super) said: Said,
}

/// How much is left to the child.
#[derive(Debug)]
pub(super) enum Work {
    /// Nothing but to do it.
    Settled(Box<Orders>),
    /// Whatever may have to wait for a file, and what follows from it.
    Forked(Box<Draft>),
}

impl Prepared {
    /// Puts everything together. Fails as the child would: a user that is not there, a `$MAINPID`
    /// without a main process, a word with a NUL byte.
    pub(crate) fn new(request: Request<'_>) -> Result<Prepared, ExecFailure> {
        let ids = identity(request.run)?;
        let said = Said::new(&request, ids);
        let draft = Draft::new(&request, ids, &said)?;
        let work = if draft.waits() {
            Work::Forked(Box::new(draft))
        } else {
            Work::Settled(Box::new(draft.finish().map_err(|broken| said.failure(broken))?))
        };
        let place = request.run.particular.as_ref().and_then(|p| p.ready_fd);
        let ready = request.ready.zip(place);
        Ok(Prepared {
            stdio: request.stdio,
            listen: request.listen.into_iter().map(|(_, fd)| fd).collect(),
            ready,
            place: request.place,
            take_terminal: request.take_terminal,
            is_awaited: request.is_awaited,
            score: request.base.score,
            work,
            said,
        })
    }
}

/// The ids to take, when any were asked for.
fn identity(run: &Run) -> Result<Option<&Ids>, ExecFailure> {
    match run.credentials.as_ref().map(|c| &c.ids) {
        None => Ok(None),
        Some(Ok(ids)) => {
            // To setresuid(2) and setresgid(2) -1 means "leave it": no id at all.
            let path = || ids.user.clone().unwrap_or_else(|| u32::MAX.to_string());
            let no_id = |stage| ExecFailure { stage, errno: libc::EINVAL, path: path() };
            match (ids.uid, ids.gid) {
                (Some(u32::MAX), _) => Err(no_id(Stage::User)),
                (_, Some(u32::MAX)) => Err(no_id(Stage::Group)),
                _ => Ok(Some(ids)),
            }
        }
        Some(Err(unresolved)) => {
            let stage = if unresolved.what == "group" { Stage::Group } else { Stage::User };
            Err(ExecFailure { stage, errno: libc::ENOENT, path: unresolved.name.clone() })
        }
    }
}
