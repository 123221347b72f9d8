//! Error numbers of Linux in the words of strerror(3). Only those a start can end with; PID 1 has
//! no strerror that is safe to call everywhere, and the core calls nothing.

/// `ENOENT`'s sentence for 2, and so on; None for the rare ones.
pub fn sentence(number: i32) -> Option<&'static str> {
    Some(match number {
        1 => "Operation not permitted",
        2 => "No such file or directory",
        3 => "No such process",
        4 => "Interrupted system call",
        5 => "Input/output error",
        6 => "No such device or address",
        7 => "Argument list too long",
        8 => "Exec format error",
        11 => "Resource temporarily unavailable",
        12 => "Cannot allocate memory",
        13 => "Permission denied",
        14 => "Bad address",
        16 => "Device or resource busy",
        17 => "File exists",
        19 => "No such device",
        20 => "Not a directory",
        21 => "Is a directory",
        22 => "Invalid argument",
        23 => "Too many open files in system",
        24 => "Too many open files",
        26 => "Text file busy",
        28 => "No space left on device",
        30 => "Read-only file system",
        32 => "Broken pipe",
        36 => "File name too long",
        38 => "Function not implemented",
        40 => "Too many levels of symbolic links",
        95 => "Operation not supported",
        98 => "Address already in use",
        99 => "Cannot assign requested address",
        122 => "Disk quota exceeded",
        _ => return None,
    })
}
