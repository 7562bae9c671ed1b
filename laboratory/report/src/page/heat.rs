//! A field of cells, darker where there is more: times over time, or cores over time.
//!
//! Its measures are those of the plot it lies in. It is drawn as one path a shade, cells of the
//! same shade that follow each other being one, so that it stays small.

use std::fmt::Write;

/// Shades that there are, the lightest first.
pub const SHADES: usize = 8;

/// A field of cells.
pub struct Heat {
    /// Width and height of a cell.
    pub cell: (f64, f64),
    /// Where the first row begins.
    pub y_from: f64,
    /// Rows of each column, from left to right and from below: 0 to 1; zero is not drawn.
    pub columns: Vec<Vec<f64>>,
}

impl Heat {
    /// One path a shade.
    pub fn svg(&self) -> String {
        let mut paths = vec![String::new(); SHADES];
        let rows = self.columns.iter().map(Vec::len).max().unwrap_or(0);
        for row in 0..rows {
            let mut from = 0;
            while from < self.columns.len() {
                let shade = self.shade(from, row);
                let run = (from..self.columns.len()).take_while(|&x| self.shade(x, row) == shade);
                let width = run.count();
                if let Some(shade) = shade {
                    self.cell_path(&mut paths[shade], from, row, width);
                }
                from += width;
            }
        }
        let mut out = String::from("<g class=\"heat\">");
        for (shade, path) in paths.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
            let _ = write!(out, "<path class=\"h{shade}\" d=\"{path}\"/>");
        }
        out + "</g>"
    }

    fn shade(&self, column: usize, row: usize) -> Option<usize> {
        let value = *self.columns[column].get(row)?;
        (value > 0.0).then(|| ((value * SHADES as f64) as usize).min(SHADES - 1))
    }

    fn cell_path(&self, path: &mut String, column: usize, row: usize, width: usize) {
        let (x, y) = (column as f64 * self.cell.0, self.y_from + row as f64 * self.cell.1);
        let (wide, high) = (width as f64 * self.cell.0, self.cell.1);
        let [x, y, wide, high] = [x, y, wide, high].map(super::plot::number);
        let _ = write!(path, "M{x} {y}h{wide}v{high}h-{wide}z");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_a_shade_that_follow_each_other_are_one_and_lie_where_they_belong() {
        let columns = vec![vec![0.0, 0.1], vec![1.0, 0.1], vec![1.0], vec![0.0, 0.13]];
        let heat = Heat { cell: (2.0, 0.5), y_from: 3.0, columns };
        assert_eq!(
            heat.svg(),
            "<g class=\"heat\"><path class=\"h0\" d=\"M0 3.5h4v0.5h-4z\"/>\
             <path class=\"h1\" d=\"M6 3.5h2v0.5h-2z\"/>\
             <path class=\"h7\" d=\"M2 3h4v0.5h-4z\"/></g>"
        );
        let shades = [0.0, 0.001, 0.125, 0.99, 1.0].map(|value| {
            Heat { cell: (1.0, 1.0), y_from: 0.0, columns: vec![vec![value]] }.shade(0, 0)
        });
        assert_eq!(shades, [None, Some(0), Some(1), Some(7), Some(7)]);
    }
}
