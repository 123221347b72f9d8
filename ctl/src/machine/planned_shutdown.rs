//! A shutdown at a later time, as with shutdown(8). `initctl poweroff --at` writes the plan to a
//! file and wants the unit `planned-shutdown`. The unit runs [`carry_out`], and [`open_logins`] after
//! its end. So init needs no clock of its own for it, and `initctl status` and `initctl why` show the
//! plan like any unit.

use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_gettime, clock_nanosleep};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The unit that carries the plan out, and the name of the file with the plan.
pub(crate) const UNIT: &str = "planned-shutdown";
/// The file that makes login(1) and sshd(8) refuse logins of other users than root: nologin(5).
pub(crate) const NOLOGIN: &str = "/run/nologin";
/// Minutes before the shutdown at which users are told, as shutdown(8) of sysvinit does.
const WARNINGS: [u64; 8] = [180, 120, 60, 30, 15, 10, 5, 1];
/// Only root can log in during these minutes before the shutdown.
const CLOSED: u64 = 5;
/// How long wall(1) may take.
const WALL: Duration = Duration::from_secs(5);
/// The latest time of a plan, in minutes from now: a year.
const LATEST: u64 = 366 * 24 * 60;
/// The verbs of a plan, and their words in the sentence for users.
const ACTIONS: [(&str, &str); 3] =
    [("poweroff", "powers off"), ("reboot", "reboots"), ("halt", "halts")];

/// The clock of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Clock {
    /// Seconds since 1970, for a time of day.
    #[default]
    Realtime,
    /// Seconds since the boot, for a number of minutes: a change of the time of day does not move it.
    Boottime,
}

impl Clock {
    fn id(self) -> ClockId {
        match self {
            Clock::Realtime => ClockId::CLOCK_REALTIME,
            Clock::Boottime => ClockId::CLOCK_BOOTTIME,
        }
    }
}

/// Reads a clock.
pub(crate) fn now(clock: Clock) -> Duration {
    // Linux always has both clocks.
    clock_gettime(clock.id()).map(Duration::from).unwrap_or_default()
}

/// The file with the plan, beside the control socket of init. The client and the unit find the
/// socket in the same way.
pub(crate) fn file(socket: &str) -> PathBuf {
    Path::new(socket).with_file_name(UNIT)
}

/// A planned shutdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Seconds of the clock.
    pub(crate) at: u64,
    /// The clock.
    #[serde(default)]
    pub(crate) clock: Clock,
    /// The verb of initctl: `poweroff`, `reboot` or `halt`.
    pub(crate) verb: String,
    /// The text for users who are logged in.
    #[serde(default)]
    pub(crate) message: String,
}

/// Parses `+MINUTES`, or `HH:MM` in the local time zone, today or tomorrow. Returns the seconds of a
/// clock, or `None` if the text is neither, or the time is more than a year ahead.
pub(crate) fn point(text: &str, now: impl Fn(Clock) -> Duration) -> Option<(u64, Clock)> {
    if let Some(minutes) = text.strip_prefix('+') {
        let minutes = digits(minutes)?.parse().ok().filter(|minutes: &u64| *minutes <= LATEST)?;
        return Some((now(Clock::Boottime).as_secs() + minutes * 60, Clock::Boottime));
    }
    let seconds = now(Clock::Realtime).as_secs();
    let (hour, minute) = text.split_once(':')?;
    let minute = digits(minute).filter(|minute| minute.len() == 2)?.parse().ok()?;
    let clock = Time::new(digits(hour)?.parse().ok()?, minute, 0, 0).ok()?;
    let here = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    let here = here.to_zoned(TimeZone::system());
    let today = here.with().time(clock).build().ok()?;
    let next = if today > here { today } else { today.checked_add(1.day()).ok()? };
    Some((u64::try_from(next.timestamp().as_second()).ok()?, Clock::Realtime))
}

