//! The crates and the unsafe lines that make up PID 1. The README states the numbers, and this
//! counts them. `contrib/sbom` lists the crates.
#![allow(clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "these are tests")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The crates that PID 1 depends on directly, without our own.
const DIRECT: usize = 10;
/// Lines of unsafe blocks and functions.
const UNSAFE_LINES: usize = 900;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests/ has a parent").to_owned()
}

/// The dependencies of `init` according to cargo, to this depth: `name vVERSION …` each.
fn tree(depth: &[&str]) -> Vec<String> {
    tree_of("normal,no-proc-macro", depth)
}

fn tree_of(edges: &str, depth: &[&str]) -> Vec<String> {
    let cargo = std::env::var("CARGO").unwrap_or("cargo".to_owned());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "-p", "groundstate-init", "-e", edges])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(depth)
        .current_dir(top())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// The names of foreign crates.
fn crates(depth: &[&str]) -> BTreeSet<String> {
    let lines = tree(depth);
    let names = lines.iter().filter_map(|line| line.split(' ').next());
    names.filter(|name| !name.starts_with("groundstate-")).map(str::to_owned).collect()
}

/// The same, once for each version.
fn crates_with_versions() -> Vec<String> {
    let version = |line: &String| line.split(' ').take(2).map(str::to_owned).collect::<Vec<_>>();
    let each: BTreeSet<Vec<String>> = tree(&[]).iter().map(version).collect();
    each.into_iter().filter_map(|words| words.into_iter().next()).collect()
}

/// The output of `contrib/sbom`.
fn sbom() -> String {
    let output = Command::new("contrib/sbom").current_dir(top()).output().expect("contrib/sbom");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The files of a folder of sources.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found.retain(|path| path.extension().is_some_and(|end| end == "rs"));
    found
}

/// The number of lines within `unsafe { … }` and `unsafe fn`, and the blocks without a reason above
/// them.
fn unsafe_lines(text: &str) -> (usize, Vec<usize>) {
    let lines: Vec<&str> = text.lines().take_while(|line| *line != "#[cfg(test)]").collect();
    let (mut count, mut bare, mut until) = (0, Vec::new(), 0);
    for (at, line) in lines.iter().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        let opens = code.contains("unsafe {")
            || code.contains("unsafe fn")
            || code.contains("unsafe extern");
        if at < until {
            count += 1;
            continue;
        }
        if !opens {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let close = format!("{}}}", " ".repeat(indent));
        let stays_open = code.matches('{').count() > code.matches('}').count();
        let rest = lines.iter().skip(at + 1);
        let length = match stays_open {
            true => rest.take_while(|line| !line.starts_with(&close)).count() + 1,
            false => 0,
        };
        until = at + 1 + length;
        count += 1;
        let above = lines.iter().take(at).rev().take(8);
        let told = above.clone().any(|line| line.contains("SAFETY:") || line.contains("# Safety"));
        if !told && code.contains("unsafe {") {
            bare.push(at + 1);
        }
    }
    (count, bare)
}

/// The number before these words in the README.
fn said(words: &str) -> usize {
    let readme = fs::read_to_string(top().join("README.md")).expect("README.md");
    let (before, _) = readme.split_once(&format!(" {words}")).expect("README.md says it");
    let number = before.rsplit([' ', '\n']).next().and_then(|word| word.parse().ok());
    number.expect("a number before it")
}

#[test]
fn readme_states_the_number_of_crates_of_pid_1() {
    let (direct, all) = (crates(&["--depth", "1"]), crates(&[]));
    assert!(direct.len() >= 5 && all.len() >= direct.len(), "{direct:?}");
    assert!(direct.len() <= DIRECT, "{direct:?}");
    for heavy in ["tokio", "hyper", "etcd-client", "openssl", "rustls", "tonic"] {
        assert!(!all.contains(heavy), "{heavy} is no part of PID 1");
    }
    let (most, most_named) = (said("crates"), said("of them direct dependencies"));
    assert!(all.len() <= most, "{} crates, README.md says {most}: {all:?}", all.len());
    assert!(direct.len() <= most_named, "{} of them, README.md says {most_named}", direct.len());
}

#[test]
fn pid_1_links_no_c_library_except_libc() {
    let cargo = std::env::var("CARGO").unwrap_or("cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--offline", "--locked", "--format-version", "1"])
        .args(["--filter-platform", "x86_64-unknown-linux-gnu"])
        .current_dir(top())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let packages = found["packages"].as_array().expect("packages");
    let linked = |name: &String| {
        packages.iter().any(|package| package["name"] == **name && !package["links"].is_null())
    };
    let all = crates(&[]);
    assert!(all.contains("libc") && all.iter().all(|name| !name.ends_with("-sys")), "{all:?}");
    assert!(packages.iter().any(|package| !package["links"].is_null()), "ring has some");
    assert_eq!(all.iter().filter(|name| linked(name)).collect::<Vec<_>>(), [""; 0]);
    // init/deny.toml says why a crate is present in two versions.
    let names = crates_with_versions();
    let twice = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]);
    assert_eq!(twice.collect::<Vec<_>>(), ["hashbrown"]);
}

