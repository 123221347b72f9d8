//! A shutdown at a later time, as with shutdown(8). `initctl poweroff --at` writes the plan to a
//! file and wants the unit `planned-shutdown`. The unit runs [`carry_out`]. So init needs no clock
//! of its own for it, and `initctl status` and `initctl why` show the plan like any unit.

use groundstate_units::text::wall_clock::WallTime;
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use nix::errno::Errno;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The unit that carries the plan out, and the name of the file with the plan in init's runtime
/// directory.
pub(crate) const UNIT: &str = "planned-shutdown";
/// The file of the init of this machine.
pub(crate) const FILE: &str = "/run/groundstate/planned-shutdown";
/// The file that makes login(1) and sshd(8) refuse logins of other users than root: nologin(5).
pub(crate) const NOLOGIN: &str = "/run/nologin";
/// Minutes before the shutdown at which users are told, as shutdown(8) of sysvinit does.
const WARNINGS: [u64; 8] = [180, 120, 60, 30, 15, 10, 5, 1];
/// Minutes before the shutdown in which only root can log in.
const CLOSED: u64 = 5;
/// The latest time of a plan, in minutes from now: a year.
const LATEST: u64 = 366 * 24 * 60;
/// The verbs of a plan, and their words in the sentence for users.
const ACTIONS: [(&str, &str); 3] =
    [("poweroff", "powers off"), ("reboot", "reboots"), ("halt", "halts")];

/// A planned shutdown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Seconds since 1970.
    pub(crate) at: u64,
    /// The verb of initctl: `poweroff`, `reboot` or `halt`.
    pub(crate) verb: String,
    /// The text for users who are logged in.
    #[serde(default)]
    pub(crate) message: String,
}

