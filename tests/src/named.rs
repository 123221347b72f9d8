//! Finds the tests that a document names: in a table, each word in backticks in the column `test`
//! or `tests`; in a file of tab-separated columns, the last one. The program `tables` checks that
//! they ran and passed; the style guard checks that they exist.

/// The names, each with its line. `file` is the name of the document.
pub fn named(file: &str, text: &str) -> Vec<(usize, String)> {
    if file.ends_with(".tsv") { last_column(text) } else { in_columns_of_tests(text) }
}

/// The names in the last column of a tab-separated table, each with its line.
fn last_column(text: &str) -> Vec<(usize, String)> {
    let cells = text.lines().enumerate();
    cells
        .filter_map(|(at, line)| Some((at + 1, line.rsplit_once('\t')?.1.trim().to_owned())))
        .collect()
}

/// The names in the tables of a document, each with its line.
fn in_columns_of_tests(text: &str) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    let mut column = None;
    let mut in_table = false;
    for (at, line) in text.lines().enumerate() {
        if !line.trim_start().starts_with('|') {
            in_table = false;
            continue;
        }
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').collect();
        if !in_table {
            in_table = true;
            let heads =
                |cell: &&str| matches!(cell.trim().to_lowercase().as_str(), "test" | "tests");
            column = cells.iter().position(heads);
            continue;
        }
        let cell = column.and_then(|column| cells.get(column)).copied().unwrap_or_default();
        names.extend(cell.split('`').skip(1).step_by(2).map(|name| (at + 1, name.to_owned())));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_column_of_tests_names_tests() {
        let text = "| key | tests |\n|---|---|\n| `unit` | `a_unit`, `b::c` |\n\n`not this`\n";
        assert_eq!(in_columns_of_tests(text), [(3, "a_unit".to_owned()), (3, "b::c".to_owned())]);
    }

    #[test]
    fn last_column_of_a_plain_table_names_tests() {
        let expected = [(1, "one".to_owned()), (2, "two".to_owned())];
        assert_eq!(last_column("key\tone\nA.B\tkey\ttwo\n"), expected);
    }
}
