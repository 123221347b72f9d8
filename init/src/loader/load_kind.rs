//! What a load is for, and who waits for its outcome.

use crate::fd::Foreign;
use groundstate_units::machine::event::Event;
use groundstate_units::text::name::Name;
use serde::{Deserialize, Serialize};

/// Who asked over the control socket, and with which id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Asker {
    /// The connection.
    pub(crate) client: usize,
    /// The request.
    pub(crate) id: u64,
}

/// What a load is for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Purpose {
    /// The first generation.
    Boot,
    /// A new generation, to be taken.
    Reload {
        /// Changed units keep their run.
        no_restart: bool,
        /// Nobody, where a signal asked.
        asker: Option<Asker>,
    },
    /// A new generation, to be planned with and forgotten.
    Plan {
        /// Who wants to see it.
        asker: Asker,
    },
    /// The present generation with other files of one source.
    Put {
        /// The controller.
        asker: Asker,
        /// Which.
        source: Name,
        /// The plan is to be answered too.
        plan: bool,
        /// The sealed memfd; None: it is to hold nothing.
        body: Option<Foreign>,
    },
    /// The present generation with the instances of templates that a wish names.
    Instances {
        /// Whose wish it is.
        asker: Asker,
        /// Granted or refused once they are there.
        wish: Box<Event>,
        /// It is only planned.
        dry: bool,
    },
}

impl Purpose {
    /// Nothing comes of it but an answer.
    pub(super) fn is_shown_only(&self) -> bool {
        match self {
            Purpose::Boot | Purpose::Reload { .. } | Purpose::Put { .. } => false,
            Purpose::Plan { .. } => true,
            Purpose::Instances { dry, .. } => *dry,
        }
    }

    /// Who waits for an answer.
    pub(super) fn asker(&self) -> Option<Asker> {
        match self {
            Purpose::Boot => None,
            Purpose::Reload { asker, .. } => *asker,
            Purpose::Plan { asker }
            | Purpose::Put { asker, .. }
            | Purpose::Instances { asker, .. } => Some(*asker),
        }
    }
}
