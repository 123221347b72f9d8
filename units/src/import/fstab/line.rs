//! One line of fstab(5): its fields and options with places.

use crate::import::systemd::is_remote;
use crate::import::systemd::span::{self, Span};
use crate::limit;
use crate::text::diagnostic::Severity;
use crate::text::yaml::Spot;
use std::path::Path;

/// Tags of the first field, and the directories of udev's links.
const TAGS: [(&str, &str); 5] = [
    ("UUID=", "by-uuid"),
    ("LABEL=", "by-label"),
    ("PARTUUID=", "by-partuuid"),
    ("PARTLABEL=", "by-partlabel"),
    ("ID=", "by-id"),
];
const NO_TEXT: &str = "an octal escape that is not UTF-8";
const SHAPE: &str = "write `DEVICE MOUNTPOINT TYPE OPTIONS 0 0`; a space in a path is \\040";

/// A diagnostic with its place and hint.
pub(super) type Said = (Severity, Spot, String, String);

/// A text with its place.
#[derive(Clone, Debug)]
pub(super) struct Field {
    pub(super) at: Spot,
    pub(super) text: String,
}

/// The fields of a line.
pub(super) struct Line {
    pub(super) spec: Field,
    pub(super) place: Field,
    pub(super) kind: Field,
    pub(super) options: Vec<Field>,
    /// The last field asks for a check.
    pub(super) check: bool,
    pub(super) device_timeout: Option<String>,
    pub(super) mount_timeout: Option<String>,
    /// Diagnostics for the unit of this line.
    pub(super) said: Vec<Said>,
}

impl Line {
    /// Reads a line. Returns `None` if it is empty or a comment.
    ///
    /// # Errors
    /// The line is not UTF-8, has no device or no mount point, has an invalid escape, or has too
    /// many options.
    pub(super) fn read(number: u32, bytes: &[u8]) -> Result<Option<Line>, Said> {
        let start = Spot { line: number, column: 1 };
        let wrong = |at, message: &str| (Severity::Error, at, message.to_string(), SHAPE.into());
        if bytes.trim_ascii_start().first().is_none_or(|first| *first == b'#') {
            return Ok(None);
        }
        let text = std::str::from_utf8(bytes).map_err(|_| wrong(start, "this is no UTF-8"))?;
        let mut fields = parts(text, start, &[' ', '\t', '\r'], false).into_iter();
        let mut next = || fields.next().map(|field| decode(field).map_err(|at| wrong(at, NO_TEXT)));
        let (Some(spec), Some(place)) = (next().transpose()?, next().transpose()?) else {
            return Err(wrong(start, "a line has a device and a mount point"));
        };
        let or = |text: &str| Field { at: place.at, text: text.to_string() };
        let kind = next().transpose()?.unwrap_or_else(|| or("auto"));
        let options = fields.next().unwrap_or_else(|| or("defaults"));
        let (at, options) = (options.at, parts(&options.text, options.at, &[','], true));
        if options.len() > limit::DEPENDENCIES {
            return Err(wrong(at, "more than 4096 options"));
        }
        let options = options.into_iter().map(decode).collect::<Result<_, _>>();
        let options = options.map_err(|at| wrong(at, NO_TEXT))?;
        let (device_timeout, mount_timeout, said) = (None, None, Vec::new());
        let check = false;
        let mut line =
            Line { spec, place, kind, options, check, device_timeout, mount_timeout, said };
        for (index, field) in fields.take_while(|field| !field.text.starts_with('#')).enumerate() {
            match field.text.parse::<u32>() {
                Ok(number) if index < 2 => line.check = index == 1 && number > 0,
                Ok(_) | Err(_) => {
                    let message = format!("`{}` is not a number of fsck or dump", field.text);
                    line.said.push(wrong(field.at, &message));
                    break;
                }
            }
        }
        line.read_options();
        Ok(Some(line))
    }

    fn read_options(&mut self) {
        for Field { at, text } in self.options.clone() {
            let (name, value) = text.split_once('=').unwrap_or((&text, ""));
            let mut say = |severity, message: String, hint: &str| {
                self.said.push((severity, at, message, hint.to_string()));
            };
            match name.strip_prefix("x-systemd.") {
                None if name.ends_with("quota") && !name.starts_with("no") => {
                    say(Severity::Note, format!("{name}: quotaon is not run"), "a unit may run it");
                }
                None => {}
                Some(key @ ("device-timeout" | "mount-timeout")) => {
                    let timeout = match span::parse(value) {
                        Some(Span::Infinite | Span::Micros(0)) => "none".to_string(),
                        Some(Span::Micros(micros)) => span::native(micros),
                        None => {
                            say(
                                Severity::Warning,
                                format!("`{value}` is not a time"),
                                "the default of 90 s applies",
                            );
                            continue;
                        }
                    };
                    if key == "device-timeout" {
                        self.device_timeout = Some(timeout);
                    } else {
                        self.mount_timeout = Some(timeout);
                    }
                }
                Some("automount" | "idle-timeout") => {
                    let message = format!("{name}: it is mounted at boot, not at the first access");
                    say(Severity::Note, message, "the boot does not wait for it");
                }
                Some("growfs" | "makefs" | "pcrfs") => {
                    say(Severity::Note, format!("{name} is ignored"), "a unit may do this");
                }
                Some("after" | "before" | "required-by" | "requires" | "wanted-by") => {}
                Some("requires-mounts-for" | "wants-mounts-for" | "rw-only" | "device-bound") => {}
                Some(_) => {
                    say(Severity::Warning, format!("unknown option `{name}`"), "it has no effect");
                }
            }
        }
    }

    /// Returns true if this is one of the options.
    pub(super) fn has(&self, option: &str) -> bool {
        self.options.iter().any(|field| field.text == option)
    }

