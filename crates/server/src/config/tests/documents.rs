//! The tables of docs/configuration.md are what the declarations say.

use super::*;
use base::setting::Setting;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");

fn page() -> String {
    std::fs::read_to_string(PAGE).expect("the page is there")
}

/// The cells of the rows of the table that begins with this line.
fn rows<'a>(page: &'a str, head: &str) -> Vec<Vec<&'a str>> {
    let rows = page.lines().skip_while(|line| *line != head).skip(2);
    let rows = rows.take_while(|line| line.starts_with('|'));
    rows.map(|row| row.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn every_section_has_its_row_with_how_many_there_may_be() {
    let page = page();
    let told: Vec<(&str, &str)> = rows(&page, "| section | what it is about | how many |")
        .iter()
        .map(|row| (row[0].trim_matches(['`', '[', ']']), row[2]))
        .collect();
    let up_to = |max: usize| match max {
        1_000.. => format!("up to {},{:03}", max / 1_000, max % 1_000),
        _ => format!("up to {max}"),
    };
    let so = SECTIONS.map(|(name, _)| match name {
        "listen" => ("listen.NAME".to_owned(), up_to(LISTENERS_MAX)),
        "products" => ("products.KEY".to_owned(), up_to(PRODUCTS_MAX)),
        "bridge" => ("bridge.NAME".to_owned(), up_to(BRIDGES_MAX)),
        "domain" => ("domain.NAME".to_owned(), up_to(DOMAINS_MAX)),
        "component" => ("component.NAME".to_owned(), up_to(COMPONENTS_MAX)),
        "service" => ("service.NAME".to_owned(), up_to(SERVICES_MAX)),
        "platform" => ("platform.NAME".to_owned(), up_to(PLATFORMS_MAX)),
        "webhook" => ("webhook".to_owned(), up_to(WEBHOOKS_MAX)),
        _ => (name.to_owned(), "one".to_owned()),
    });
    assert_eq!(told, so.each_ref().map(|(name, count)| (name.as_str(), count.as_str())));
}

#[test]
fn what_is_open_at_first_is_told() {
    let page = page();
    let told: Vec<(&str, &str)> = rows(&page, "| listener | address | takes |")
        .iter()
        .map(|row| (row[0].trim_matches('`'), row[1]))
        .collect();
    let listeners = usual_listeners(true);
    let mut so: Vec<(&str, String)> =
        listeners.iter().map(|l| (l.name.as_str(), l.address.to_string())).collect();
    so.push(("the API", Config::default().api.address.to_string()));
    assert_eq!(told, so.iter().map(|(name, at)| (*name, at.as_str())).collect::<Vec<_>>());
}

/// The sentence that names the keys without a default names them all.
#[test]
fn what_may_not_be_left_out_is_told() {
    let page = page();
    let told = page.lines().find(|line| line.starts_with("Every section and every key may be"));
    let (told, _) = told.and_then(|line| line.split_once(". ")).expect("it is there");
    let named: Vec<&str> = told.split('`').skip(1).step_by(2).collect();
    let required = |settings: Vec<&'static Setting>| {
        settings.into_iter().filter(|setting| setting.required).map(|setting| setting.name)
    };
    let so = required(ListenSection::settings())
        .chain(required(WebhookSection::settings()))
        .chain(required(model::product::Secret::settings()))
        .chain(required(BridgeSection::settings()))
        .chain(required(Rewrite::settings()))
        .chain(required(AutoSubscribeSection::settings()));
    assert_eq!(named, so.collect::<Vec<_>>());
}
