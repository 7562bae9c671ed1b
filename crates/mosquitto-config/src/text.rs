//! The configuration file that a translation comes to.
//!
//! Each key says where it comes from; what is not in it stands at its end, so that whoever reads
//! the file later knows. Invariant: comments have no value of an option in them, for it may be a
//! secret.

use super::draft::Sheet;
use super::{OptionFate, OptionNote};

/// Columns of the comments.
const COLUMNS: usize = 98;

/// The text.
pub(super) fn file(name: &str, sheets: &[Sheet], notes: &[OptionNote]) -> String {
    let mut out = String::new();
    comment(&mut out, &format!("Holdline's configuration, translated from {name}."));
    comment(&mut out, "All other keys have Holdline's defaults; docs/mosquitto.md lists where");
    comment(&mut out, "they differ from mosquitto's.");
    for sheet in sheets {
        out.push_str(&format!("\n[{}]\n", sheet.header));
        sheet.comments.iter().for_each(|text| comment(&mut out, text));
        for entry in &sheet.entries {
            out.push_str(&format!("{} = {} # {}\n", entry.key, entry.value, entry.from));
        }
    }
    for (fate, title) in [
        (OptionFate::Lost, "Not supported:"),
        (OptionFate::Ignored, "Ignored, because it has no effect here:"),
    ] {
        let mut of_fate = notes.iter().filter(|note| note.fate == fate).peekable();
        if of_fate.peek().is_some() {
            out.push('\n');
            comment(&mut out, title);
        }
        of_fate.for_each(|note| comment(&mut out, &format!("  {note}")));
    }
    out
}

/// Where a line of the file says that its key comes from.
pub(super) fn origin(line: &str) -> Option<&str> {
    line.rsplit_once(" # ").map(|(_, from)| from)
}

fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            out.push_str(&format!("{line}\n"));
            line = String::from("#    ");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&format!("{line}\n"));
}