/// Returns the text if it has digits only: `parse` would also accept a sign.
fn digits(text: &str) -> Option<&str> {
    Some(text).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))
}

impl Plan {
    /// Reads the plan of this file.
    ///
    /// # Errors
    ///
    /// The file is missing, unreadable or no plan.
    pub(crate) fn read(path: &Path) -> io::Result<Plan> {
        serde_json::from_slice(&fs::read(path)?).map_err(io::Error::other)
    }

    /// Replaces the plan of this file.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        let _ = fs::remove_file(&new);
        // A link that a container has planted in its directory must not lead to a file of the host.
        File::create_new(&new)?.write_all(&serde_json::to_vec(self)?)?;
        fs::rename(new, path)
    }

    /// The sentence for users. It has the present time of day of the shutdown.
    pub(crate) fn sentence(&self, now: impl Fn(Clock) -> Duration) -> String {
        let at = now(Clock::Realtime) + Duration::from_secs(self.at);
        let at = i64::try_from(at.saturating_sub(now(self.clock)).as_secs()).ok();
        let at = at.and_then(|at| Timestamp::from_second(at).ok());
        let at = at.map(|at| at.to_zoned(TimeZone::system()).strftime("%F %H:%M %Z").to_string());
        let mut text = format!("{} {}.", first_words(self.action(), AT), at.unwrap_or_default());
        if !self.message.is_empty() {
            text.push('\n');
            text.push_str(&self.message);
        }
        text
    }

    fn action(&self) -> &str {
        let action = ACTIONS.iter().find(|(verb, _)| *verb == self.verb);
        action.map_or(self.verb.as_str(), |(_, action)| action)
    }

    /// The points at which the program acts, from `now` on: each warning, the start of nologin(5),
    /// and the shutdown.
    fn steps(&self, now: u64) -> Vec<u64> {
        let points = WARNINGS.iter().map(|minutes| self.at.saturating_sub(minutes * 60));
        let mut points: Vec<u64> = points.filter(|point| *point > now).collect();
        points.insert(0, now);
        points.push(self.at);
        points
    }
}

/// The words before the time in the sentence for users: the shutdown is planned, or it has started.
const AT: &str = "at";
const NOW: &str = "now.";

/// Returns the first words of the sentence for users.
fn first_words(action: &str, when: &str) -> String {
    format!("This machine {action} {when}")
}

/// Writes the text to the terminals of logged-in users with wall(1).
pub(crate) fn tell_users(text: &str) {
    feed_stdin(&mut with_time_limit("wall", WALL), text);
}

/// The program, killed by timeout(1) if it runs for too long.
fn with_time_limit(program: &str, limit: Duration) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", &limit.as_secs_f32().to_string(), program]);
    command
}

/// Runs a program with this text as its standard input.
fn feed_stdin(program: &mut Command, text: &str) {
    // Without wall(1) or timeout(1) the log has the text.
    let Ok(mut child) = program.stdin(Stdio::piped()).stderr(Stdio::null()).spawn() else { return };
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(text.as_bytes());
    }
    let _ = child.wait();
}

/// Allows logins again, if they were closed for a plan whose time has not come. The unit runs this
/// after its end. The text is not compared with that of a plan: the plan may be an earlier one, and
/// the time zone of this process another one.
pub(crate) fn open_logins(nologin: &Path) {
    remove(nologin, AT);
}

fn remove(nologin: &Path, when: &str) {
    let is_ours = |text: String| {
        ACTIONS.iter().any(|(_, action)| text.starts_with(&first_words(action, when)))
    };
    if fs::read_to_string(nologin).is_ok_and(is_ours) {
        let _ = fs::remove_file(nologin);
    }
}

/// Closes logins, unless another program has closed them. Replaces the text of an earlier plan, also
/// of one whose program was killed during its shutdown.
fn close_logins(nologin: &Path, text: &str) -> io::Result<()> {
    remove(nologin, AT);
    remove(nologin, NOW);
    match File::create_new(nologin) {
        Ok(mut file) => writeln!(file, "{text}"),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(error),
    }
}

