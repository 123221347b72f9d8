//! Stores the state of [`crate::trust`] across restarts.
//! The keys are read again when their file changes. The newest serials are in a file of lines
//! `SERIAL NAME`, which is appended to and rewritten when it has grown long.

use super::config::Config;
use crate::agent::{self, Goal, Wanted};
use crate::api::reloaded_files::ReloadedFiles;
use crate::log;
use crate::mutant::{Mutant, planted};
use crate::signature::{LARGEST_FILE, TrustedKeys};
use crate::snapshot::Snapshot;
use crate::trust::{Serials, Trust};
use crate::unit_name::UnitName;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lines per name before the file is rewritten.
const LINES_A_NAME: usize = 4;
/// Additional lines before the file is rewritten.
const MORE_LINES: usize = 1024;
/// Maximum size of the file in bytes.
const LARGEST: u64 = 128 * 1024 * 1024;

/// Checks signatures and stores the serials.
pub struct TrustKeeper {
    trust: Trust,
    keys: Box<dyn Fn() -> Arc<TrustedKeys> + Send>,
    keep: Keep,
}

/// Stores the new serials, or all.
type Keep = Box<dyn FnMut(&[(UnitName, u64)], &Serials) + Send>;

struct SerialsFile {
    path: PathBuf,
    lines: usize,
    fault: String,
}

impl TrustKeeper {
    /// Reads the configured keys. Returns `None` if all units run.
    ///
    /// # Errors
    /// The keys or serials cannot be read or stored.
    pub fn of(config: &Config) -> Result<Option<TrustKeeper>, String> {
        let Some(path) = config.trusted_keys_file.clone() else { return Ok(None) };
        let shown = path.display().to_string();
        let read = move || {
            let fault = |why: String| format!("{shown}: {why}");
            let pem =
                bounded(&path, LARGEST_FILE as u64 + 1).map_err(|why| fault(why.to_string()))?;
            TrustedKeys::of(&pem).map(Arc::new).map_err(fault)
        };
        let files = config.trusted_keys_file.clone().into_iter().collect();
        let keys = ReloadedFiles::of(files, read)?;
        let path = config.state_directory.join("serials");
        let (serials, mut file) = SerialsFile::open(&path)?;
        let trust = Trust::new(&config.cluster_name, keys.get(), serials);
        let keep = move |news: &[(UnitName, u64)], all: &Serials| file.keep(news, all);
        Ok(Some(TrustKeeper { trust, keys: Box::new(move || keys.get()), keep: Box::new(keep) }))
    }

    /// Creates a keeper with another storage.
    pub fn kept_by(
        trust: Trust,
        keys: Arc<TrustedKeys>,
        keep: Box<dyn Fn(&Serials) + Send>,
    ) -> TrustKeeper {
        let keep = move |_: &[(UnitName, u64)], all: &Serials| keep(all);
        TrustKeeper { trust, keys: Box::new(move || keys.clone()), keep: Box::new(keep) }
    }

    /// Records all signatures of the snapshot and refuses the units of the goal that may not run.
    /// `before` is the previous goal.
    pub fn judge(&mut self, snapshot: &Snapshot, goal: &mut Goal, before: &Goal) {
        self.trust.set_keys((self.keys)());
        let news = self.trust.observe(snapshot);
        if !news.is_empty() && !planted(Mutant::SerialsForgotten) {
            (self.keep)(&news, self.trust.serials());
        }
        for (name, wanted) in goal {
            let is_rolled_out =
                snapshot.globals.get(name).is_some_and(|kept| kept.record.first.is_some());
            let now = snapshot.units.get(name).map(|kept| &kept.record);
            let keeps_old_file =
                is_rolled_out && now.is_none_or(|now| now.hash != wanted.content.hash);
            if keeps_old_file && self.is_too_old(name, wanted, before) {
                wanted.content = now.unwrap_or(&wanted.content).clone();
            } else if keeps_old_file {
                // The unit keeps running with its old file until the new one is released for this
                // machine. The age of its signature was checked when it arrived; the signature
                // itself is still checked.
                if wanted.refusal.is_none() && !planted(Mutant::UnsignedRuns) {
                    wanted.refusal = self.trust.verify(name, &wanted.content).err();
                }
                continue;
            }
            let unsigned = self.trust.judge(name, &wanted.content).err();
            let unsigned = unsigned.filter(|_| !planted(Mutant::UnsignedRuns));
            wanted.refusal = unsigned.or_else(|| agent::refusal(name, &wanted.content.file));
        }
    }

