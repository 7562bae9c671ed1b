//! Problems of a file, line by line, as text for the operator.
//!
//! A list of problems knows no files, only a name and text. It keeps at most [`PROBLEMS_MAX`]
//! problems and counts the others.

use std::fmt;

/// Problems of one file that are reported.
pub const PROBLEMS_MAX: usize = 20;

/// Problems of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problems {
    file: String,
    lines: Vec<(usize, String)>,
    more: usize,
}

impl Problems {
    /// Makes an empty list for a file.
    pub(crate) fn of(file: &str) -> Problems {
        Problems { file: file.into(), lines: Vec::new(), more: 0 }
    }

    /// Adds a problem; `line` counts from 1.
    pub(crate) fn add(&mut self, line: usize, text: impl Into<String>) {
        if self.lines.len() < PROBLEMS_MAX {
            self.lines.push((line, text.into()));
        } else {
            self.more += 1;
        }
    }

    /// Result of reading, if there were no problems.
    pub(crate) fn or<T>(self, read: T) -> Result<T, Problems> {
        if self.lines.is_empty() { Ok(read) } else { Err(self) }
    }
}

impl fmt::Display for Problems {
    /// `FILE:LINE: words`, one a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let last = self.lines.len().saturating_sub(1);
        for (number, (line, text)) in self.lines.iter().enumerate() {
            write!(f, "{}:{line}: {text}", self.file)?;
            if number < last {
                writeln!(f)?;
            }
        }
        if self.more > 0 { write!(f, "\nand {} more", self.more) } else { Ok(()) }
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_as_may_be_are_told_and_the_others_counted() {
        let told = |count: usize| {
            let mut problems = Problems::of("f");
            (1..=count).for_each(|line| problems.add(line, "is wrong"));
            problems.or(()).map_err(|problems| problems.to_string())
        };
        assert_eq!(told(0), Ok(()));
        assert_eq!(told(1), Err("f:1: is wrong".into()));
        assert_eq!(told(2), Err("f:1: is wrong\nf:2: is wrong".into()));
        let full = told(PROBLEMS_MAX).expect_err("all are wrong");
        assert!(full.ends_with("\nf:20: is wrong"), "{full}");
        assert_eq!(told(PROBLEMS_MAX + 1), Err(full.clone() + "\nand 1 more"));
        assert_eq!(told(PROBLEMS_MAX + 2), Err(full + "\nand 2 more"));
    }
}
