//! Tests of the command sequence without processes.

use super::*;
use groundstate_units::machine::action::StopReason;
use groundstate_units::machine::event::Stage;
use groundstate_units::machine::reason::Reason;
use groundstate_units::spec::{ExecLine, SuccessStatus};
use groundstate_units::unit::settings::Settings;

const RUN: RunId = RunId(7);
const WELL: Exit = Exit::Code(0);

/// A unit of this kind with that many commands before the start, at start, at stop and at reload.
fn unit(kind: Kind, [pre, start, stop, reload]: [usize; 4]) -> Run {
    let lines = |count| vec![ExecLine::default(); count];
    let pid_file = (kind == Kind::BackgroundPidfile).then(|| "/run/x.pid".to_string());
    Run {
        pid_file,
        exec_start: lines(start),
        exec_start_pre: lines(pre),
        exec_stop: lines(stop),
        exec_reload: lines(reload),
        ..Run::of(kind)
    }
}

fn live(kind: Kind) -> Arc<Live> {
    Arc::new(Live::standard(kind, &Settings::default()))
}

fn sequence(kind: Kind, lines: [usize; 4]) -> CommandSequence {
    CommandSequence::new(RUN, &unit(kind, lines), &live(kind))
}

/// A run whose start command is running and has a post command.
fn with_post(kind: Kind) -> CommandSequence {
    let spec = Run { exec_start_post: vec![ExecLine::default()], ..unit(kind, [0, 1, 0, 0]) };
    let mut run = CommandSequence::new(RUN, &spec, &live(kind));
    run.begin();
    if kind == Kind::BackgroundPidfile {
        run.exited(CommandKind::Unlink, WELL);
    }
    run.executed(CommandKind::Start(0));
    run
}

/// A run whose only command is running and counts as ready.
fn running(kind: Kind, lines: [usize; 4]) -> CommandSequence {
    let mut run = sequence(kind, lines);
    assert_eq!(run.begin(), [Effect::Spawn(CommandKind::Start(0))]);
    assert_eq!(run.executed(CommandKind::Start(0)), [Effect::Tell(Event::Executed(RUN))]);
    run.note_counted_ready();
    run
}

fn stop(run: &mut CommandSequence) -> Vec<Effect> {
    run.stop(&StopReason::NotNeeded, false)
}

fn exec_failure() -> ExecFailure {
    ExecFailure { stage: Stage::Execve, errno: 2, path: "/x".to_string() }
}

#[test]
fn pre_commands_run_in_order_until_one_fails() {
    let mut run = sequence(Kind::ForegroundSupervised, [2, 1, 0, 0]);
    assert_eq!(run.begin(), [Effect::Spawn(CommandKind::Pre(0))]);
    assert_eq!(run.executed(CommandKind::Pre(0)), []);
    assert_eq!(run.exited(CommandKind::Pre(0), WELL), [Effect::Spawn(CommandKind::Pre(1))]);
    assert_eq!(run.exited(CommandKind::Pre(1), Exit::Code(3)), [Effect::Look]);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Ended(RUN, Exit::Code(3)))]);
}

#[test]
fn oneshot_runs_all_its_commands_and_reports_the_last_exit() {
    let mut run = sequence(Kind::Oneshot, [0, 2, 0, 0]);
    assert_eq!(run.begin(), [Effect::Spawn(CommandKind::Start(0))]);
    assert_eq!(run.executed(CommandKind::Start(0)), [Effect::Tell(Event::Executed(RUN))]);
    assert_eq!(run.exited(CommandKind::Start(0), WELL), [Effect::Spawn(CommandKind::Start(1))]);
    assert_eq!(run.executed(CommandKind::Start(1)), [], "reported once");
    assert_eq!(run.exited(CommandKind::Start(1), WELL), [Effect::Look]);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Ended(RUN, WELL))]);
    assert_eq!(run.looked(false, false), [], "reported once");
    assert_eq!(run.stop(&StopReason::NotNeeded, true), [Effect::Forget]);
}