    /// Returns true if this machine has not run the unit before and the signature of the rollout's
    /// previous file is outdated or invalid. Without this check, an attacker who writes to etcd
    /// could start any file that was ever signed.
    fn is_too_old(&mut self, name: &UnitName, wanted: &Wanted, before: &Goal) -> bool {
        !before.contains_key(name) && self.trust.judge(name, &wanted.content).is_err()
    }
}

fn bounded(path: &Path, most: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the serials of the text, and its number of lines. A line cut off by a machine crash is
/// ignored.
fn parse(text: &str) -> (Serials, usize) {
    let (mut floor, mut newest, mut lines) = (0, BTreeMap::new(), 0);
    for line in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
        lines += 1;
        let Some((serial, name)) = line.split_once(' ') else { continue };
        let Ok(serial) = serial.parse::<u64>() else { continue };
        if name == "*" {
            floor = serial.max(floor);
        } else if let Ok(name) = UnitName::new(name) {
            let known: &mut u64 = newest.entry(name).or_default();
            *known = serial.max(*known);
        }
    }
    (Serials::of(floor, newest), lines)
}

impl SerialsFile {
    fn open(path: &Path) -> Result<(Serials, SerialsFile), String> {
        let fault = |error: std::io::Error| format!("{}: {error}", path.display());
        let text = match bounded(path, LARGEST) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(fault(error)),
        };
        let (serials, lines) = parse(&text);
        let mut file = SerialsFile { path: path.to_path_buf(), lines, fault: String::new() };
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(fault)?;
        }
        // Reports a faulty file now rather than when a unit needs it, and drops a cut-off line.
        file.rewrite(&serials).map_err(fault)?;
        Ok((serials, file))
    }

    fn keep(&mut self, news: &[(UnitName, u64)], all: &Serials) {
        let grown = self.lines + news.len() > LINES_A_NAME * all.newest().len() + MORE_LINES;
        let kept = if grown { self.rewrite(all) } else { self.add(news) };
        let fault = kept.err().map(|error| error.to_string()).unwrap_or_default();
        if !fault.is_empty() && fault != self.fault {
            let path = self.path.display();
            log::error(format_args!(
                "cannot save the serials of signatures for a restart: {path}: {fault}"
            ));
        }
        self.fault = fault;
    }

    fn add(&mut self, news: &[(UnitName, u64)]) -> std::io::Result<()> {
        let mut text = String::new();
        for (name, serial) in news {
            let _ = writeln!(text, "{serial} {name}");
        }
        let mut file = std::fs::File::options().append(true).create(true).open(&self.path)?;
        file.write_all(text.as_bytes())?;
        self.lines += news.len();
        Ok(())
    }

    fn rewrite(&mut self, all: &Serials) -> std::io::Result<()> {
        let mut text = format!("{} *\n", all.floor());
        for (name, serial) in all.newest() {
            let _ = writeln!(text, "{serial} {name}");
        }
        let fresh = self.path.with_extension("new");
        let mut file = std::fs::File::create(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        std::fs::rename(&fresh, &self.path)?;
        self.lines = all.newest().len() + 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent;
    use crate::desired::Desired;
    use crate::fleetd::saved_state::SavedState;
    use crate::key::{Keys, Subject};
    use crate::machine::MachineId;
    use crate::record::{ClusterRecord, ScheduleRecord, UnitRecord, encode};
    use crate::signature::SigningKey;
    use crate::snapshot::Kept;
    use crate::transaction::{Change, Entry};
    use crate::unit_file::UnitFile;
    use std::collections::BTreeSet;

    // Made for these tests with `openssl genpkey -algorithm ed25519`, with its public part.
    const KEY: &[u8] = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIEJqVZE9NvkxFWZbMJO4F8sMz9MkvYVK46Qy5TU0KXMX\n-----END PRIVATE KEY-----\n";
    const PUBLIC: &[u8] = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAc+bZxG+m8G8u6F3FKfGDIeduWwLGycWvFzzWffEggSg=\n-----END PUBLIC KEY-----\n";

    const ANOTHER: &[u8] = b"-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA3OklpE9cy3KY3YbIeK1duITXrcDkmzogsEQjZtqZoJY=\n-----END PUBLIC KEY-----\n";

    fn trusting(key: &[u8]) -> TrustKeeper {
        let keys = Arc::new(TrustedKeys::of(key).unwrap());
        let trust = Trust::new("c", keys.clone(), Serials::default());
        TrustKeeper::kept_by(trust, keys, Box::new(|_| {}))
    }

    /// Rolls out a file of a global unit to the given machines, signed with the serial or unsigned.
    fn roll_out(snapshot: &mut Snapshot, text: &str, serial: Option<u64>, to: Option<&str>) {
        let name = UnitName::new("a.service").unwrap();
        let options = UnitFile::parse(&format!("[Service]\nExecStart={text}\n")).unwrap();
        let key = SigningKey::of(KEY, "c").unwrap();
        let signature = serial.map(|serial| key.sign(&name, &options, serial));
        let first = to.map(|to| BTreeSet::from([MachineId::new(to).unwrap()]));
        let record =
            ScheduleRecord { first, ..ScheduleRecord::new(Desired::Launched, options.hash()) };
        let revision = snapshot.revision + 1;
        let keys = snapshot.keys().clone();
        for (subject, value) in [
            (Subject::Unit(name.clone()), encode(&UnitRecord { options, signature })),
            (Subject::Global(name), encode(&record)),
        ] {
            let key = keys.of(&subject);
            let entry = Entry { key, value, created: revision, modified: revision, lease: 0 };
            snapshot.apply(&Change::Put(entry));
        }
    }

    #[test]
    fn old_file_kept_during_a_rollout_is_not_refused_for_its_age() {
        let mut trust_keeper = trusting(PUBLIC);
        let mut snapshot = Snapshot::new(Keys::under("/p"));
        let me = MachineId::new("m1").unwrap();
        let mut goal = Goal::new();
        // Returns which file belongs here, and whether it runs.
        let mut judged = |snapshot: &Snapshot| {
            let next = agent::goal(snapshot, &me, &goal);
            let had = std::mem::replace(&mut goal, next);
            trust_keeper.judge(snapshot, &mut goal, &had);
            let one = goal.values().next().unwrap();
            (one.content.file.text().contains("/old"), one.refusal.is_none())
        };
        roll_out(&mut snapshot, "/old", Some(7), None);
        assert_eq!(judged(&snapshot), (true, true));
        // A newer serial of the name has been seen.
        roll_out(&mut snapshot, "/new", Some(8), Some("m2"));
        assert_eq!(judged(&snapshot), (true, true), "the old file keeps running");
        assert_eq!(judged(&snapshot), (true, true), "the old file keeps running at each check");
        roll_out(&mut snapshot, "/bad", None, Some("m2"));
        assert_eq!(
            judged(&snapshot),
            (true, true),
            "the signature of the new file does not matter yet"
        );
        roll_out(&mut snapshot, "/bad", None, Some("m1"));
        assert_eq!(judged(&snapshot), (false, false), "a file for this machine is checked");
        roll_out(&mut snapshot, "/new", Some(8), Some("m1"));
        assert_eq!(judged(&snapshot), (false, true));
        roll_out(&mut snapshot, "/old", Some(7), None);
        assert_eq!(judged(&snapshot), (true, false), "an outdated signature is refused");
    }

    #[test]
    fn unsigned_file_does_not_run_after_a_rollout_and_a_restart_of_fleetd() {
        let mut trust_keeper = trusting(PUBLIC);
        let mut snapshot = Snapshot::new(Keys::under("/p"));
        let record = ClusterRecord { id: "c".to_string() };
        snapshot.cluster = Some(Kept { record, created: 1, modified: 1, lease: 0 });
        let me = MachineId::new("m1").unwrap();
        roll_out(&mut snapshot, "/good", Some(7), None);
        let mut goal = agent::goal(&snapshot, &me, &Goal::new());
        trust_keeper.judge(&snapshot, &mut goal, &Goal::new());
        let text = |goal: &Goal| goal.values().next().unwrap().content.file.text();
        let is_run = |goal: &Goal| goal.values().next().unwrap().refusal.is_none();
        // For some time the machine cannot act on its schedule.
        for (text, to) in [("/evil", None), ("/other", Some("m9"))] {
            roll_out(&mut snapshot, text, None, to);
            goal = SavedState::later(&snapshot, &me, &goal).unwrap().ran;
        }
        assert!(
            text(&goal).contains("/good"),
            "the saved file is the one that ran: {}",
            text(&goal)
        );
        let mut restarted = trusting(PUBLIC);
        let mut next = agent::goal(&snapshot, &me, &goal);
        restarted.judge(&snapshot, &mut next, &goal);
        assert!(text(&next).contains("/good") && is_run(&next));
        // Any file found there needs its own signature.
        let mut evil = Snapshot::new(Keys::under("/p"));
        roll_out(&mut evil, "/evil", None, None);
        let mut next = agent::goal(&snapshot, &me, &agent::goal(&evil, &me, &Goal::new()));
        restarted.judge(&snapshot, &mut next, &goal);
        assert!(text(&next).contains("/evil") && !is_run(&next));
        assert!(
            SavedState::of(&snapshot, next).unwrap().ran.is_empty(),
            "a refused unit is not saved"
        );
        let mut next = agent::goal(&snapshot, &me, &goal);
        trusting(ANOTHER).judge(&snapshot, &mut next, &goal);
        assert!(text(&next).contains("/good") && !is_run(&next), "the key is no longer trusted");
        roll_out(&mut snapshot, "/good", Some(7), None);
        snapshot.apply(&Change::Delete {
            key: snapshot.keys().of(&Subject::Global(UnitName::new("a.service").unwrap())),
            revision: snapshot.revision + 1,
        });
        assert!(
            SavedState::later(&snapshot, &me, &goal).unwrap().ran.is_empty(),
            "the unit was removed"
        );
    }

    #[test]
    fn previous_file_of_a_rollout_runs_only_if_its_signature_is_not_outdated() {
        let global = |text: &str| format!("{text}\n[X-Fleet]\nGlobal=true");
        let me = MachineId::new("m1").unwrap();
        for (serial, text) in [(Some(8), "/new"), (None, "/old")] {
            let mut snapshot = Snapshot::new(Keys::under("/p"));
            let record = ClusterRecord { id: "c".to_string() };
            snapshot.cluster = Some(Kept { record, created: 1, modified: 1, lease: 0 });
            roll_out(&mut snapshot, &global("/old"), Some(7), None);
            let there = &snapshot.units.values().next().unwrap().record;
            let (options, signature) = (there.file.clone(), there.signature.clone());
            roll_out(&mut snapshot, &global("/new"), serial, Some("m2"));
            let global = snapshot.globals.values_mut().next().unwrap();
            global.record.before = Some(UnitRecord { options, signature });
            let (mut trust_keeper, mut before) = (trusting(PUBLIC), Goal::new());
            for _ in 0..2 {
                let mut goal = agent::goal(&snapshot, &me, &before);
                trust_keeper.judge(&snapshot, &mut goal, &before);
                let one = goal.values().next().unwrap();
                assert!(one.content.file.text().contains(text), "{one:?}");
                assert_eq!(one.refusal, None);
                before = goal;
            }
        }
    }

    #[test]
    fn serials_survive_restarts_and_a_truncated_line() {
        let folder = std::env::temp_dir().join(format!("fleet-serials.{}", std::process::id()));
        let path = folder.join("serials");
        let name = |text: &str| UnitName::new(text).unwrap();
        let (mut serials, mut file) = SerialsFile::open(&path).unwrap();
        for serial in 1..5000 {
            serials.raise(&name("a.service"), serial);
            file.keep(&[(name("a.service"), serial)], &serials);
        }
        let size = std::fs::metadata(&path).unwrap().len();
        assert!(size < 20_000, "the file is rewritten before it grows further: {size}");
        serials.raise(&name("b@1.service"), 7);
        file.keep(&[(name("b@1.service"), 7)], &serials);
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("x y\n8 ../b\n99999 a.serv");
        std::fs::write(&path, text).unwrap();
        let (again, _) = SerialsFile::open(&path).unwrap();
        assert_eq!(again, serials);
        std::fs::create_dir(folder.join("none")).unwrap();
        assert!(SerialsFile::open(&folder.join("none")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
