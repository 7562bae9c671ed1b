//! Stanzas as Prosody keeps them: tables, each an element.
//!
//! ```text
//! { name = "body"; attr = { xmlns = "…"; [XML "\1lang"] = "en" }; "text"; { name = … } }
//! ```
//! An element without a namespace of its own has that of the element around it.

use crate::element::{MovedElement, MovedInner, XML, is_name};
use crate::lua::{Literal, Table};

/// The element that a table is; `around` is the namespace that it stands in. `None`: it is none.
pub(super) fn element(table: &Table, around: &str) -> Option<MovedElement> {
    let name = table.text("name").filter(|name| is_name(name))?;
    let nothing = Table::default();
    let attributes = table.table("attr").unwrap_or(&nothing);
    let namespace = attributes.text("xmlns").unwrap_or(around);
    let mut element =
        MovedElement { name: name.into(), namespace: namespace.into(), ..MovedElement::default() };
    for (name, value) in attributes.named().filter(|(name, _)| *name != "xmlns") {
        let language = name.strip_prefix(XML).is_some_and(|rest| rest == "\u{1}lang");
        let name = if language { "xml:lang" } else { name };
        if let (Some(value), true) = (value.text(), language || is_name(name)) {
            element.attributes.push((name.into(), value.into()));
        }
    }
    element.attributes.sort();
    for inner in table.placed() {
        match inner {
            Literal::Table(table) => {
                element.children.push(MovedInner::Element(self::element(table, namespace)?));
            }
            other => element.children.push(MovedInner::Text(other.text()?.into())),
        }
    }
    Some(element)
}
