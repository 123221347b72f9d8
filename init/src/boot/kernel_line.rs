//! The kernel command line, /proc/cmdline: on a machine the boot loader's way to talk
//! to init. In a container it is the host's and none of ours.

use crate::voice::Level;
use groundstate_units::name::Name;

/// The words that mean something to init.
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
    /// As the kernel shows it. Nothing where it can not be read.
    pub(crate) fn read() -> KernelLine {
        KernelLine::parse(&std::fs::read_to_string("/proc/cmdline").unwrap_or_default())
    }

    fn parse(text: &str) -> KernelLine {
        let mut line = KernelLine::default();
        // The kernel ends its own reading at `--`; what follows is for init all the same.
        for word in text.split_ascii_whitespace() {
            match word.split_once('=') {
                None if word == "quiet" => line.level = line.level.or(Some(Level::Warning)),
                None if matches!(word, "single" | "emergency") => {
                    line.target = Name::new(word).ok()
                }
                Some(("groundstate.target", name)) => {
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
    fn the_words_for_init_are_found_among_the_others() {
        let line = KernelLine::parse(
            "BOOT_IMAGE=/vmlinuz root=/dev/sda1 ro quiet groundstate.target=rescue init=/sbin/init\n",
        );
        assert_eq!(line.target.as_ref().map(Name::as_str), Some("rescue"));
        assert_eq!(line.level, Some(Level::Warning));
    }

    #[test]
    fn a_level_given_by_name_counts_more_than_quiet() {
        assert_eq!(KernelLine::parse("groundstate.log=debug quiet").level, Some(Level::Debug));
        assert_eq!(KernelLine::parse("quiet groundstate.log=error").level, Some(Level::Error));
    }

    #[test]
    fn a_shell_without_a_password_is_asked_for_by_its_word_alone() {
        assert!(KernelLine::parse("groundstate.shell=open").has_open_shell);
        for text in [
            "groundstate.shell",
            "groundstate.shell=yes",
            "groundstate.shell=open groundstate.shell=no",
        ] {
            assert!(!KernelLine::parse(text).has_open_shell, "{text}");
        }
    }

    #[test]
    fn nonsense_changes_nothing() {
        assert_eq!(
            KernelLine::parse("groundstate.target=../x groundstate.log=loud xquiet single=1"),
            KernelLine::default()
        );
    }
}