#[test]
fn leftover_processes_of_an_exited_run_delay_its_gone_report() {
    let mut run = running(Kind::ForegroundSupervised, [0, 1, 0, 0]);
    assert_eq!(run.exited(CommandKind::Start(0), Exit::Code(1)), [Effect::Look]);
    assert_eq!(run.looked(true, false), [Effect::Tell(Event::Exited(RUN, Exit::Code(1)))]);
    let told = run.stop(&StopReason::Leftovers, false);
    assert_eq!(told, [Effect::Signal(Whom::All, 15), Effect::Look]);
    assert_eq!(run.looked(true, false), []);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Gone(RUN)), Effect::Forget]);
}

#[test]
fn main_process_announced_during_a_stop_gets_the_stop_signal() {
    let mut run = running(Kind::ForegroundSupervised, [0, 1, 0, 0]);
    assert_eq!(stop(&mut run), [Effect::Signal(Whom::Main, 15)]);
    assert_eq!(run.main_changed(), [Effect::Signal(Whom::Main, 15)]);
}

#[test]
fn stop_signals_the_main_process_first_and_the_rest_after_its_exit() {
    let mut run = running(Kind::ForegroundSupervised, [0, 1, 0, 0]);
    assert_eq!(stop(&mut run), [Effect::Signal(Whom::Main, 15)]);
    assert_eq!(stop(&mut run), [], "reported once");
    let rest = run.exited(CommandKind::Start(0), Exit::Signal { signal: 15, core: false });
    assert_eq!(rest, [Effect::Signal(Whom::All, 15), Effect::Look]);
    let ended = Event::Ended(RUN, Exit::Signal { signal: 15, core: false });
    assert_eq!(run.looked(false, false), [Effect::Tell(ended)]);
}

#[test]
fn exec_stop_replaces_the_stop_signal_unless_it_fails() {
    let mut run = running(Kind::ForegroundSupervised, [0, 1, 2, 0]);
    assert_eq!(stop(&mut run), [Effect::Spawn(CommandKind::Stop(0))]);
    assert_eq!(run.exited(CommandKind::Stop(0), WELL), [Effect::Spawn(CommandKind::Stop(1))]);
    assert_eq!(run.exited(CommandKind::Stop(1), WELL), [], "the main process may take its time");
    let mut run = running(Kind::ForegroundSupervised, [0, 1, 1, 0]);
    assert_eq!(stop(&mut run), [Effect::Spawn(CommandKind::Stop(0))]);
    let failed = |reason| Effect::Tell(Event::StopFailed(RUN, reason));
    assert_eq!(
        run.exited(CommandKind::Stop(0), Exit::Code(1)),
        [failed(Reason::Exit(Exit::Code(1))), Effect::Signal(Whom::Main, 15)]
    );
    let mut run = running(Kind::ForegroundSupervised, [0, 1, 1, 0]);
    stop(&mut run);
    assert_eq!(
        run.not_executed(CommandKind::Stop(0), exec_failure()),
        [failed(Reason::Exec(exec_failure())), Effect::Signal(Whom::Main, 15)]
    );
}

#[test]
fn run_that_was_never_ready_is_stopped_without_exec_stop() {
    let mut run = sequence(Kind::ForegroundNotified, [0, 1, 1, 0]);
    run.begin();
    run.executed(CommandKind::Start(0));
    let told = run.stop(&StopReason::StartTimeout, false);
    assert_eq!(told, [Effect::Signal(Whom::Main, 15)]);
}

#[test]
fn exec_stop_of_a_script_without_processes_runs() {
    let mut run = running(Kind::Oneshot, [0, 1, 1, 0]);
    run.exited(CommandKind::Start(0), WELL);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Ended(RUN, WELL))]);
    assert_eq!(stop(&mut run), [Effect::Spawn(CommandKind::Stop(0))]);
    assert_eq!(run.looked(true, true), []);
    assert_eq!(
        run.exited(CommandKind::Stop(0), WELL),
        [Effect::Signal(Whom::All, 15), Effect::Look]
    );
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Gone(RUN)), Effect::Forget]);
}