/// Waits for the time of the plan in the file `path`, warns users on the way, and runs `initctl`.
/// `log` gets the sentence for users once.
///
/// # Errors
///
/// The plan cannot be read or was replaced, or initctl cannot be executed.
pub(crate) fn carry_out(path: &Path, nologin: &Path, log: impl Fn(&str)) -> io::Result<()> {
    let plan = Plan::read(path)?;
    log(&plan.sentence(now));
    remove(nologin, NOW);
    let close = |text: &str| {
        close_logins(nologin, text)
            .unwrap_or_else(|error| log(&format!("{}: {error}", nologin.display())));
    };
    for step in plan.steps(now(plan.clock).as_secs()) {
        wait_until(plan.clock, step)?;
        if Plan::read(path)? != plan {
            return Err(io::Error::other("another plan has replaced this one"));
        }
        let text = plan.sentence(now);
        if step >= plan.at.saturating_sub(CLOSED * 60) {
            close(&text);
        }
        if step < plan.at {
            tell_users(&text);
        }
    }
    // A crash of this program after the shutdown must not start another one.
    fs::remove_file(path)?;
    // With this text, logins stay closed after the end of the unit.
    close(&first_words(plan.action(), NOW));
    let ended = shut_down(&plan);
    if ended.is_err() {
        remove(nologin, NOW);
    }
    ended
}

fn shut_down(plan: &Plan) -> io::Result<()> {
    let ended = Command::new("initctl").args([plan.verb.as_str(), "--yes"]).status()?;
    if ended.success() { Ok(()) } else { Err(io::Error::other(format!("initctl: {ended}"))) }
}

