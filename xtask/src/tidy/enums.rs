//! What a document says of an enum's variants is what their comments say.
//!
//! A table of [`TABLES`] has a row a variant, in the order of the code: its name, its number, and
//! its comment. The numbers are a format, so the document cannot be behind.

use super::Violation;
use super::table;
use super::tree::Tree;

/// The first column of a table in [`DOCUMENT`]; the file and the enum that it tells of.
const TABLES: &[(&str, &str, &str)] = &[
    ("space", "crates/model/src/timeline.rs", "Space"),
    ("table", "crates/model/src/ports/log.rs", "Table"),
];
const DOCUMENT: &str = "docs/storage.md";

/// Checks every table.
pub fn check(tree: &Tree, found: &mut Vec<Violation>) {
    for (column, path, name) in TABLES {
        let mut tell = |line, remedy| {
            found.push(Violation { path: DOCUMENT.into(), line, rule: "enum", remedy });
        };
        let Some(variants) = tree.file(path).and_then(|file| variants(&file.text, name)) else {
            tell(1, format!("no enum {name} in {path}: change TABLES in xtask/src/tidy/enums.rs"));
            continue;
        };
        let columns = [*column, "number", "what it holds"];
        let rows = tree.file(DOCUMENT).and_then(|file| table::rows(&file.text, &columns));
        let Some(rows) = rows else {
            tell(1, format!("write a table of {name} with the columns {columns:?}"));
            continue;
        };
        for (at, wanted) in variants.iter().enumerate() {
            let row = rows.get(at).map(|row| row.cells.as_slice());
            if row != Some(wanted.as_slice()) {
                let line = rows.get(at).or(rows.last()).map_or(1, |row| row.line);
                tell(line, format!("here stands: | {} |", wanted.join(" | ")));
            }
        }
        if let Some(row) = rows.get(variants.len()) {
            tell(row.line, format!("{name} has no such variant"));
        }
    }
}

/// Name, number and comment of each variant with a number.
fn variants(text: &str, name: &str) -> Option<Vec<[String; 3]>> {
    let (_, body) = text.split_once(&format!("pub enum {name} {{\n"))?;
    let (body, _) = body.split_once("\n}")?;
    let (mut variants, mut comment) = (Vec::new(), String::new());
    for line in body.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("///") {
            comment += words;
        } else if let Some((name, number)) = line.trim_end_matches(',').split_once(" = ") {
            let comment = std::mem::take(&mut comment).trim().to_owned();
            variants.push([name.to_owned(), number.to_owned(), comment]);
        }
    }
    Some(variants)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPACES: &str =
        "pub enum Space {\n    /// Pushes that\n    /// wait.\n    Pushes = 1,\n}\n";
    const OTHERS: &str = "pub enum Table {\n    /// Else.\n    Other = 255,\n}\n";

    fn remedies(spaces: &str, document: &str) -> Vec<String> {
        let mut found = Vec::new();
        let files = [(TABLES[0].1, spaces), (TABLES[1].1, OTHERS), (DOCUMENT, document)];
        check(&Tree::of(&files), &mut found);
        found.into_iter().map(|violation| violation.remedy).collect()
    }

    fn document(spaces: &str) -> String {
        let head = |column| format!("| {column} | number | what it holds |\n| - | - | - |\n");
        format!("{}{spaces}\n{}| Other | 255 | Else. |\n", head("space"), head("table"))
    }

    #[test]
    fn a_table_says_what_the_code_says() {
        let right = document("| Pushes | 1 | Pushes that wait. |\n");
        assert_eq!(remedies(SPACES, &right), Vec::<String>::new());
        for wrong in ["| Pushes | 2 | Pushes that wait. |\n", "| Pushes | 1 | Pushes. |\n", ""] {
            let told = remedies(SPACES, &document(wrong));
            assert_eq!(told, ["here stands: | Pushes | 1 | Pushes that wait. |"], "{wrong}");
        }
        let more = document("| Pushes | 1 | Pushes that wait. |\n| Old | 2 | None. |\n");
        assert_eq!(remedies(SPACES, &more), ["Space has no such variant"]);
        assert_eq!(remedies("", &right).len(), 1);
        assert_eq!(remedies(SPACES, "").len(), 2);
    }
}