/// Parses `+MINUTES`, or `HH:MM` in the local time zone, today or tomorrow. Returns the seconds
/// since 1970, or `None` if the text is neither, or the time is more than a year ahead.
pub(crate) fn point(text: &str, now: WallTime) -> Option<u64> {
    let seconds = now.as_millis() / 1000;
    if let Some(minutes) = text.strip_prefix('+') {
        let minutes = digits(minutes)?.parse().ok().filter(|minutes: &u64| *minutes <= LATEST)?;
        return Some(seconds + minutes * 60);
    }
    let (hour, minute) = text.split_once(':')?;
    let minute = digits(minute).filter(|minute| minute.len() == 2)?.parse().ok()?;
    let clock = Time::new(digits(hour)?.parse().ok()?, minute, 0, 0).ok()?;
    let here = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
    let here = here.to_zoned(TimeZone::system());
    let today = here.with().time(clock).build().ok()?;
    let next = if today > here { today } else { today.checked_add(1.day()).ok()? };
    u64::try_from(next.timestamp().as_second()).ok()
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

    /// The sentence for users.
    pub(crate) fn sentence(&self) -> String {
        let at = i64::try_from(self.at).ok().and_then(|at| Timestamp::from_second(at).ok());
        let at = at.map(|at| at.to_zoned(TimeZone::system()).strftime("%F %H:%M %Z").to_string());
        let action = ACTIONS.iter().find(|(verb, _)| *verb == self.verb);
        let action = action.map_or(self.verb.as_str(), |(_, action)| action);
        let mut text = format!("{}{}.", start(action), at.unwrap_or_default());
        if !self.message.is_empty() {
            text.push('\n');
            text.push_str(&self.message);
        }
        text
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

/// The start of the sentence for users.
fn start(action: &str) -> String {
    format!("This machine {action} at ")
}

/// Writes the text to the terminals of logged-in users with wall(1).
pub(crate) fn tell_users(text: &str) {
    let wall = Command::new("wall").stdin(Stdio::piped()).stderr(Stdio::null()).spawn();
    // Without wall(1) the log has the text.
    if let Ok(mut wall) = wall {
        if let Some(mut stdin) = wall.stdin.take() {
            let _ = stdin.write_all(text.as_bytes());
        }
        let _ = wall.wait();
    }
}

/// Allows logins again, if they were closed for a plan. The text is not compared with that of a
/// plan: the plan may be an earlier one, and the time zone of this process another one.
pub(crate) fn open_logins(nologin: &Path) {
    let is_ours = |text: String| ACTIONS.iter().any(|(_, action)| text.starts_with(&start(action)));
    if fs::read_to_string(nologin).is_ok_and(is_ours) {
        let _ = fs::remove_file(nologin);
    }
}

/// Closes logins, unless another program has closed them.
fn close_logins(nologin: &Path, text: &str) -> io::Result<()> {
    open_logins(nologin);
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
pub(crate) fn carry_out(
    path: &Path,
    nologin: &Path,
    now: WallTime,
    log: impl Fn(&str),
) -> io::Result<()> {
    let plan = Plan::read(path)?;
    let text = plan.sentence();
    log(&text);
    // This plan may replace one that had closed logins already.
    open_logins(nologin);
    for step in plan.steps(now.as_millis() / 1000) {
        wait_until(step)?;
        if Plan::read(path)? != plan {
            return Err(io::Error::other("another plan has replaced this one"));
        }
        if step >= plan.at.saturating_sub(CLOSED * 60)
            && let Err(error) = close_logins(nologin, &text)
        {
            log(&format!("{}: {error}", nologin.display()));
        }
        if step < plan.at {
            tell_users(&text);
        }
    }
    // A crash of this program after the shutdown must not start another one.
    fs::remove_file(path)?;
    let ended = shut_down(&plan);
    if ended.is_err() {
        open_logins(nologin);
    }
    ended
}

fn shut_down(plan: &Plan) -> io::Result<()> {
    let ended = Command::new("initctl").args([plan.verb.as_str(), "--yes"]).status()?;
    if ended.success() { Ok(()) } else { Err(io::Error::other(format!("initctl: {ended}"))) }
}

/// Sleeps until this second since 1970, also if the clock is set meanwhile.
///
/// # Errors
///
/// The second is no time of the kernel.
fn wait_until(second: u64) -> io::Result<()> {
    let point = TimeSpec::from_duration(Duration::from_secs(second));
    let how = ClockNanosleepFlags::TIMER_ABSTIME;
    loop {
        match clock_nanosleep(ClockId::CLOCK_REALTIME, how, &point) {
            Err(Errno::EINTR) => {}
            result => return Ok(result.map(drop)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: u64 = 1_764_417_600;

    fn plan(at: u64) -> Plan {
        Plan { at, verb: "reboot".to_string(), message: String::new() }
    }

    #[test]
    fn time_is_a_number_of_minutes_or_the_next_such_time_of_the_clock() {
        let now = WallTime::from_millis(NOON * 1000);
        assert_eq!(point("+5", now), Some(NOON + 300));
        assert_eq!(point("+0", now), Some(NOON));
        for wrong in [
            "5", "+", "++5", "7:+5", "-0:30", "+-1", "+600000", "24:00", "7:5", "07:60", "now",
            "-1:00", "",
        ] {
            assert_eq!(point(wrong, now), None, "{wrong}");
        }
        for minute in [0, 1, 719, 720, 1439] {
            let text = format!("{:02}:{:02}", minute / 60, minute % 60);
            let found = point(&text, now).unwrap();
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
    fn plan_is_read_back_from_its_file_unchanged() {
        let directory = std::env::temp_dir().join(format!("planned.{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join(UNIT);
        let one = Plan { message: "a new kernel".to_string(), ..plan(NOON) };
        std::os::unix::fs::symlink("other", directory.join("planned-shutdown.new")).unwrap();
        one.write(&path).unwrap();
        assert_eq!(Plan::read(&path).unwrap(), one);
        assert!(!directory.join("other").exists(), "a link is not followed");
        assert!(one.sentence().ends_with("\na new kernel"), "{}", one.sentence());
        fs::remove_dir_all(directory).unwrap();
    }

    #[test]
    fn logins_open_again_after_any_plan_and_stay_closed_for_another_program() {
        let directory = std::env::temp_dir().join(format!("nologin.{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let nologin = directory.join("nologin");
        for at in [NOON, NOON + 60] {
            close_logins(&nologin, &plan(at).sentence()).unwrap();
            let text = fs::read_to_string(&nologin).unwrap();
            assert_eq!(text, format!("{}\n", plan(at).sentence()), "the later plan counts");
        }
        open_logins(&nologin);
        assert!(!nologin.exists());
        fs::write(&nologin, "maintenance\n").unwrap();
        close_logins(&nologin, &plan(NOON).sentence()).unwrap();
        open_logins(&nologin);
        assert_eq!(fs::read_to_string(&nologin).unwrap(), "maintenance\n");
        fs::remove_dir_all(directory).unwrap();
    }
}
