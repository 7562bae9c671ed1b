//! The configuration as the API shows it.

use super::*;

fn shown(text: &str) -> Vec<admin::ConfigSection> {
    parse(text).expect("a configuration").shown()
}

#[test]
fn every_section_and_key_is_shown_with_its_default_and_what_it_means() {
    let sections = shown("[limits]\ndrain_ms = 7\n");
    let tree = parse("[limits]\ndrain_ms = 7\n").expect("a configuration").to_toml();
    let mut lines = Vec::new();
    for section in &sections {
        assert!(!section.about.is_empty(), "{}", section.header);
        lines.push(section.header.clone());
        for setting in &section.settings {
            lines.push(format!("{} = {}", setting.name, setting.value));
            let is_told = !setting.text.is_empty() && !setting.allowed.is_empty();
            assert!(is_told && !setting.text.contains('\n'), "{}", setting.name);
            let is_same = setting.default.as_ref() == Some(&setting.value);
            assert!(!setting.is_default || is_same, "{} {}", section.header, setting.name);
        }
    }
    // The same keys with the same values as `holdline check` prints.
    assert_eq!(lines, tree.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>());
    let limits = sections.iter().find(|section| section.header == "[limits]").expect("there");
    let drain = limits.settings.iter().find(|it| it.name == "drain_ms").expect("there");
    assert!(!drain.is_default && drain.value == "7" && drain.default.is_some());
}

#[test]
fn secrets_are_not_shown() {
    let secrets = ["top-secret-token", "0123456789abcdef0123456789abcdef", "s3cret-of-redis"];
    let text = format!(
        "[api]\ntoken = \"{}\"\n[presence]\ndirectory = \"redis://u:{}@127.0.0.1:6379\"\n\
         [products.shop]\napp_id = 7\n[[products.shop.secrets]]\nkey_id = 1\nhex = \"{}\"\n",
        secrets[0], secrets[2], secrets[1]
    );
    let sections = format!("{:?}", shown(&text));
    for secret in secrets {
        assert!(!sections.contains(secret), "{secret}");
    }
}
