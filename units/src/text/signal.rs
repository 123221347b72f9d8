//! Names of signals for unit files and people. The numbers are those of Linux except on MIPS,
//! SPARC, PA-RISC and Alpha: signal(7).

/// The names of the signals from 1 on.
const NAMES: [&str; 31] = [
    "HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2",
    "PIPE", "ALRM", "TERM", "STKFLT", "CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG",
    "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS",
];

/// The first and last real-time signal that programs may use: signal(7), glibc and musl.
const REALTIME: (u8, u8) = (34, 64);

/// Returns the name, such as `TERM` or `RTMIN+3`, or the number itself if it is no signal.
pub fn name(number: u8) -> String {
    match usize::from(number).checked_sub(1).and_then(|index| NAMES.get(index)) {
        Some(name) => (*name).to_string(),
        None if number == REALTIME.0 => "RTMIN".to_string(),
        None if (REALTIME.0..=REALTIME.1).contains(&number) => {
            format!("RTMIN+{}", number - REALTIME.0)
        }
        None => number.to_string(),
    }
}

/// Parses `TERM`, `SIGTERM`, `term`, `15`, `RTMIN+3` or `RTMAX-1`. Returns `None` for anything
/// else.
pub fn number(text: &str) -> Option<u8> {
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    if let Some((number, _)) = (1..).zip(NAMES).find(|(_, name)| *name == bare) {
        return Some(number);
    }
    let number = if let Some(more) = bare.strip_prefix("RTMIN") {
        let more = if more.is_empty() { 0 } else { more.strip_prefix('+')?.parse::<u8>().ok()? };
        REALTIME.0.checked_add(more)?
    } else if let Some(less) = bare.strip_prefix("RTMAX") {
        let less = if less.is_empty() { 0 } else { less.strip_prefix('-')?.parse::<u8>().ok()? };
        REALTIME.1.checked_sub(less).filter(|n| *n >= REALTIME.0)?
    } else {
        upper.parse::<u8>().ok()?
    };
    (1..=REALTIME.1).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_signal_is_parsed_from_its_own_name() {
        for n in (1..=31).chain(34..=64) {
            assert_eq!(number(&name(n)), Some(n));
        }
    }

    #[test]
    fn signal_names_are_parsed_in_all_usual_spellings() {
        for (text, want) in [
            ("SIGTERM", Some(15)),
            ("hup", Some(1)),
            ("9", Some(9)),
            ("RTMIN+3", Some(37)),
            ("SIGRTMAX-1", Some(63)),
            ("RTMIN+31", None),
            ("RTMIN3", None),
            ("0", None),
            ("65", None),
            ("", None),
            ("SIG", None),
        ] {
            assert_eq!(number(text), want, "{text}");
        }
    }
}
