//! A page's markup, read as a browser would: which elements and attributes there are.

use std::collections::BTreeSet;

/// Elements that our pages are made of.
const ELEMENTS: &[&str] = &[
    "html",
    "head",
    "meta",
    "title",
    "style",
    "body",
    "nav",
    "main",
    "header",
    "section",
    "footer",
    "article",
    "figure",
    "figcaption",
    "details",
    "summary",
    "div",
    "span",
    "p",
    "h1",
    "h2",
    "h3",
    "h4",
    "a",
    "b",
    "i",
    "u",
    "br",
    "code",
    "pre",
    "strong",
    "ul",
    "ol",
    "li",
    "dl",
    "dt",
    "dd",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "label",
    "select",
    "option",
    "button",
    "svg",
    "g",
    "path",
    "circle",
    "script",
];
/// Attributes that they have.
const ATTRIBUTES: &[&str] = &[
    "lang",
    "charset",
    "name",
    "content",
    "http-equiv",
    "id",
    "class",
    "style",
    "href",
    "title",
    "role",
    "tabindex",
    "type",
    "value",
    "disabled",
    "colspan",
    "d",
    "viewbox",
    "transform",
    "preserveaspectratio",
    "cx",
    "cy",
    "r",
    "aria-label",
    "aria-hidden",
    "aria-pressed",
    "data-from",
    "data-to",
    "data-line",
    "data-x",
    "data-y",
    "data-unit",
    "data-per",
    "data-room",
    "data-fixed",
];

/// Every element and attribute is one of ours, links stay in the page, and nothing in a text ends
/// the script, the style or the title.
pub fn is_ours_alone(page: &str) {
    let mut rest = page;
    let mut scripts = 0;
    let mut open: Vec<String> = Vec::new();
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if rest.starts_with("!doctype html>") {
            continue;
        }
        let end = tag_end(rest);
        let (tag, after) = (&rest[..end], &rest[end + 1..]);
        rest = after;
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name), "</{name}> ends something else");
            continue;
        }
        let name = element(tag);
        let empty = tag.ends_with('/') || matches!(name.as_str(), "meta" | "br");
        if name == "script" || name == "style" || name == "title" {
            let close = format!("</{name}>");
            let inside = rest.find(&close).expect("it is closed");
            scripts += u32::from(name == "script");
            rest = &rest[inside + close.len()..];
        } else if !empty {
            open.push(name);
        }
    }
    assert!(scripts <= 2, "{scripts} scripts: one and the run's JSON");
    assert!(open.is_empty(), "never closed: {open:?}");
}

/// The JSON of the run in the page.
pub fn embedded(page: &str) -> String {
    let begin = "<script type=\"application/json\" id=\"run\">";
    let from = page.find(begin).expect("the run is in its page") + begin.len();
    page[from..].split("</script>").next().expect("it ends").to_owned()
}

fn tag_end(text: &str) -> usize {
    let mut quoted = false;
    for (at, char) in text.char_indices() {
        match char {
            '"' => quoted = !quoted,
            '>' if !quoted => return at,
            _ => {}
        }
    }
    panic!("a tag that never ends: {text:.80}");
}

/// Checks a tag and gives its element's name.
fn element(tag: &str) -> String {
    let tag = tag.trim_end_matches('/');
    let name = tag.split([' ', '\n']).next().expect("at least nothing");
    assert!(ELEMENTS.contains(&name), "<{tag:.100}>");
    let mut rest = &tag[name.len()..];
    let mut seen = BTreeSet::new();
    while !rest.trim().is_empty() {
        rest = rest.trim_start();
        let end = rest.find(['=', ' ']).unwrap_or(rest.len());
        let attribute = rest[..end].to_lowercase();
        assert!(ATTRIBUTES.contains(&attribute.as_str()), "{attribute} in <{tag:.200}>");
        assert!(seen.insert(attribute.clone()), "{attribute} twice in <{tag:.200}>");
        rest = &rest[end..];
        if let Some(value) = rest.strip_prefix("=\"") {
            let end = value.find('"').expect("it is closed");
            if attribute == "href" {
                assert!(value.starts_with('#'), "{tag}");
            }
            rest = &value[end + 1..];
        } else {
            assert!(!rest.starts_with('='), "a value without quotes in <{tag:.200}>");
        }
    }
    name.to_owned()
}