    /// Returns the values of an option `x-systemd.NAME=`.
    pub(super) fn all(&self, name: &str) -> Vec<Field> {
        let value = |field: &Field| {
            let (known, text) = field.text.strip_prefix("x-systemd.")?.split_once('=')?;
            (known == name).then(|| Field { at: field.at, text: text.to_string() })
        };
        self.options.iter().filter_map(value).collect()
    }

    /// Returns true if the mount needs the network.
    pub(super) fn is_remote(&self) -> bool {
        self.has("_netdev") || is_remote(&self.kind.text)
    }

    /// Returns true if the target of a boot pulls the mount in.
    pub(super) fn is_at_boot(&self) -> bool {
        let is_named = ["required-by", "wanted-by"].iter().any(|key| !self.all(key).is_empty());
        !is_named && (!self.has("noauto") || self.has("x-systemd.automount"))
    }

    /// Returns true if a boot neither needs the mount nor waits for it.
    pub(super) fn is_soft(&self) -> bool {
        self.has("nofail") || self.has("x-systemd.automount") || self.is_in_background()
    }

    /// Returns the source path of a line that a boot requires, and the directories above the source
    /// and above the mount point. Returns nothing for other lines.
    pub(super) fn paths_above(&self) -> Vec<String> {
        if self.is_soft() || self.is_remote() || !self.is_at_boot() {
            return Vec::new();
        }
        let source = self.node().filter(|path| !path.starts_with("/dev/"));
        let paths = [normal(&self.place.text), source.clone().and_then(|path| normal(&path))];
        let above = paths.iter().flatten().flat_map(|path| Path::new(path).ancestors().skip(1));
        let above = above.map(|path| path.to_string_lossy().into_owned());
        above.chain(source).collect()
    }

    /// Makes a soft line required, because its mount point is on the path of a required line.
    pub(super) fn require(&mut self) {
        if self.is_soft() {
            let message =
                "this mount is required, because a line without nofail needs it".to_string();
            self.said.push((
                Severity::Note,
                self.place.at,
                message,
                "add nofail to the other line".into(),
            ));
            self.options
                .retain(|option| !["nofail", "x-systemd.automount", "bg"].contains(&&*option.text));
        }
    }

    /// Returns true if nfs(5) may retry in the background after mount(8) has exited with success.
    pub(super) fn is_in_background(&self) -> bool {
        self.has("bg") && self.kind.text.starts_with("nfs")
    }

    /// Returns the options for mount(8), without those that only matter at boot.
    pub(super) fn for_mount(&self) -> String {
        let is_for_boot = |text: &str| {
            let word = text.to_ascii_lowercase();
            matches!(word.as_str(), "defaults" | "auto" | "noauto" | "nofail" | "sw")
                || word.starts_with("x-") && !word.starts_with("x-mount.")
                || word.starts_with("comment=")
        };
        let words = self.options.iter().map(|field| field.text.as_str());
        let words = words.filter(|text| !is_for_boot(text)).map(|text| match text {
            "bg" if self.is_in_background() => "fg,retry=10000",
            text => text,
        });
        words.collect::<Vec<_>>().join(",")
    }

    /// Returns the path that the first field names: the file or device, or udev's link to it.
    pub(super) fn node(&self) -> Option<String> {
        let text = &self.spec.text;
        for (tag, directory) in TAGS {
            if let Some(value) = text.strip_prefix(tag) {
                return Some(format!("/dev/disk/{directory}/{}", link(value.trim_matches('"'))));
            }
        }
        normal(text).filter(|_| !text.starts_with("//"))
    }
}

/// Returns an absolute path without superfluous slashes; `None` if it is none.
pub(super) fn normal(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let is_whole = path.starts_with('/') && !parts.iter().any(|part| matches!(*part, "." | ".."));
    is_whole.then(|| format!("/{}", parts.join("/")))
}

/// Returns the name of udev's link for a label: unusual characters become `\xNN`.
fn link(label: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || !c.is_ascii() || "#+-.:=@_".contains(c);
    let one = |c: char| if keep(c) { c.to_string() } else { format!("\\x{:02x}", u32::from(c)) };
    label.chars().map(one).collect()
}

/// Splits a text at separators. With `quotes`, a separator within double quotes does not count.
fn parts(text: &str, at: Spot, separators: &[char], quotes: bool) -> Vec<Field> {
    let mut parts: Vec<Field> = Vec::new();
    let (mut inside, mut quoted) = (false, false);
    for (column, c) in (at.column..).zip(text.chars()) {
        quoted ^= quotes && c == '"';
        if separators.contains(&c) && !quoted {
            inside = false;
            continue;
        }
        if !inside {
            parts.push(Field { at: Spot { line: at.line, column }, text: String::new() });
        }
        inside = true;
        parts.last_mut().into_iter().for_each(|part| part.text.push(c));
    }
    parts
}

/// Replaces the octal escapes of fstab(5). Fails if the result is not UTF-8 or has a NUL.
fn decode(field: Field) -> Result<Field, Spot> {
    let mut bytes = Vec::with_capacity(field.text.len());
    let mut rest = field.text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        rest = behind;
        let octal = |digits: &[u8]| {
            let digits = std::str::from_utf8(digits).ok()?;
            u8::from_str_radix(digits, 8).ok().filter(|_| !digits.starts_with('+'))
        };
        match behind.split_at_checked(3).and_then(|(digits, after)| Some((octal(digits)?, after))) {
            Some((byte, after)) if *first == b'\\' => {
                bytes.push(byte);
                rest = after;
            }
            Some(_) | None => bytes.push(*first),
        }
    }
    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
    text.map(|text| Field { at: field.at, text }).ok_or(field.at)
}
