//! Facts about the machine for specifiers, from a few small files read through [`Files`]. A fact
//! that cannot be read is unknown.

use crate::load::files::Files;
use crate::text::specifier::Facts;

/// Limit of bytes read from each file.
const MOST: usize = 16 * 1024;

/// Reads the facts.
pub fn gather(files: &dyn Files) -> Facts {
    let line = |path: &str| {
        let (bytes, _) = files.read(path, MOST).ok()?;
        let text = String::from_utf8(bytes).ok()?.trim().to_string();
        (!text.is_empty()).then_some(text)
    };
    let os = line("/etc/os-release").or_else(|| line("/usr/lib/os-release")).unwrap_or_default();
    let machine = line("/etc/machine-info").unwrap_or_default();
    let pretty = machine.lines().filter_map(field).filter(|(name, _)| name == "PRETTY_HOSTNAME");
    Facts {
        machine_id: line("/etc/machine-id"),
        boot_id: line("/proc/sys/kernel/random/boot_id").map(|id| id.replace('-', "")),
        host: line("/proc/sys/kernel/hostname"),
        kernel: line("/proc/sys/kernel/osrelease"),
        architecture: line("/proc/sys/kernel/arch").map(|arch| architecture(&arch)),
        os: os.lines().filter_map(field).chain(pretty).collect(),
    }
}

/// Returns systemd's name of a machine architecture of the kernel.
fn architecture(machine: &str) -> String {
    match machine {
        "x86_64" => "x86-64",
        "i386" | "i486" | "i586" | "i686" => "x86",
        "aarch64" => "arm64",
        "armv7l" | "armv6l" | "armv8l" => "arm",
        "ppc64le" => "ppc64-le",
        other => other,
    }
    .to_string()
}

/// Returns name and value of a line `NAME="value"`.
fn field(line: &str) -> Option<(String, String)> {
    let (name, value) = line.trim().split_once('=')?;
    let value = value.trim_matches(|c| c == '"' || c == '\'');
    (!name.starts_with('#')).then(|| (name.to_string(), value.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_of_os_release_fields_are_removed() {
        assert_eq!(field("ID=debian"), Some(("ID".into(), "debian".into())));
        assert_eq!(field("VERSION_ID=\"12\""), Some(("VERSION_ID".into(), "12".into())));
        assert_eq!((field("# x=y"), field("")), (None, None));
        assert_eq!(architecture("aarch64"), "arm64");
    }
}
