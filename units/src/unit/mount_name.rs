//! The target of a mount point. It is named like the systemd mount unit, see systemd-escape(1), so
//! `needs-path` is an ordinary dependency and no mount table is read.

use crate::limit;
use crate::spec::DependencyKind;
use crate::text::name::Name;
use crate::text::unit_name::escape_path;
use crate::unit::assembly::Edge;

/// Returns an optional depends-ms on the mount of each directory on the way to `path`.
pub(crate) fn on_the_way(path: &str, line: u32) -> Vec<Edge> {
    let kind = DependencyKind::DependsMs;
    let edge = |target| Edge { kind, target, optional: true, imported: false, line };
    names(path).map(edge).collect()
}

/// Returns the targets of the mounts on the way to `path`, named like systemd mount units:
/// `var-lib.mount` for /var/lib.
pub(crate) fn names(path: &str) -> impl Iterator<Item = Name> {
    let mut way = String::new();
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.filter_map(move |part| {
        if way.len() > limit::NAME {
            return None;
        }
        way.push('/');
        way.push_str(part);
        Name::new(&format!("{}.mount", escape_path(&way))).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_targets_of_a_path_cover_each_directory_on_it() {
        let names = |path: &str| -> Vec<String> {
            on_the_way(path, 1).iter().map(|edge| edge.target.to_string()).collect()
        };
        assert_eq!(names("/var/lib/x"), ["var.mount", "var-lib.mount", "var-lib-x.mount"]);
        assert_eq!(names("//var/./lib/"), ["var.mount", "var-lib.mount"]);
        assert!(names("/").is_empty());
        assert_eq!(names("/.a/.b"), [r"\x2ea.mount", r"\x2ea-.b.mount"]);
        assert_eq!(
            names("/srv/a-b/c"),
            ["srv.mount", r"srv-a\x2db.mount", r"srv-a\x2db-c.mount"],
            "as an imported mount unit is named"
        );
    }
}
