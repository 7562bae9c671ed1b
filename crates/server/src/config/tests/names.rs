//! Settings have the same name in the API and in the configuration.

use crate::config::{MqttSection, WebhookSection};
use base::setting::Section;
use model::limits::Limits;
use model::product::{Product, Secret};
use serde_json::Value;
use std::collections::BTreeSet;

fn settings<S: Section>() -> BTreeSet<String> {
    S::settings().into_iter().map(|setting| setting.name.to_owned()).collect()
}

/// The fields of a schema of the API, but those that are no settings.
fn fields(document: &Value, schema: &str, others: &[&str]) -> BTreeSet<String> {
    let fields = &document["components"]["schemas"][schema]["properties"];
    let mut names: BTreeSet<_> = fields.as_object().expect(schema).keys().cloned().collect();
    for other in others {
        assert!(names.remove(*other), "{schema} has no {other}");
    }
    names
}

#[test]
fn the_api_names_a_setting_as_the_configuration_does() {
    let document: Value = serde_json::from_str(admin::openapi()).expect("JSON");
    let mut product = settings::<Product>();
    assert_eq!(fields(&document, "Product", &["key", "key_ids", "generated_secret"]), product);
    product.insert("secrets".into()); // [[products.KEY.secrets]]
    assert_eq!(fields(&document, "ProductChange", &["generate_secret"]), product);
    assert_eq!(fields(&document, "Secret", &[]), settings::<Secret>());
    // Each webhook of the API has one product or all: one of the configuration may be several.
    let figures = ["number", "product", "signed", "delivered", "dropped", "failures"];
    let shown = fields(&document, "Webhook", &[&figures[..], &["dead_letters"]].concat());
    let kept = settings::<WebhookSection>();
    assert!(shown.is_subset(&kept), "{shown:?}, {kept:?}");
}

#[test]
fn a_figure_of_the_api_is_named_as_its_bound() {
    let document: Value = serde_json::from_str(admin::openapi()).expect("JSON");
    let bounds: BTreeSet<_> = &settings::<MqttSection>() | &settings::<Limits>();
    for (schema, field, bound) in [
        ("Client", "keep_alive_s", "keep_alive_s_max"),
        ("Client", "session_expiry_s", "session_expiry_s_max"),
        ("Client", "inflight", "inflight_max"),
        ("Publication", "delay_s", "delay_s_max"),
        ("Status", "connections", "connections_max"),
        ("Status", "sessions", "sessions_max"),
        ("Status", "subscriptions", "subscriptions_max"),
        ("Status", "retained", "retained_max"),
        ("Status", "retained_bytes", "retained_bytes_max"),
        ("Status", "delayed", "delayed_max"),
    ] {
        assert!(bounds.contains(bound), "there is no setting {bound}");
        assert!(fields(&document, schema, &[]).contains(field), "{schema} has no {field}");
    }
    assert!(fields(&document, "PushOrder", &[]).contains("ttl_s"));
    assert!(settings::<Product>().contains("ttl_max_s"));
}