#[test]
fn sbom_names_exactly_the_crates_linked_into_pid_1() {
    let text = sbom();
    assert_eq!(text, sbom(), "the same sources give the same bytes");
    let bom: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&bom["bomFormat"], &bom["specVersion"]), (&"CycloneDX".into(), &"1.5".into()));
    let lock = fs::read_to_string(top().join("Cargo.lock")).expect("Cargo.lock");
    let components = bom["components"].as_array().expect("components");
    let mut named = BTreeSet::new();
    for part in components.iter().chain([&bom["metadata"]["component"]]) {
        let word = |of: &serde_json::Value| of.as_str().unwrap_or_default().to_owned();
        let (name, version) = (word(&part["name"]), word(&part["version"]));
        assert!(!word(&part["licenses"][0]["expression"]).is_empty(), "{part}");
        // The standard library comes with the compiler.
        if part["type"] == "framework" {
            let toolchain =
                fs::read_to_string(top().join("rust-toolchain.toml")).expect("the file exists");
            assert!(name == "rust-std" && toolchain.contains(&format!("\"{version}\"")), "{part}");
            continue;
        }
        assert_eq!(word(&part["purl"]), format!("pkg:cargo/{name}@{version}"));
        let package = format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n");
        let (_, locked) = lock.split_once(&package).expect("Cargo.lock has it");
        let locked = locked.split("[[package]]").next().unwrap_or_default();
        match part["hashes"][0]["content"].as_str() {
            Some(sum) => assert!(locked.contains(&format!("checksum = \"{sum}\"")), "{part}"),
            None => assert!(!locked.contains("checksum"), "{part}"),
        }
        assert!(named.insert(format!("{name} v{version}")), "{name} twice");
    }
    let linked = tree(&["--target", "x86_64-unknown-linux-gnu"]);
    let first_two = |line: &String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    assert_eq!(named, linked.iter().map(first_two).collect());
}

/// The entries of `tests/supply-chain/FILE`, under `[[SORT.NAME]]` each: `NAME vVERSION`, and the
/// whole text.
fn entries<'a>(text: &'a str, sort: &str) -> Vec<(String, &'a str)> {
    let heads = format!("\n[[{sort}.");
    let entry = |part: &'a str| {
        let (name, rest) = part.split_once("]]\n").expect("a name");
        let rest = rest.split("\n[").next().unwrap_or_default();
        let version = rest.lines().find_map(|line| line.strip_prefix("version = "));
        (format!("{name} v{}", version.expect("a version").trim_matches('"')), rest)
    };
    text.split(&heads).skip(1).map(entry).collect()
}

#[test]
fn each_crate_of_pid_1_is_audited_in_its_locked_version() {
    let supply =
        |file| fs::read_to_string(top().join("tests/supply-chain").join(file)).expect(file);
    let (audits, config) = (supply("audits.toml"), supply("config.toml"));
    // Code that runs only at build time also affects the result.
    let lines = tree_of("normal,build", &["--target", "x86_64-unknown-linux-gnu"]);
    let first_two = |line: &String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let foreign = lines.iter().filter(|line| !line.starts_with("groundstate-"));
    let linked: BTreeSet<String> = foreign.map(first_two).collect();
    let audited = entries(&audits, "audits");
    for (name, entry) in &audited {
        let (_, notes) = entry.split_once("notes = \"\"\"\n").expect("notes");
        assert!(entry.contains("who = \"") && notes.len() > 60, "the audit of {name} has notes");
        assert!(
            entry.contains("looked-over"),
            "{name}: config.toml requires `looked-over` of init's crates"
        );
    }
    // An entry for a removed or updated crate is an error.
    assert_eq!(audited.into_iter().map(|(name, _)| name).collect::<BTreeSet<_>>(), linked);
    let exempted = entries(&config, "exemptions");
    assert!(exempted.len() > 100, "the entries of the cluster exist");
    for (name, _) in exempted {
        assert!(!linked.contains(&name), "{name} is exempted, but is part of PID 1");
    }
    assert!(config.contains("[policy.groundstate-init]\n"), "PID 1 has a policy of its own");
}

#[test]
fn unsafe_lines_are_few_justified_and_counted_in_the_readme() {
    let (mut count, mut bare) = (0, Vec::new());
    let folder = top().join("init/src/sys");
    let files = files(&folder);
    for path in &files {
        let text = fs::read_to_string(path).expect("a source");
        let (lines, without) = unsafe_lines(&text);
        let is_tests = path.file_name().is_some_and(|name| name == "tests.rs");
        count += if is_tests { 0 } else { lines };
        let name = path.strip_prefix(&folder).expect("below it").display();
        bare.extend(without.iter().map(|line| format!("{name}:{line}")));
    }
    assert!(bare.is_empty(), "no `SAFETY:` above {bare:?}");
    assert!(count > 0 && count <= UNSAFE_LINES, "{count} lines");
    let most = said("lines of unsafe code");
    assert!(count <= most, "{count} lines of unsafe code, README.md says {most}");
}

#[test]
fn count_includes_blocks_and_functions_and_finds_missing_reasons() {
    let text = "// SAFETY: so\nunsafe { a() };\nlet x = unsafe {\n    b()\n};\n\n\n\n\n\n\n\n\nunsafe fn f() {\n    c();\n}\n";
    assert_eq!(unsafe_lines(text), (7, vec![]));
    assert_eq!(unsafe_lines("\nunsafe { a() };\n"), (1, vec![2]));
}
