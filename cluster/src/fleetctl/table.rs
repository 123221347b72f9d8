//! Formats columns aligned by tabs, as fleet's fleetctl does, because scripts split at tabs and
//! blanks. A column is as wide as its widest cell plus one, rounded up to a multiple of eight.

use groundstate_units::text::encoding::is_unprintable;

const TAB: usize = 8;

/// Replaces control characters: texts of machines are untrusted and must not move the cursor or
/// start a line.
pub(super) fn plain(cell: &str) -> String {
    cell.chars().map(|c| if is_unprintable(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Formats rows of cells, one row per line.
pub(super) fn text(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let length = |cell: &String| cell.chars().count();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(length).max().unwrap_or_default();
        (widest + 1).div_ceil(TAB) * TAB
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            text.push_str(cell);
            if at + 1 < row.len() {
                let tabs = width.saturating_sub(length(cell)).div_ceil(TAB);
                text.push_str(&"\t".repeat(tabs));
            }
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cell_has_no_control_characters() {
        let cell = "a\u{1b}[2J\nb\tc\u{9b}1m".to_string();
        assert_eq!(text(&[vec![cell]]), "a\u{fffd}[2J\u{fffd}b\u{fffd}c\u{fffd}1m\n");
    }

    #[test]
    fn columns_are_aligned_by_tabs() {
        let row = |cells: &[&str]| cells.iter().map(ToString::to_string).collect::<Vec<_>>();
        let rows = [
            row(&["UNIT", "ACTIVE", "SUB"]),
            row(&["a.service", "active", "running"]),
            row(&["-"; 3]),
        ];
        assert_eq!(text(&rows), "UNIT\t\tACTIVE\tSUB\na.service\tactive\trunning\n-\t\t-\t-\n");
        // Seven characters plus one fill a tab stop; eight need the next one.
        assert_eq!(text(&[row(&["1234567", "x"])]), "1234567\tx\n");
        assert_eq!(text(&[row(&["12345678", "x"]), row(&["1", "x"])]), "12345678\tx\n1\t\tx\n");
    }
}
