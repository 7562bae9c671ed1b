//! Words in columns, for terminals: wrapped, aligned, never wider than they may be.
//!
//! Widths are counted in characters. Input is expected to be free of control characters.

/// Side of its column that a cell is at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Alignment {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// Rows of cells, the names of the columns first.
pub struct Grid {
    sides: Vec<Alignment>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// Columns with these names; those that begin with `>` are figures.
    pub fn new(names: &[&str]) -> Grid {
        let side =
            |name: &&str| if name.starts_with('>') { Alignment::Right } else { Alignment::Left };
        let sides = names.iter().map(side).collect();
        let head = names.iter().map(|name| name.trim_start_matches('>').to_owned()).collect();
        Grid { sides, rows: vec![head] }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The rows, two spaces in, in at most so many columns: the widest column of words gives way.
    pub fn text(&self, width: usize) -> String {
        let widest = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let mut widths: Vec<usize> = (0..self.sides.len()).map(widest).collect();
        while widths.iter().sum::<usize>() + 2 * widths.len() > width {
            let words = (0..widths.len()).filter(|&at| self.sides[at] == Alignment::Left);
            let Some(widest) = words.max_by_key(|&at| widths[at]).filter(|&at| widths[at] > 4)
            else {
                break;
            };
            widths[widest] -= 1;
        }
        let mut out = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, width) in widths.iter().enumerate() {
                let cell = crate::escape::line(row.get(column).map_or("", |c| c.as_str()), *width);
                let space = " ".repeat(width - cell.chars().count());
                line.push_str("  ");
                match self.sides[column] {
                    Alignment::Left => line.extend([cell, space]),
                    Alignment::Right => line.extend([space, cell]),
                }
            }
            out.push_str(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// A text in lines of at most so many columns, each after this indent.
pub fn wrapped(text: &str, indent: &str, width: usize) -> String {
    let room = width.saturating_sub(indent.chars().count()).max(8);
    let mut out = String::new();
    let mut line = String::new();
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        words.extend(letters.chunks(room).map(|part| part.iter().collect::<String>()));
    }
    for word in words {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > room {
            out.push_str(&format!("{indent}{line}\n"));
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&word);
    }
    if !line.is_empty() {
        out.push_str(&format!("{indent}{line}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_give_way_to_figures() {
        let mut grid = Grid::new(&["name", ">figure"]);
        grid.row(vec!["a".repeat(60), "12,345,678".to_owned()]);
        grid.row(vec!["b".to_owned(), "1".to_owned()]);
        let text = grid.text(40);
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.contains("…  12,345,678\n") && text.ends_with("           1\n"), "{text}");
    }

    #[test]
    fn lines_are_no_longer_than_they_may_be() {
        let text = wrapped(&format!("some words and {}", "x".repeat(99)), "   ", 30);
        assert!(text.lines().all(|line| line.chars().count() <= 30), "{text}");
        assert_eq!(text.matches('x').count(), 99);
        assert_eq!(wrapped(" \n ", "  ", 20), "");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_and_two_apart() {
        let mut grid = Grid::new(&["name", ">n"]);
        grid.row(vec!["ab".to_owned(), "123".to_owned()]);
        grid.row(vec!["c".to_owned()]);
        assert_eq!(grid.text(80), "  name    n\n  ab    123\n  c\n");
        assert_eq!(grid.text(11), grid.text(80), "it just fits");
        assert_eq!(grid.text(5), grid.text(80), "four letters stay, and figures are never cut");
        let mut long = Grid::new(&["name", ">n"]);
        long.row(vec!["abcdef".to_owned(), "1".to_owned()]);
        assert_eq!(long.text(11), "  name    n\n  abcdef  1\n");
        assert_eq!(long.text(10), "  name   n\n  abcd…  1\n");
    }

    #[test]
    fn a_line_breaks_where_the_next_word_has_no_room() {
        assert_eq!(wrapped("aaaa bbbb cc", "> ", 11), "> aaaa bbbb\n> cc\n");
        assert_eq!(wrapped("aaaa bbbb cc", "> ", 14), "> aaaa bbbb cc\n");
        assert_eq!(wrapped("aaaa bbbb cc", "> ", 13), "> aaaa bbbb\n> cc\n");
        assert_eq!(wrapped("0123456789", "", 1), "01234567\n89\n", "eight at least");
    }
}
