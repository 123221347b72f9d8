//! `systemctl --root`: it changes files of the tree only, whatever the links in the tree point to, and
//! finds native units as init does.
#![allow(clippy::unwrap_used, clippy::panic, reason = "what fails here ends the test")]

#[allow(dead_code, reason = "other tests run initctl")]
mod place;

use place::{Place, err};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Output;

const WEB: &str = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n";

/// A tree in the folder `tree`, and a folder `outside` that links of the tree point to.
struct Tree(Place);

impl Tree {
    /// `links` are paths in the tree and their targets below `outside`.
    fn with_links(links: &[(&str, &str)]) -> Tree {
        let tree = Tree(Place::new());
        tree.put("tree/usr/lib/systemd/system/web.service", WEB);
        tree.put("tree/usr/lib/groundstate/units/kiosk.yaml", "unit: kiosk\ntype: virtual\n");
        tree.put("tree/opt/app.service", WEB);
        tree.put("outside/system/web.service.d/old.conf", "[Service]\nNice=1\n");
        tree.put("outside/system/db.service", WEB);
        tree.put("outside/groundstate/policy.yaml", "mask: [db.service]\n");
        tree.put("outside/groundstate/init.yaml", "default-target: multi-user\n");
        fs::create_dir_all(tree.at("outside/system/multi-user.target.wants")).unwrap();
        for link in ["db.service", "multi-user.target.wants/web.service"] {
            let _ = fs::remove_file(tree.at(&format!("outside/system/{link}")));
            symlink("/dev/null", tree.at(&format!("outside/system/{link}"))).unwrap();
        }
        for (link, to) in links {
            let link = tree.at(&format!("tree{link}"));
            fs::create_dir_all(link.parent().unwrap()).unwrap();
            symlink(tree.at(&format!("outside{to}")), link).unwrap();
        }
        tree
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.0.join(path)
    }

    fn put(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().unwrap()).unwrap();
        fs::write(self.at(path), text).unwrap();
    }

    /// The place of a path below `outside` if `tree` is the root of that path.
    fn within(&self, path: &str) -> PathBuf {
        self.at("tree").join(self.at("outside").strip_prefix("/").unwrap()).join(path)
    }

    fn systemctl(&self, words: &[&str]) -> Output {
        self.put("editor", "echo '[Service]' >\"$1\"\necho Nice=7 >>\"$1\"\n");
        let mut command = self.0.program(env!("CARGO_BIN_EXE_systemctl"));
        command.env("SYSTEMD_EDITOR", format!("/bin/sh {}", self.at("editor").display()));
        command.arg("--root").arg(self.at("tree")).args(words).output().unwrap()
    }

    /// All files outside, with their texts and targets.
    fn outside(&self) -> BTreeMap<PathBuf, String> {
        let (mut left, mut found) = (vec![self.at("outside")], BTreeMap::new());
        while let Some(path) = left.pop() {
            let text = match fs::read_link(&path) {
                Ok(to) => to.display().to_string(),
                Err(_) if path.is_dir() => {
                    left.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
                    "directory".to_string()
                }
                Err(_) => fs::read_to_string(&path).unwrap(),
            };
            found.insert(path, text);
        }
        found
    }
}

/// The verbs that write.
const WRITES: [&[&str]; 16] = [
    &["enable", "web"],
    &["enable", "--runtime", "web"],
    &["enable", "/opt/app.service"],
    &["reenable", "web"],
    &["disable", "web"],
    &["mask", "web"],
    &["mask", "--runtime", "web"],
    &["unmask", "web", "db"],
    &["edit", "web"],
    &["edit", "--full", "web"],
    &["link", "/opt/app.service"],
    &["preset", "web"],
    &["preset-all"],
    &["add-wants", "multi-user.target", "web"],
    &["revert", "web", "db"],
    &["set-default", "kiosk.target"],
];

/// Runs each writing command line in a tree with these links.
fn assert_writes_stay_within(links: &[(&str, &str)]) {
    for words in WRITES {
        let tree = Tree::with_links(links);
        let before = tree.outside();
        let said = tree.systemctl(words);
        assert_eq!(tree.outside(), before, "{words:?}");
        assert!(said.status.success(), "{words:?}: {}", err(&said));
    }
}

#[test]
fn absolute_link_of_a_directory_leads_no_write_out_of_the_tree() {
    let links = [
        ("/etc/systemd/system", "/system"),
        ("/etc/groundstate", "/groundstate"),
        ("/run/systemd", "/run"),
    ];
    assert_writes_stay_within(&links);
}

#[test]
fn absolute_link_of_a_folder_or_file_leads_no_write_out_of_the_tree() {
    let links = [
        ("/etc/systemd/system/multi-user.target.wants", "/system/multi-user.target.wants"),
        ("/etc/systemd/system/web.service.d", "/system/web.service.d"),
        ("/etc/systemd/system/app.service", "/system/app.service"),
        ("/etc/groundstate/policy.yaml", "/groundstate/policy.yaml"),
        ("/etc/groundstate/init.yaml", "/groundstate/init.yaml"),
    ];
    assert_writes_stay_within(&links);
}