#[test]
fn stopped_script_without_processes_reports_gone_again_after_its_stop() {
    let mut run = running(Kind::Oneshot, [0, 1, 1, 0]);
    assert_eq!(run.exited(CommandKind::Start(0), WELL), [Effect::Look]);
    assert_eq!(run.looked(true, false), [Effect::Tell(Event::Exited(RUN, WELL))]);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Gone(RUN))], "and is not forgotten");
    assert_eq!(stop(&mut run), [Effect::Spawn(CommandKind::Stop(0))]);
    assert_eq!(
        run.exited(CommandKind::Stop(0), WELL),
        [Effect::Signal(Whom::All, 15), Effect::Look]
    );
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Gone(RUN)), Effect::Forget]);
}

#[test]
fn stop_commands_of_a_oneshot_without_remain_run_once() {
    let spec = Run { remain: false, ..unit(Kind::Oneshot, [0, 1, 1, 0]) };
    let mut run = CommandSequence::new(RUN, &spec, &live(spec.kind));
    assert_eq!(run.begin(), [Effect::Spawn(CommandKind::Start(0))]);
    run.executed(CommandKind::Start(0));
    assert_eq!(run.exited(CommandKind::Start(0), WELL), [Effect::Spawn(CommandKind::Stop(0))]);
    assert_eq!(
        run.exited(CommandKind::Stop(0), WELL),
        [Effect::Signal(Whom::All, 15), Effect::Look]
    );
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Ended(RUN, WELL))]);
    assert_eq!(stop(&mut run), [Effect::Signal(Whom::All, 15), Effect::Look]);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Gone(RUN)), Effect::Forget]);
}

#[test]
fn failed_exec_is_reported_when_no_process_is_left() {
    let mut run = sequence(Kind::ForegroundSupervised, [1, 1, 0, 0]);
    run.begin();
    run.exited(CommandKind::Pre(0), WELL);
    let failed = run.not_executed(CommandKind::Start(0), exec_failure());
    assert_eq!(failed, [Effect::Kill, Effect::Look]);
    assert_eq!(
        run.looked(true, false),
        [],
        "processes left by an earlier command are being killed"
    );
    let told = Event::StartFailed(RUN, exec_failure());
    assert_eq!(run.looked(false, false), [Effect::Tell(told), Effect::Forget]);
}

#[test]
fn last_lines_are_read_before_the_exit_of_a_run_with_ready_grep() {
    let mut spec = unit(Kind::ForegroundSupervised, [0, 1, 0, 0]);
    spec.ready_grep = Some("up".to_string());
    let mut run = CommandSequence::new(RUN, &spec, &live(spec.kind));
    run.begin();
    run.executed(CommandKind::Start(0));
    assert_eq!(run.exited(CommandKind::Start(0), WELL), [Effect::Drain]);
    assert_eq!(run.ready(), [Effect::Tell(Event::Ready(RUN))], "the line was there");
    assert_eq!(run.drained(), [Effect::Look]);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Ended(RUN, WELL))]);
    assert_eq!(run.drained(), [], "once");
}

#[test]
fn successful_exit_of_a_launcher_starts_the_search_for_its_pid_file() {
    let mut run = sequence(Kind::BackgroundPidfile, [0, 1, 0, 0]);
    assert_eq!(run.begin(), [Effect::RemovePidFile]);
    assert_eq!(
        run.exited(CommandKind::Unlink, Exit::Code(30)),
        [Effect::Spawn(CommandKind::Start(0))]
    );
    run.executed(CommandKind::Start(0));
    assert_eq!(run.exited(CommandKind::Start(0), WELL), [Effect::SeekPidFile]);
    assert_eq!(run.looked(true, false), [], "the daemon may still write it");
    assert_eq!(run.main_found(), [Effect::Tell(Event::Ready(RUN))]);
    assert_eq!(run.exited(CommandKind::Main, Exit::Code(1)), [Effect::Look]);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Ended(RUN, Exit::Code(1)))]);
}

