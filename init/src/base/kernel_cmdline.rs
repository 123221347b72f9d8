//! The kernel command line, /proc/cmdline: the way to pass options to init of a machine. In a
//! container it belongs to the host and is ignored.

use crate::base::Level;
use crate::base::mount_table;
use groundstate_units::text::name::Name;
use std::path::Path;

/// Exists in an initramfs that switches to another root: os-release(5).
const SWITCHES_ROOT: &str = "/etc/initrd-release";

/// The words of the command line that concern init.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KernelLine {
    /// `groundstate.target=T`, `single`, `emergency`; the last one counts.
    pub(crate) target: Option<Name>,
    /// `groundstate.log=LEVEL`, `quiet`.
    pub(crate) level: Option<Level>,
    /// `groundstate.shell=open`: the emergency shell needs no password.
    pub(crate) has_open_shell: bool,
}

impl KernelLine {
    /// Reads /proc/cmdline. Returns the default if that fails. In an initramfs that switches to
    /// another root, the goal is `rd.groundstate.target`; `groundstate.target` is for that root.
    pub(crate) fn read() -> KernelLine {
        let is_memory = mount_table::table().is_ok_and(|table| mount_table::is_initramfs(&table));
        let switches_root = is_memory && Path::new(SWITCHES_ROOT).exists();
        let text = std::fs::read_to_string("/proc/cmdline").unwrap_or_default();
        KernelLine::parse(&text, switches_root)
    }

    fn parse(text: &str, switches_root: bool) -> KernelLine {
        let mut line = KernelLine::default();
        let target = if switches_root { "rd.groundstate.target" } else { "groundstate.target" };
        // The kernel stops reading at `--`; words after it are for init too.
        for word in text.split_ascii_whitespace() {
            match word.split_once('=') {
                None if word == "quiet" => line.level = line.level.or(Some(Level::Warning)),
                None if matches!(word, "single" | "emergency") && !switches_root => {
                    line.target = Name::new(word).ok()
                }
                Some((key, name)) if key == target => {
                    line.target = Name::new(name).ok().or(line.target);
                }
                Some(("groundstate.log", level)) => {
                    line.level = Level::named(level).or(line.level);
                }
                Some(("groundstate.shell", how)) => line.has_open_shell = how == "open",
                _ => {}
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_init_are_found_on_the_kernel_command_line() {
        let line = KernelLine::parse(
            "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet groundstate.target=rescue init=/sbin/init\n",
            false,
        );
        assert_eq!(line.target.as_ref().map(Name::as_str), Some("rescue"));
        assert_eq!(line.level, Some(Level::Warning));
    }

    #[test]
    fn explicit_log_level_overrides_quiet() {
        assert_eq!(
            KernelLine::parse("groundstate.log=debug quiet", false).level,
            Some(Level::Debug)
        );
        assert_eq!(
            KernelLine::parse("quiet groundstate.log=error", false).level,
            Some(Level::Error)
        );
    }

    #[test]
    fn only_the_exact_word_allows_a_shell_without_a_password() {
        assert!(KernelLine::parse("groundstate.shell=open", false).has_open_shell);
        for text in [
            "groundstate.shell",
            "groundstate.shell=yes",
            "groundstate.shell=open groundstate.shell=no",
        ] {
            assert!(!KernelLine::parse(text, false).has_open_shell, "{text}");
        }
    }

    #[test]
    fn initramfs_that_switches_root_has_its_own_goal() {
        let text = "groundstate.target=web rd.groundstate.target=mount emergency quiet";
        let (first, then) = (KernelLine::parse(text, true), KernelLine::parse(text, false));
        assert_eq!(first.target.as_ref().map(Name::as_str), Some("mount"));
        assert_eq!(then.target.as_ref().map(Name::as_str), Some("emergency"));
        assert_eq!(first.level, then.level);
        assert_eq!(KernelLine::parse("groundstate.target=web single", true).target, None);
    }

    #[test]
    fn unknown_words_of_the_kernel_command_line_change_nothing() {
        assert_eq!(
            KernelLine::parse(
                "groundstate.target=../x groundstate.log=loud xquiet single=1",
                false
            ),
            KernelLine::default()
        );
    }
}
