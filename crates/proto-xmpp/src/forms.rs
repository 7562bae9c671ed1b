//! Data forms (XEP-0004): what all of them are made of. The reader of a form knows the meaning of
//! its fields.
//!
//! Invariant: values are given as they were written, with the white space around them; whoever
//! takes none of that trims them itself.

use crate::xml::scan::Element;
use crate::xml::text::escaped;
use std::borrow::Cow;

/// The namespace of forms (XEP-0004 3).
pub(crate) const FORMS: &str = "jabber:x:data";

/// A field of a form: its name, if it has one, and its values.
pub(crate) type Field<'a> = (Option<Cow<'a, str>>, Vec<Cow<'a, str>>);

/// The fields of a form, in their order.
pub(crate) fn fields<'a>(form: &Element<'_, 'a>) -> impl Iterator<Item = Field<'a>> {
    let fields = form.children().filter(|it| it.is("field", FORMS));
    fields.map(|field| {
        let values = field.children().filter(|it| it.is("value", FORMS));
        (field.attribute("var"), values.map(|it| it.text()).collect())
    })
}

/// A boolean (XEP-0004 3.3); none: it is neither.
pub(crate) fn truth(value: &str) -> Option<bool> {
    match value {
        "1" | "true" => Some(true),
        "0" | "false" => Some(false),
        _ => None,
    }
}

/// A boolean as it is written.
pub(crate) const fn number(is: bool) -> &'static str {
    if is { "1" } else { "0" }
}

/// A field of this type with these values; empty: of none.
pub(crate) fn field(name: &str, kind: &str, values: &[&str]) -> String {
    labelled_field(name, ("", kind), values)
}

/// The same with a label for people; none if that is empty.
pub(crate) fn labelled_field(name: &str, (label, kind): (&str, &str), values: &[&str]) -> String {
    let values: String =
        values.iter().map(|value| format!("<value>{}</value>", escaped(value))).collect();
    let kind = if kind.is_empty() { String::new() } else { format!(" type='{kind}'") };
    let label = match label {
        "" => String::new(),
        label => format!(" label='{}'", escaped(label)),
    };
    format!("<field{label} var='{name}'{kind}>{values}</field>")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xml::scan::Scan;

    #[test]
    fn a_field_is_read_as_it_was_written() {
        let written = field("a", "text-multi", &[" x&y ", ""]) + &field("b", "", &[number(true)]);
        assert!(written.contains("<field var='b'><value>1</value></field>"));
        let form = format!("<x xmlns='{FORMS}'>{written}<field/><other/></x>");
        let scan = Scan::element(form.as_bytes()).expect("XML");
        let read: Vec<_> = fields(&scan.root()).collect();
        let expected = [
            (Some("a".into()), vec![" x&y ".into(), "".into()]),
            (Some("b".into()), vec!["1".into()]),
            (None, Vec::new()),
        ];
        assert_eq!(read, expected);
        assert_eq!(["1", "false", " 1", ""].map(truth), [Some(true), Some(false), None, None]);
    }
}