#[test]
fn exit_status_lists_do_not_apply_to_commands_before_the_main_process() {
    let kind = Kind::ForegroundSupervised;
    let standard = || Live::standard(kind, &Settings::default());
    let list = || SuccessStatus { codes: vec![43], signals: Vec::new() };
    for (live, is_listed) in [
        (Live { restart_except: list(), ..standard() }, true),
        (Live { restart_also: list(), ..standard() }, true),
        (Live { success_status: list(), ..standard() }, true),
        (standard(), false),
    ] {
        let mut run = CommandSequence::new(RUN, &unit(kind, [1, 1, 0, 0]), &Arc::new(live));
        assert_eq!(run.begin(), [Effect::Spawn(CommandKind::Pre(0))]);
        let effects = run.exited(CommandKind::Pre(0), Exit::Code(43));
        let is_told_apart = matches!(effects[0], Effect::Tell(Event::Protocol(RUN, _)));
        assert_eq!(is_told_apart, is_listed, "{effects:?}");
    }
}

#[test]
fn launcher_that_leaves_neither_file_nor_process_fails_the_start() {
    let mut run = sequence(Kind::BackgroundPidfile, [0, 1, 0, 0]);
    run.begin();
    run.exited(CommandKind::Unlink, WELL);
    run.exited(CommandKind::Start(0), WELL);
    let told = run.looked(false, false);
    assert!(matches!(&told[..], [Effect::Tell(Event::Protocol(RUN, _)), Effect::Look]), "{told:?}");
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Gone(RUN)), Effect::Forget]);
}

#[test]
fn reload_ends_with_its_last_command_or_with_the_announced_ready() {
    let mut run = running(Kind::ForegroundNotified, [0, 1, 0, 2]);
    assert_eq!(run.reload(), [Effect::Spawn(CommandKind::Reload(0))]);
    assert_eq!(run.exited(CommandKind::Reload(0), WELL), [Effect::Spawn(CommandKind::Reload(1))]);
    let done = [Effect::Tell(Event::Reloaded(RUN, true))];
    assert_eq!(run.exited(CommandKind::Reload(1), WELL), done);
    run.reload();
    run.exited(CommandKind::Reload(0), WELL);
    assert_eq!(run.reloading(), [Effect::Tell(Event::Reloading(RUN))]);
    assert_eq!(
        run.exited(CommandKind::Reload(1), WELL),
        [],
        "READY=1 of the run will end the reload"
    );
    assert_eq!(run.ready(), [Effect::Tell(Event::Ready(RUN))]);
    run.reload();
    let failed = [Effect::Tell(Event::Reloaded(RUN, false))];
    assert_eq!(run.exited(CommandKind::Reload(0), Exit::Code(1)), failed);
}

#[test]
fn abandoned_announced_reload_does_not_delay_the_next_reload() {
    let mut run = running(Kind::ForegroundNotified, [0, 1, 0, 1]);
    assert_eq!(run.reloading(), [Effect::Tell(Event::Reloading(RUN))]);
    // It never sends READY=1, and the machine's timeout has passed.
    assert_eq!(run.reload(), [Effect::Spawn(CommandKind::Reload(0))]);
    let done = [Effect::Tell(Event::Reloaded(RUN, true))];
    assert_eq!(run.exited(CommandKind::Reload(0), WELL), done);
}

#[test]
fn announced_daemon_becomes_the_main_process_after_the_exit_of_its_launcher() {
    let mut run = with_post(Kind::BackgroundPidfile);
    assert_eq!(run.main_changed(), [], "its launcher is at work");
    assert_eq!(run.ready(), [], "its messages do not count");
    assert_eq!(run.exited(CommandKind::Start(0), WELL), [Effect::Spawn(CommandKind::Post(0))]);
    assert_eq!(run.exited(CommandKind::Post(0), WELL), [Effect::Tell(Event::Ready(RUN))]);
    assert_eq!(stop(&mut run), [Effect::Signal(Whom::Main, 15)]);
    // A main process announced during the search for the pid file.
    let mut run = with_post(Kind::BackgroundPidfile);
    assert_eq!(run.exited(CommandKind::Start(0), WELL), [Effect::SeekPidFile]);
    assert_eq!(run.ready(), [], "the main process is not known yet");
    assert_eq!(run.main_changed(), [Effect::Spawn(CommandKind::Post(0))]);
}

