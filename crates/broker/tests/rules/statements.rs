//! Every statement of the standards that the list names has its test.

use std::collections::BTreeSet;

/// All sources of tests, by module.
const SOURCES: [(&str, &str); 9] = [
    ("durable", include_str!("durable.rs")),
    ("flow", include_str!("flow.rs")),
    ("publish", include_str!("publish.rs")),
    ("random", include_str!("random.rs")),
    ("session", include_str!("session.rs")),
    ("shared", include_str!("shared.rs")),
    ("steps", include_str!("steps.rs")),
    ("subscribe", include_str!("subscribe.rs")),
    ("will", include_str!("will.rs")),
];

#[test]
fn every_statement_has_its_test() {
    let list = include_str!("../../statements.txt");
    let mut seen = BTreeSet::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<_> = line.split(" | ").collect();
        let [number, what, module, test] = fields[..] else { panic!("four fields: {line}") };
        assert!(number.starts_with("MQTT5 ") || number.starts_with("MQTT3 "), "{line}");
        assert!(!what.is_empty() && seen.insert(number), "once: {line}");
        if module == "-" {
            continue;
        }
        let name = module.strip_prefix("rules/").unwrap_or(module);
        let source = SOURCES.iter().find(|(known, _)| *known == name);
        let (_, source) = source.unwrap_or_else(|| panic!("a module: {line}"));
        assert!(source.contains(&format!("#[test]\nfn {test}()")), "a test: {line}");
    }
    assert!(seen.len() > 100, "{} statements", seen.len());
}