#[test]
fn link_of_a_directory_is_followed_within_the_tree() {
    let links = [("/etc/systemd/system", "/system"), ("/etc/groundstate", "/groundstate")];
    let tree = Tree::with_links(&links);
    for words in [
        &["enable", "web"][..],
        &["mask", "db"],
        &["edit", "web"],
        &["link", "/opt/app.service"],
        &["set-default", "kiosk.target"],
    ] {
        let said = tree.systemctl(words);
        assert!(said.status.success(), "{words:?}: {}", err(&said));
    }
    let to = |link: &str| fs::read_link(tree.within(link)).unwrap();
    let unit = Path::new("/usr/lib/systemd/system/web.service");
    assert_eq!(to("system/multi-user.target.wants/web.service"), unit);
    assert_eq!(to("system/db.service"), Path::new("/dev/null"));
    assert_eq!(to("system/app.service"), Path::new("/opt/app.service"));
    let text = |file: &str| fs::read_to_string(tree.within(file)).unwrap();
    assert_eq!(text("system/web.service.d/override.conf"), "[Service]\nNice=7\n");
    assert_eq!(text("groundstate/init.yaml"), "default-target: kiosk\n");
    assert_eq!(tree.systemctl(&["is-enabled", "web"]).stdout, b"enabled\n");
    assert!(tree.systemctl(&["disable", "web"]).status.success());
    assert!(fs::read_link(tree.within("system/multi-user.target.wants/web.service")).is_err());
}

#[test]
fn path_in_place_of_a_unit_name_leads_no_write_out_of_the_tree() {
    let tree = Tree::with_links(&[]);
    fs::create_dir_all(tree.at("tree/etc/systemd/system")).unwrap();
    let (outside, up) = (tree.at("outside"), "../".repeat(20));
    let outside = outside.display();
    tree.put(
        "tree/usr/lib/systemd/system/odd@.service",
        &format!(
            "{WEB}Alias={outside}/alias.service\nWantedBy={up}{outside}/by.target\n\
             DefaultInstance={up}{outside}/x\n"
        ),
    );
    let before = tree.outside();
    tree.systemctl(&["enable", "odd@a"]);
    tree.systemctl(&["enable", "odd@"]);
    tree.systemctl(&["add-wants", &format!("{up}{outside}/by.target"), "web"]);
    tree.systemctl(&["add-wants", "multi-user.target", &format!("{outside}/system/db.service")]);
    tree.systemctl(&["revert", &format!("{outside}/system/web.service")]);
    assert_eq!(tree.outside(), before);
}

/// Native units: several in a file, one with another name than its file, and a template.
#[test]
fn native_unit_of_a_tree_is_enabled_and_masked_by_its_own_name() {
    let tree = Tree::with_links(&[]);
    let unit = |name: &str| {
        format!("unit: {name}\nexec-start: /bin/true\nwanted-by:\n  - multi-user\n---\n")
    };
    let units = ["cron", "at", "own.service"].map(unit).concat();
    tree.put("tree/etc/groundstate/units/all.yaml", &units);
    tree.put("tree/etc/groundstate/units/job@.yaml", &unit("job@"));
    let policy = tree.at("tree/etc/groundstate/policy.yaml");
    for (words, text, state) in [
        (["enable", "at"], "enable: ['at']\n", "enabled"),
        (["disable", "at.service"], "disable: ['at']\n", "disabled"),
        (["mask", "cron"], "disable: ['at']\nmask: ['cron']\n", "masked"),
        (["unmask", "cron.service"], "disable: ['at']\n", "enabled"),
        (["disable", "own"], "disable: ['at', 'own.service']\n", "disabled"),
        (["enable", "at"], "disable: ['own.service']\nenable: ['at']\n", "enabled"),
        (["enable", "job@x"], "disable: ['own.service']\nenable: ['at', 'job@x']\n", "enabled"),
    ] {
        let said = tree.systemctl(&words);
        assert!(said.status.success(), "{words:?}: {}", err(&said));
        assert_eq!(err(&said), "", "{words:?}");
        assert_eq!(fs::read_to_string(&policy).unwrap(), text, "{words:?}");
        let asked = tree.systemctl(&["is-enabled", words[1]]);
        assert_eq!(String::from_utf8(asked.stdout).unwrap().trim(), state, "{words:?}");
    }
    let before = fs::read_to_string(&policy).unwrap();
    assert!(tree.systemctl(&["mask", "--runtime", "cron"]).status.success());
    let text = fs::read_to_string(tree.at("tree/run/groundstate/policy.yaml")).unwrap();
    assert_eq!(text, "mask: ['cron']\n");
    assert!(err(&tree.systemctl(&["enable", "job@"])).contains("is a template: use an instance"));
    tree.put("tree/etc/systemd/system-preset/50-x.preset", "disable *\n");
    assert!(tree.systemctl(&["preset-all"]).status.success());
    assert_eq!(fs::read_to_string(&policy).unwrap(), before);
}

#[test]
fn missing_tree_is_refused_and_not_made() {
    let place = Place::new();
    let mut command = place.program(env!("CARGO_BIN_EXE_systemctl"));
    let said = command.args(["--root=none", "mask", "web"]).output().unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(err(&said).starts_with("none/: no such directory\n"), "{}", err(&said));
    assert!(!place.0.join("none").exists());
}
