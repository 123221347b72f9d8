//! The cost of importing a large file: counted, not timed.

use super::super::unit_text;
use super::service;

#[test]
fn import_cost_grows_linearly_with_the_file() {
    let lines =
        |line: &dyn Fn(usize) -> String, count: usize| -> String { (0..count).map(line).collect() };
    let unknown = |n: usize| format!("A{n}=1\n");
    let pairs = |n: usize| format!("Environment=A{n}=1\n");
    let commands = |_: usize| "ExecStartPre=/bin/true\n".to_string();
    let targets = |n: usize| format!("[Unit]\nAfter=a{n}.service\n");
    for line in [&unknown as &dyn Fn(usize) -> String, &pairs, &commands, &targets] {
        let [few, many] = [1_000, 4_000].map(|count| service(&lines(line, count)).walked);
        assert!(few >= 1_000 && many <= 4 * few, "{}: {few}, then {many}", line(0));
    }
}

#[test]
fn section_name_is_stored_once_for_all_its_assignments() {
    let text = format!("[X-{}]\n{}", "x".repeat(1_000), "A=1\n".repeat(100));
    let read = unit_text::parse(&"a".into(), text.as_bytes()).unwrap();
    let first = &read.options[0].section;
    assert!(read.options.iter().all(|option| std::sync::Arc::ptr_eq(&option.section, first)));
}
