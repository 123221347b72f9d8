//! Finds out whether init only restarts a fleetd that was told to stop. It asks until init answers.
//! Without an answer, fleetd stops only its exclusive units.

use super::init_socket::{InitFault, InitSocket};
use groundstate_units::control::answer::{Status, System, Whose};
use groundstate_units::control::request::Verb;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Delay between attempts.
const AGAIN: Duration = Duration::from_millis(100);
/// Number of failed connections in a row after which init counts as absent. A restarting init
/// listens again before that.
const ABSENT: u32 = 10;

/// The fate of fleetd after a stop signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Init restarts it: its unit is needed, and init is not shutting down.
    Restarted,
    /// It is stopped for good, or there is no init.
    Over,
    /// Init exists but does not answer.
    Unknown,
}

impl Fate {
    /// Asks init for the fate of this fleetd. After the time limit the fate is `Over` if no init
    /// exists, and otherwise `Unknown`.
    pub(super) async fn from_init(init: &InitSocket, within: Duration) -> Fate {
        let mut without_answer = Fate::Unknown;
        let asking = async {
            let mut absent = 0;
            while absent < ABSENT {
                without_answer = Fate::Unknown;
                if let Ok(fate) = ask(init).await {
                    return fate;
                }
                let is_absent = init.is_absent().await;
                absent = if is_absent { absent + 1 } else { 0 };
                if is_absent {
                    without_answer = Fate::Over;
                }
                sleep(AGAIN).await;
            }
            Fate::Over
        };
        let fate = timeout(within, asking).await;
        fate.unwrap_or(without_answer)
    }
}

async fn ask(init: &InitSocket) -> Result<Fate, InitFault> {
    let pid = i32::try_from(std::process::id()).unwrap_or_default();
    let whose: Whose = init.ask(Verb::Whose { pid }).await?;
    let Some(name) = whose.unit else { return Ok(Fate::Over) };
    let status: Status = init.ask(Verb::Status { targets: Vec::new() }).await?;
    let is_needed = status.units.iter().any(|unit| unit.unit == name && unit.needed);
    Ok(if is_needed && status.system != System::Stopping { Fate::Restarted } else { Fate::Over })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};
    use std::os::unix::net::UnixListener;
    use std::path::{Path, PathBuf};

    const LONG: Duration = Duration::from_secs(60);
    const BUSY: &str = r#"{"v":1,"id":0,"error":{"kind":"busy","message":"too many","hint":""}}"#;
    const OURS: &str = r#"{"v":1,"id":1,"ok":{"unit":"fleetd"}}"#;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("farewell-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn status(needed: bool, system: &str) -> String {
        let unit = serde_json::json!({
            "unit": "fleetd", "type": "foreground-notified", "state": "running", "needed": needed, "file": "f",
        });
        let overlay = serde_json::json!({ "with": [], "without": [] });
        let status = serde_json::json!({ "overlay": overlay, "system": system, "units": [unit] });
        serde_json::json!({ "v": 1, "id": 1, "ok": status }).to_string()
    }

    /// A fake init that sends one line to each client, and then only hangs up.
    fn saying(folder: &Path, lines: &[&str]) -> InitSocket {
        let path = folder.join("control.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
        std::thread::spawn(move || {
            let mut lines = lines.into_iter();
            for stream in listener.incoming() {
                let stream = stream.unwrap();
                let mut asked = String::new();
                let _ = BufReader::new(&stream).read_line(&mut asked);
                if asked.is_empty() {
                    continue;
                }
                if let Some(line) = lines.next().filter(|line| !line.is_empty()) {
                    let _ = writeln!(&stream, "{line}");
                }
            }
        });
        InitSocket::new(path)
    }

    #[tokio::test]
    async fn busy_init_is_asked_again() {
        let needed = status(true, "running");
        for (name, lines, fate) in [
            ("busy", vec![BUSY, OURS, "", OURS, &needed], Fate::Restarted),
            ("torn", vec!["", "{", OURS, BUSY, OURS, &needed], Fate::Restarted),
            ("not", vec![BUSY, OURS, &status(false, "running")], Fate::Over),
            ("ending", vec![OURS, BUSY, OURS, &status(true, "stopping")], Fate::Over),
            ("stranger", vec![r#"{"v":1,"id":1,"ok":{"unit":null}}"#], Fate::Over),
        ] {
            let folder = folder(name);
            assert_eq!(Fate::from_init(&saying(&folder, &lines), LONG).await, fate, "{name}");
            std::fs::remove_dir_all(&folder).unwrap();
        }
    }

    #[tokio::test]
    async fn silent_init_leaves_the_fate_unknown() {
        let folder = folder("silent");
        let within = AGAIN * 3;
        let absent = InitSocket::new(folder.join("absent.sock"));
        assert_eq!(Fate::from_init(&absent, within).await, Fate::Over);
        assert_eq!(Fate::from_init(&saying(&folder, &[BUSY, OURS]), within).await, Fate::Unknown);
        // An init that accepts no connection.
        let path = folder.join("hangs.sock");
        let listener = UnixListener::bind(&path).unwrap();
        assert_eq!(Fate::from_init(&InitSocket::new(path.clone()), within).await, Fate::Unknown);
        drop(listener);
        assert_eq!(Fate::from_init(&InitSocket::new(path), within).await, Fate::Over);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
