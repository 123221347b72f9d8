//! What a run's course has to know of its unit while the run is up: a few numbers, so that
//! the whole definition need not be kept.

use super::Part;
use groundstate_units::spec::{Kind, Particular, Prefixes, Run};
use serde::{Deserialize, Serialize};

/// Lines of each key, counted; and what hangs on them.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    /// A oneshot's stop waits until it is stopped.
    pub(super) remain: bool,
    pub(super) has_grep: bool,
    pub(super) has_pid_file: bool,
    /// [`Run::has_stop_work`].
    pub(super) has_stop_work: bool,
    lines: [u16; 7],
    /// Lines whose failure counts as success.
    forgiven: Box<[Part]>,
    /// What few units ask for.
    pub(super) particular: Option<Box<Particular>>,
}

impl Plan {
    pub(super) fn new(spec: &Run) -> Plan {
        let keys = [
            &spec.exec_condition,
            &spec.exec_start_pre,
            &spec.exec_start,
            &spec.exec_start_post,
            &spec.exec_stop,
            &spec.exec_stop_post,
            &spec.exec_reload,
        ];
        let parts: [fn(usize) -> Part; 7] = [
            Part::Condition,
            Part::Pre,
            Part::Start,
            Part::Post,
            Part::Stop,
            Part::StopPost,
            Part::Reload,
        ];
        let forgiven = keys.iter().zip(parts).flat_map(|(lines, part)| {
            let those = lines.iter().enumerate();
            let those = those.filter(|(_, line)| line.prefixes.has(Prefixes::FORGIVEN));
            those.map(move |(n, _)| part(n))
        });
        Plan {
            kind: spec.kind,
            remain: spec.remain,
            has_grep: spec.ready_grep.is_some(),
            has_pid_file: spec.pid_file.is_some(),
            has_stop_work: spec.has_stop_work(),
            lines: keys.map(|lines| u16::try_from(lines.len()).unwrap_or(u16::MAX)),
            forgiven: forgiven.collect(),
            particular: spec.particular.clone(),
        }
    }

    /// The line is there.
    pub(super) fn has(&self, part: Part) -> bool {
        let [condition, pre, start, post, stop, stop_post, reload] = self.lines;
        let (n, count) = match part {
            Part::Condition(n) => (n, condition),
            Part::Pre(n) => (n, pre),
            Part::Start(n) => (n, start),
            Part::Post(n) => (n, post),
            Part::Stop(n) => (n, stop),
            Part::StopPost(n) => (n, stop_post),
            Part::Reload(n) => (n, reload),
            Part::Ready => return self.particular.as_ref().is_some_and(|p| p.ready_exec.is_some()),
            Part::Clean | Part::Main | Part::Unlink | Part::Look => return false,
        };
        n < usize::from(count)
    }

    /// A failure of the line is none.
    pub(super) fn forgives(&self, part: Part) -> bool {
        self.forgiven.contains(&part)
    }
}