#[test]
fn exit_of_a_process_announced_by_a_script_does_not_end_the_script() {
    let mut run = sequence(Kind::Oneshot, [0, 2, 0, 0]);
    run.begin();
    run.executed(CommandKind::Start(0));
    assert_eq!(run.main_changed(), []);
    assert_eq!(run.exited(CommandKind::Main, Exit::Code(1)), [Effect::Look]);
    assert_eq!(run.looked(true, true), []);
    assert_eq!(run.exited(CommandKind::Start(0), WELL), [Effect::Spawn(CommandKind::Start(1))]);
    assert_eq!(run.exited(CommandKind::Start(1), WELL), [Effect::Look]);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Ended(RUN, WELL))]);
}

#[test]
fn message_of_a_script_does_not_make_it_ready_before_its_last_command_exits() {
    for kind in [Kind::Oneshot, Kind::BackgroundScripted] {
        let mut run = with_post(kind);
        assert_eq!(run.ready(), [], "{kind:?}");
        assert_eq!(run.reloading(), [], "{kind:?}");
        assert_eq!(run.exited(CommandKind::Start(0), WELL), [Effect::Spawn(CommandKind::Post(0))]);
        assert_eq!(run.ready(), [], "{kind:?}");
        assert_eq!(run.exited(CommandKind::Post(0), WELL), [Effect::Look]);
        assert_eq!(run.looked(true, false), [Effect::Tell(Event::Exited(RUN, WELL))]);
    }
}

#[test]
fn stop_during_the_last_command_of_a_script_signals_that_command_and_then_the_rest() {
    for exit in [Exit::Signal { signal: 15, core: false }, WELL] {
        let mut run = with_post(Kind::BackgroundScripted);
        run.exited(CommandKind::Start(0), WELL);
        assert_eq!(stop(&mut run), [Effect::Signal(Whom::Main, 15)]);
        let rest = [Effect::Signal(Whom::All, 15), Effect::Look];
        assert_eq!(run.exited(CommandKind::Post(0), exit), rest, "processes left by its script");
        assert_eq!(run.looked(true, false), []);
        assert_eq!(run.looked(false, false), [Effect::Tell(Event::Gone(RUN)), Effect::Forget]);
    }
    let mut run = with_post(Kind::ForegroundSupervised);
    stop(&mut run);
    assert_eq!(
        run.exited(CommandKind::Post(0), WELL),
        [Effect::Look],
        "its main process is waited for"
    );
}

#[test]
fn message_of_a_stopping_run_does_not_make_it_ready() {
    let mut run = running(Kind::ForegroundNotified, [0, 1, 0, 0]);
    stop(&mut run);
    assert_eq!(run.ready(), []);
    assert_eq!(run.reloading(), []);
    assert_eq!(run.reload(), [Effect::Tell(Event::Reloaded(RUN, false))]);
}

#[test]
fn kill_reaches_all_processes_and_gone_follows_the_last_exit() {
    let mut run = running(Kind::ForegroundSupervised, [0, 1, 1, 0]);
    stop(&mut run);
    assert_eq!(run.kill(), [Effect::Kill, Effect::Look]);
    assert_eq!(run.looked(true, true), []);
    let killed = Exit::Signal { signal: 9, core: false };
    assert_eq!(run.exited(CommandKind::Start(0), killed), [Effect::Look]);
    assert_eq!(run.looked(false, true), [Effect::Tell(Event::Exited(RUN, killed))]);
    assert_eq!(run.exited(CommandKind::Stop(0), killed), [Effect::Look]);
    assert_eq!(run.looked(false, false), [Effect::Tell(Event::Gone(RUN)), Effect::Forget]);
}