/// Sleeps until this second of the clock, also if the clock is set meanwhile.
///
/// # Errors
///
/// The second is no time of the kernel.
fn wait_until(clock: Clock, second: u64) -> io::Result<()> {
    let point = TimeSpec::from_duration(Duration::from_secs(second));
    let how = ClockNanosleepFlags::TIMER_ABSTIME;
    loop {
        match clock_nanosleep(clock.id(), how, &point) {
            Err(Errno::EINTR) => {}
            result => return Ok(result.map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    const NOON: u64 = 1_764_417_600;

    fn plan(at: u64) -> Plan {
        let (verb, message) = ("reboot".to_string(), String::new());
        Plan { at, clock: Clock::Realtime, verb, message }
    }

    /// Noon, ten minutes after the boot.
    fn noon(clock: Clock) -> Duration {
        Duration::from_secs(if clock == Clock::Realtime { NOON } else { 600 })
    }

    #[test]
    fn time_is_a_number_of_minutes_or_the_next_such_time_of_the_clock() {
        assert_eq!(point("+5", noon), Some((900, Clock::Boottime)));
        assert_eq!(point("+0", noon), Some((600, Clock::Boottime)));
        for wrong in [
            "5", "+", "++5", "7:+5", "-0:30", "+-1", "+600000", "24:00", "7:5", "07:60", "now",
            "-1:00", "",
        ] {
            assert_eq!(point(wrong, noon), None, "{wrong}");
        }
        for minute in [0, 1, 719, 720, 1439] {
            let text = format!("{:02}:{:02}", minute / 60, minute % 60);
            let (found, clock) = point(&text, noon).unwrap();
            assert_eq!(clock, Clock::Realtime);
            assert!(
                found > NOON && found <= NOON + 25 * 3600 && found.is_multiple_of(60),
                "{text}"
            );
        }
    }

    #[test]
    fn users_are_told_at_once_and_at_each_warning_before_the_shutdown() {
        let steps = plan(NOON + 11 * 60).steps(NOON);
        let minutes: Vec<u64> = steps.iter().map(|step| (step - NOON) / 60).collect();
        assert_eq!(minutes, [0, 1, 6, 10, 11]);
        assert_eq!(plan(NOON).steps(NOON), [NOON, NOON]);
    }

    #[test]
    fn number_of_minutes_is_kept_and_its_time_of_day_follows_a_change_of_the_clock() {
        let (at, clock) = point("+5", noon).unwrap();
        let plan = Plan { at, clock, ..plan(0) };
        let set = |clock| {
            noon(clock) + Duration::from_secs(if clock == Clock::Realtime { 3600 } else { 60 })
        };
        let steps =
            |now: Duration| plan.steps(now.as_secs()).last().map(|last| last - now.as_secs());
        assert_eq!(steps(noon(clock)), Some(300));
        assert_eq!(steps(set(clock)), Some(240));
        let of_day = |at| Plan { at, clock: Clock::Realtime, ..plan.clone() }.sentence(set);
        assert_eq!(plan.sentence(set), of_day(NOON + 3600 + 240));
        let text = "{\"at\":1,\"verb\":\"halt\"}";
        assert_eq!(serde_json::from_str::<Plan>(text).unwrap().clock, Clock::Realtime);
    }

    #[test]
    fn program_that_does_not_read_and_does_not_end_is_killed_at_its_limit() {
        let directory = std::env::temp_dir().join(format!("wall.{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let script = |text: &str, limit| {
            let mut command = with_time_limit("/bin/sh", limit);
            command.args(["-c", text]).current_dir(&directory);
            command
        };
        feed_stdin(&mut script("cat >got", Duration::from_secs(600)), "text");
        assert_eq!(fs::read_to_string(directory.join("got")).unwrap(), "text");
        let (mut output, writer) = io::pipe().unwrap();
        let mut hung = script("exec sleep 100000", Duration::from_millis(100));
        feed_stdin(hung.stdout(writer), &"x".repeat(4 * 1024 * 1024));
        drop(hung);
        // The pipe ends with the process.
        assert_eq!(output.read(&mut [0]).unwrap(), 0);
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn plan_is_read_back_from_its_file_unchanged() {
        let directory = std::env::temp_dir().join(format!("planned.{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(UNIT);
        let one = Plan { message: "a new kernel".to_string(), ..plan(NOON) };
        std::os::unix::fs::symlink("other", directory.join("planned-shutdown.new")).unwrap();
        one.write(&path).unwrap();
        assert_eq!(Plan::read(&path).unwrap(), one);
        assert!(!directory.join("other").exists(), "a link is not followed");
        assert!(one.sentence(noon).ends_with("\na new kernel"), "{}", one.sentence(noon));
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn logins_open_again_after_any_plan_and_stay_closed_for_another_program() {
        let directory = std::env::temp_dir().join(format!("nologin.{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let nologin = directory.join("nologin");
        for at in [NOON, NOON + 60] {
            close_logins(&nologin, &plan(at).sentence(noon)).unwrap();
            let text = fs::read_to_string(&nologin).unwrap();
            assert_eq!(text, format!("{}\n", plan(at).sentence(noon)), "the later plan counts");
        }
        open_logins(&nologin);
        assert!(!nologin.exists());
        close_logins(&nologin, &first_words("reboots", NOW)).unwrap();
        open_logins(&nologin);
        assert_eq!(fs::read_to_string(&nologin).unwrap(), "This machine reboots now.\n");
        close_logins(&nologin, &plan(NOON).sentence(noon)).unwrap();
        open_logins(&nologin);
        assert!(!nologin.exists(), "a later plan replaces that of a killed program");
        fs::write(&nologin, "maintenance\n").unwrap();
        close_logins(&nologin, &plan(NOON).sentence(noon)).unwrap();
        open_logins(&nologin);
        assert_eq!(fs::read_to_string(&nologin).unwrap(), "maintenance\n");
        fs::remove_dir_all(directory).unwrap();
    }
}
