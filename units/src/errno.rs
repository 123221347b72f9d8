//! Error numbers of Linux in words: errno(3). Only those a start can end with; PID 1 has
//! no strerror that is safe to call everywhere, and the core calls nothing.

/// `ENOENT`'s sentence for 2, and so on; None for the rare ones.
pub fn sentence(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "operation not permitted",
        2 => "no such file or directory",
        3 => "no such process or name",
        4 => "interrupted",
        5 => "input/output error",
        6 => "no such device or address",
        7 => "argument list too long",
        8 => "not an executable format (no #! line?)",
        11 => "resource temporarily unavailable",
        12 => "out of memory",
        13 => "permission denied",
        14 => "bad address",
        16 => "device or resource busy",
        17 => "file exists",
        19 => "no such device",
        20 => "not a directory",
        21 => "is a directory",
        22 => "invalid argument",
        23 => "too many open files in the system",
        24 => "too many open files",
        26 => "the file is being written (text file busy)",
        28 => "no space left on device",
        30 => "read-only file system",
        32 => "broken pipe",
        36 => "name too long",
        38 => "not supported by this kernel",
        40 => "too many levels of symbolic links",
        95 => "operation not supported",
        98 => "address already in use",
        99 => "address not available",
        122 => "quota exceeded",
        _ => return None,
    })
}
