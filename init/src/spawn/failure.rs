//! A start that broke off, in words. The shape itself is
//! [`ExecFailure`](groundstate_units::machine::event::ExecFailure).

use groundstate_units::machine::event::{ExecFailure, Stage};
use std::io;

/// "irc-bot: cannot run /usr/local/bin/irc-bot (execve): No such file or directory".
pub(crate) fn describe(unit: &str, failure: &ExecFailure) -> String {
    let ExecFailure { stage, errno, path } = failure;
    let stage_name = stage.as_str();
    let doing = match stage {
        Stage::WorkingDir => format!("cannot enter {path} ({stage_name})"),
        Stage::EnvFile => format!("cannot read {path} ({stage_name})"),
        Stage::User | Stage::Group => format!("cannot become {path} ({stage_name})"),
        Stage::Cgroup => format!("cannot use the cgroup of {path} ({stage_name})"),
        Stage::Limits => format!("cannot set {path} ({stage_name})"),
        Stage::Listen => format!("cannot listen on {path}"),
        Stage::ExecLine
        | Stage::Execve
        | Stage::Fork
        | Stage::Session
        | Stage::Stdio
        | Stage::Notify => format!("cannot run {path} ({stage_name})"),
    };
    format!("{unit}: {doing}: {}", reason(*stage, *errno))
}

/// What the errno means in this stage; strerror's words where they say it.
fn reason(stage: Stage, errno: i32) -> String {
    match (stage, errno) {
        (Stage::User, libc::ENOENT) => "there is no such user".to_string(),
        (Stage::Group, libc::ENOENT) => "there is no such group".to_string(),
        (Stage::ExecLine, libc::ESRCH) => {
            "$MAINPID is asked for, but there is no main process".to_string()
        }
        (Stage::ExecLine, libc::ENOENT) => "the line has no word left to run".to_string(),
        (Stage::ExecLine, libc::EINVAL) => "a word holds a NUL byte".to_string(),
        (_, libc::EINTR) => "killed before it was run".to_string(),
        _ => {
            let text = io::Error::from_raw_os_error(errno).to_string();
            text.split(" (os error").next().unwrap_or(&text).to_string()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_unit_program_stage_and_reason() {
        let path = "/usr/local/bin/irc-bot".to_string();
        let failure = ExecFailure { stage: Stage::Execve, errno: libc::ENOENT, path };
        assert_eq!(
            describe("irc-bot", &failure),
            "irc-bot: cannot run /usr/local/bin/irc-bot (execve): No such file or directory"
        );
        let failure =
            ExecFailure { stage: Stage::User, errno: libc::ENOENT, path: "www".to_string() };
        assert_eq!(
            describe("web", &failure),
            "web: cannot become www (user): there is no such user"
        );
    }
}
