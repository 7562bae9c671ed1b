//! Markdown tables as input: the documents that the rules read are the rules' own data.
//!
//! A table is found by the names of its columns, wherever it stands in the document. Cells keep
//! their markup; [`names`] takes the backticked words out of one.

/// One row below the header.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Line in the document, counted from 1.
    pub line: usize,
    /// The cells, trimmed; as many as the header has.
    pub cells: Vec<String>,
}

/// All rows of the tables whose header is `columns`, or `None` when there is no such table.
pub fn rows(text: &str, columns: &[&str]) -> Option<Vec<Row>> {
    let mut rows = None;
    let mut inside = false;
    for (index, line) in text.lines().enumerate() {
        let cells = split(line);
        if cells == columns {
            inside = true;
            rows.get_or_insert_with(Vec::new);
        } else if cells.len() != columns.len() {
            inside = false;
        } else if inside && !is_rule(&cells) {
            let row = Row { line: index + 1, cells };
            rows.get_or_insert_with(Vec::new).push(row);
        }
    }
    rows
}

/// The backticked words of a cell.
pub fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

fn split(line: &str) -> Vec<String> {
    let Some(inner) = line.trim().strip_prefix('|').and_then(|rest| rest.strip_suffix('|')) else {
        return Vec::new();
    };
    inner.split('|').map(|cell| cell.trim().to_owned()).collect()
}

fn is_rule(cells: &[String]) -> bool {
    cells.iter().all(|cell| !cell.is_empty() && cell.chars().all(|c| c == '-' || c == ':'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\n| a | b |\n| --- | --- |\n| `x` and `y` | 1 |\n\n| c |\n| - |\n";

    #[test]
    fn a_table_is_found_by_its_columns() {
        let found = rows(TEXT, &["a", "b"]).expect("it is there");
        assert_eq!(found, [Row { line: 5, cells: vec!["`x` and `y`".into(), "1".into()] }]);
        assert_eq!(rows(TEXT, &["c"]), Some(Vec::new()));
        assert_eq!(rows(TEXT, &["a", "c"]), None);
    }

    #[test]
    fn names_are_what_stands_in_backticks() {
        assert_eq!(names("`x`, then `y-z`"), ["x", "y-z"]);
        assert_eq!(names("nothing"), Vec::<&str>::new());
    }
}
