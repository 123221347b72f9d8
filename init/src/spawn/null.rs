//! What stands in for input and output that nobody gives or wants: /dev/null, opened once.
//! Where there is none (no /dev yet, a bare container): an input at its end, and an output
//! that refuses.

use crate::sys::memfd;
use nix::fcntl::{OFlag, open};
use nix::sys::stat::Mode;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

/// The two ends.
#[derive(Clone, Debug)]
pub(crate) struct Null {
    /// Reads nothing.
    pub input: Rc<OwnedFd>,
    /// Takes everything (or, without /dev/null, refuses it with EPERM).
    pub output: Rc<OwnedFd>,
}

impl Null {
    /// Opens them.
    pub(crate) fn open() -> io::Result<Null> {
        let flags = OFlag::O_RDWR | OFlag::O_CLOEXEC | OFlag::O_NOCTTY;
        match open("/dev/null", flags, Mode::empty()) {
            Ok(null) => {
                let null = Rc::new(null);
                Ok(Null { input: null.clone(), output: null })
            }
            Err(_) => Null::stand_in(),
        }
    }

    fn stand_in() -> io::Result<Null> {
        let (end, _) = io::pipe()?;
        let sealed = memfd::create(c"null")?;
        memfd::seal(&sealed)?;
        Ok(Null { input: Rc::new(end.into()), output: Rc::new(sealed) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn both_kinds_give_nothing_and_never_wait() {
        for null in [Null::open().unwrap(), Null::stand_in().unwrap()] {
            let mut input = File::from(null.input.try_clone().unwrap());
            assert_eq!(input.read(&mut [0; 8]).unwrap(), 0);
            let mut output = File::from(null.output.try_clone().unwrap());
            let written = output.write(&[0; 8]);
            assert!(matches!(written, Ok(8)) || written.unwrap_err().raw_os_error() == Some(1));
        }
    }
}
