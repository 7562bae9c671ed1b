//! The tree as text: the effective configuration, its documentation, and what differs from another.
//!
//! All three walk the same pages, made from the tables of the sections. Secrets never get into a
//! text. Knows no file; whoever wants one writes it.

use super::problem::{HIDDEN, without_password};
use super::reader::Sheet;
use super::{
    AutoSubscribeSection, BridgeSection, Config, DomainSection, PlatformSection, Rewrite, SECTIONS,
    ServiceSection, WebhookSection, usual_limits, usual_listeners,
};
use admin::{ConfigSection, ConfigSetting};
use base::setting::{Reload, Section, Setting, Shown, Value};
use base::text::quoted;
use federation::ComponentSection;
use model::product::Secret;
use std::collections::BTreeSet;

/// Columns of the documentation's lines.
const COLUMNS: usize = 98;

/// Changes that a reload finds, apart by whether it can follow.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Changes {
    /// A reload brings these about.
    pub live: Vec<SettingChange>,
    /// Changes that need a restart.
    pub restart: Vec<SettingChange>,
}

/// One difference between two configurations.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SettingChange {
    /// `[limits] drain_ms`, or a header alone if the whole section came or went. A section of a
    /// list has its name behind its header: `[[webhook]] http://a/ secret`.
    pub key: String,
    /// The value before, as TOML; `absent` for a section that came. Secrets are hidden.
    pub old: String,
    /// The value now; `absent` for a section that went.
    pub new: String,
}

/// A section with its values.
struct Page {
    /// Which keys it has.
    sort: &'static str,
    sheet: Sheet,
    /// Of a section of a list: what it is called in differences. Empty: its header says it.
    name: String,
    /// Whether a reload may add or remove it whole.
    reload: Reload,
    entries: Vec<Entry>,
}

/// A key with its value.
struct Entry {
    setting: &'static Setting,
    value: Value,
    /// Its default, if it has one.
    usual: Option<Value>,
}

impl Page {
    /// Header and name.
    fn label(&self) -> String {
        let Page { sheet, name, .. } = self;
        if name.is_empty() { sheet.header.clone() } else { format!("{} {name}", sheet.header) }
    }
}

impl Entry {
    fn told(&self) -> ConfigSetting {
        let usual = self.usual.as_ref();
        ConfigSetting {
            name: self.setting.name.to_owned(),
            value: self.shown(),
            default: usual.map(|usual| self.as_shown(usual)),
            is_default: usual == Some(&self.value),
            allowed: self.setting.kind.allowed(),
            text: self.setting.text.split_whitespace().collect::<Vec<_>>().join(" "),
            live: self.setting.reload == Reload::Live,
        }
    }

    fn shown(&self) -> String {
        self.as_shown(&self.value)
    }

    /// A value of this key, as far as it may be seen.
    fn as_shown(&self, value: &Value) -> String {
        match (self.setting.shown, value) {
            (Shown::Never, Value::Text(text)) if !text.is_empty() => quoted(HIDDEN),
            (Shown::Never, Value::List(texts)) => {
                Value::List(texts.iter().map(|_| HIDDEN.to_owned()).collect()).to_string()
            }
            (Shown::WithoutSecrets, Value::Text(text)) => quoted(&without_password(text)),
            (_, value) => value.to_string(),
        }
    }
}

/// The effective tree.
pub(super) fn to_toml(config: &Config) -> String {
    let mut out = String::new();
    for page in pages(config) {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&format!("{}\n", page.sheet.header));
        for entry in page.entries {
            out.push_str(&format!("{} = {}\n", entry.setting.name, entry.shown()));
        }
    }
    out
}

/// The effective tree with what every key means, for the API.
pub(super) fn shown(config: &Config) -> Vec<ConfigSection> {
    let about = |page: &Page| {
        let name = page.sheet.path.split('.').next();
        SECTIONS.iter().find(|(of, _)| Some(*of) == name).map_or("", |(_, about)| about)
    };
    let section = |page: Page| ConfigSection {
        header: page.sheet.header.clone(),
        about: about(&page).to_owned(),
        settings: page.entries.iter().map(Entry::told).collect(),
    };
    pages(config).into_iter().map(section).collect()
}

/// Differences between two configurations.
pub(super) fn diff(old: &Config, new: &Config) -> Changes {
    let (old, new) = (pages(old), pages(new));
    let mut changes = Changes::default();
    let mut note = |reload: Reload, key: String, old: String, new: String| {
        let list = match reload {
            Reload::Live => &mut changes.live,
            Reload::Restart => &mut changes.restart,
        };
        list.push(SettingChange { key, old, new });
    };
    for page in &old {
        let label = page.label();
        match new.iter().find(|other| other.label() == label) {
            None => note(page.reload, label, "present".into(), ABSENT.into()),
            Some(other) => {
                let pairs = page.entries.iter().zip(&other.entries);
                for (old, new) in pairs.filter(|(old, new)| old.value != new.value) {
                    let key = format!("{label} {}", old.setting.name);
                    note(old.setting.reload, key, old.shown(), new.shown());
                }
            }
        }
    }
    let known: BTreeSet<String> = old.iter().map(Page::label).collect();
    for page in new.iter().filter(|page| !known.contains(&page.label())) {
        note(page.reload, page.label(), ABSENT.into(), "present".into());
    }
    changes
}

const ABSENT: &str = "absent";

/// `docs/holdline.toml`: every key with what it means. Keys at their default are commented out.
pub(super) fn documented() -> String {
    let config = Config::default();
    let mut pages = pages(&config).into_iter().peekable();
    let mut out = String::from(PREFACE);
    for (name, doc) in SECTIONS {
        out.push('\n');
        out.push_str(&format!("# {}\n", "=".repeat(COLUMNS - 2)));
        comment(&mut out, &format!("{name}: {doc}"));
        let mut explained: Option<&str> = None;
        while let Some(page) = pages.next_if(|page| page.sheet.path.split('.').next() == Some(name))
        {
            if explained.is_some() {
                out.push('\n');
            }
            let known = explained == Some(page.sort);
            out.push_str(&format!("{}\n", page.sheet.header));
            for entry in &page.entries {
                if !known {
                    out.push('\n');
                    explain(&mut out, entry.setting);
                }
                let mark = if entry.usual.as_ref() == Some(&entry.value) { "#" } else { "" };
                out.push_str(&format!("{mark}{} = {}\n", entry.setting.name, entry.value));
            }
            explained = Some(page.sort);
        }
        match name {
            "products" => example::<Secret>(&mut out, "[[products.demo.secrets]]", SECRET_EXAMPLE),
            "mqtt" => {
                example::<Rewrite>(&mut out, "[[mqtt.rewrite]]", REWRITE_EXAMPLE);
                example::<AutoSubscribeSection>(
                    &mut out,
                    "[[mqtt.auto_subscribe]]",
                    SUBSCRIBE_EXAMPLE,
                );
            }
            "domain" => example::<DomainSection>(&mut out, "[domain.b]", DOMAIN_EXAMPLE),
            "component" => {
                example::<ComponentSection>(&mut out, "[component.echo]", COMPONENT_EXAMPLE);
            }
            "service" => example::<ServiceSection>(&mut out, "[service.relay]", SERVICE_EXAMPLE),
            "platform" => {
                example::<PlatformSection>(&mut out, "[platform.web]", PLATFORM_EXAMPLE);
            }
            "bridge" => example::<BridgeSection>(&mut out, "[bridge.up]", BRIDGE_EXAMPLE),
            "webhook" => example::<WebhookSection>(&mut out, "[[webhook]]", WEBHOOK_EXAMPLE),
            "listen" => tls_listeners(&mut out),
            _ => {}
        }
    }
    out
}

const PREFACE: &str = "\
# Holdline's configuration: every key, with its default. No file at all has the same effect.
#
# A line that begins with # and a space is an explanation; one that begins with # and a key shows
# the key's default: remove the # to change it. Lines without # differ from the defaults of their
# section. A reload (SIGHUP) applies [live] keys, [restart] keys need a restart. `holdline check`
# reports errors in a file and prints the effective configuration. Every key outside lists can also
# be set by an environment variable: HOLDLINE_LIMITS_DRAIN_MS=5000. More in docs/configuration.md.
";

const SECRET_EXAMPLE: &[(&str, &str)] = &[("key_id", "1"), ("hex", "\"…\"")];
const REWRITE_EXAMPLE: &[(&str, &str)] = &[("filter", "\"old/+/#\""), ("to", "\"new/$1/$2\"")];
const SUBSCRIBE_EXAMPLE: &[(&str, &str)] = &[("filter", "\"dev/%c/in\"")];
const BRIDGE_EXAMPLE: &[(&str, &str)] =
    &[("addresses", "[\"broker.example:1883\"]"), ("topics", "[\"sensors/# out 1\"]")];
const DOMAIN_EXAMPLE: &[(&str, &str)] = &[("domain", "\"b.example\"")];
const COMPONENT_EXAMPLE: &[(&str, &str)] =
    &[("domain", "\"echo.example.org\""), ("secret_file", "\"/etc/holdline/echo.secret\"")];
const SERVICE_EXAMPLE: &[(&str, &str)] = &[
    ("type", "\"turn\""),
    ("host", "\"turn.example.org\""),
    ("secret_file", "\"/etc/holdline/turn.secret\""),
];
const PLATFORM_EXAMPLE: &[(&str, &str)] = &[
    ("kind", "\"webpush\""),
    ("key_file", "\"/etc/holdline/vapid.pem\""),
    ("subject", "\"mailto:push@example.org\""),
];
const WEBHOOK_EXAMPLE: &[(&str, &str)] = &[("url", "\"https://app.example/events\"")];

fn example<S: Section + Default>(out: &mut String, header: &str, values: &[(&str, &str)]) {
    out.push('\n');
    comment(out, "Repeat as needed:");
    out.push_str(&format!("#     {header}\n#\n"));
    for entry in entries(&S::default(), &S::default()) {
        explain(out, entry.setting);
        let name = entry.setting.name;
        let value = values.iter().find(|(named, _)| *named == name);
        let value = value.map_or(entry.value.to_string(), |(_, value)| (*value).into());
        out.push_str(&format!("#     {name} = {value}\n"));
    }
}

fn tls_listeners(out: &mut String) {
    out.push('\n');
    comment(
        out,
        "If the file has no [listen.NAME] and [tls] has a certificate, these are opened \
        as well:",
    );
    for listener in usual_listeners(true).iter().filter(|listener| listener.tls) {
        let page = page(Sheet::named("listen", &listener.name), listener);
        out.push_str(&format!("#     {}\n", page.sheet.header));
        let own = page.entries.iter().filter(|entry| entry.usual.as_ref() != Some(&entry.value));
        own.for_each(|own| out.push_str(&format!("#     {} = {}\n", own.setting.name, own.value)));
    }
}

fn explain(out: &mut String, setting: &Setting) {
    let reload = match setting.reload {
        Reload::Live => "live",
        Reload::Restart => "restart",
    };
    comment(out, setting.text);
    let required = if setting.required { " Required." } else { "" };
    comment(out, &format!("Value: {}.{required} [{reload}]", setting.kind.allowed()));
}

fn comment(out: &mut String, text: &str) {
    let mut line = String::from("#");
    for word in text.split_whitespace() {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            out.push_str(&format!("{line}\n"));
            line = String::from("#");
        }
        line.push(' ');
        line.push_str(word);
    }
    out.push_str(&format!("{line}\n"));
}

fn pages(config: &Config) -> Vec<Page> {
    let mut pages = vec![single("server", &config.server)];
    for listener in &config.listen {
        pages.push(live(page(Sheet::named("listen", &listener.name), listener)));
    }
    pages.push(single("tls", &config.tls));
    pages.push(single("api", &config.api));
    pages.push(page_of(Sheet::single("limits"), &config.limits, &usual_limits()));
    pages.push(single("mqtt", &config.mqtt));
    let mqtt = Sheet::single("mqtt");
    pages.extend(list(Some(&mqtt), "rewrite", &config.mqtt.rewrites));
    pages.extend(list(Some(&mqtt), "auto_subscribe", &config.mqtt.auto_subscribes));
    pages.push(single("chat", &config.chat));
    for domain in &config.domains {
        pages.push(page(Sheet::named("domain", &domain.name), domain));
    }
    pages.push(single("push", &config.push));
    for platform in &config.platforms {
        pages.push(page(Sheet::named("platform", &platform.name), platform));
    }
    pages.push(single("media", &config.media));
    pages.push(single("bosh", &config.bosh));
    pages.push(single("federation", &config.federation));
    for component in &config.components {
        pages.push(page(Sheet::named("component", &component.name), component));
    }
    pages.push(single("contacts", &config.contacts));
    for service in &config.services {
        pages.push(page(Sheet::named("service", &service.name), service));
    }
    pages.push(single("access", &config.access));
    pages.push(page(Sheet::named("access", "token"), &config.access.token));
    pages.push(page(Sheet::named("access", "ldap"), &config.access.ldap));
    pages.push(page(Sheet::named("access", "http"), &config.access.http));
    pages.push(single("bans", &config.bans));
    pages.push(single("accounts", &config.accounts));
    pages.push(single("mysql", &config.mysql));
    pages.push(single("store", &config.store));
    pages.push(single("backup", &config.backup));
    pages.push(single("cluster", &config.cluster));
    pages.push(single("presence", &config.presence));
    for product in &config.products {
        let sheet = Sheet::named("products", product.key.as_str());
        let secrets = list(Some(&sheet), "secrets", &product.secrets);
        pages.push(live(page(sheet.clone(), product)));
        let named = secrets.zip(&product.secrets);
        pages.extend(named.map(|(page, it)| live(Page { name: it.key_id.to_string(), ..page })));
    }
    pages.push(single("names", &config.names));
    for bridge in &config.bridges {
        pages.push(live(page(Sheet::named("bridge", &bridge.name), bridge)));
    }
    let hooks = list(None, "webhook", &config.webhooks).zip(webhook_names(&config.webhooks));
    pages.extend(hooks.map(|(page, name)| live(Page { name, ..page })));
    pages
}

/// Names of webhooks: their addresses, where several have the same one also their products, and if
/// that does not tell them apart, their numbers.
fn webhook_names(hooks: &[WebhookSection]) -> impl Iterator<Item = String> {
    let address = |hook: &WebhookSection| admin::shown_url(&hook.url);
    let full = |hook: &WebhookSection| {
        format!("{} ({})", admin::shown_url(&hook.url), hook.products.join(", "))
    };
    let is_only = |name: &str, of: &dyn Fn(&WebhookSection) -> String| {
        hooks.iter().filter(|hook| of(hook) == name).count() == 1
    };
    hooks.iter().enumerate().map(move |(index, hook)| {
        let (short, long) = (address(hook), full(hook));
        if is_only(&short, &address) {
            short
        } else if is_only(&long, &full) {
            long
        } else {
            format!("{short} #{}", index + 1)
        }
    })
}

/// Every key of sections outside lists, with its header and its value.
#[cfg(test)]
pub(super) fn walked(config: &Config) -> Vec<(String, &'static Setting, Value)> {
    let pages = pages(config).into_iter().filter(|page| !page.sheet.header.starts_with("[["));
    let of_page = |page: Page| {
        let header = page.sheet.header;
        page.entries.into_iter().map(move |entry| (header.clone(), entry.setting, entry.value))
    };
    pages.flat_map(of_page).collect()
}

fn single<S: Section + Default>(name: &str, section: &S) -> Page {
    page(Sheet::single(name), section)
}

fn list<'a, S: Section + Default>(
    within: Option<&'a Sheet>,
    list: &'a str,
    sections: &'a [S],
) -> impl Iterator<Item = Page> + 'a {
    let numbered = sections.iter().enumerate();
    numbered.map(move |(index, section)| {
        let name = (index + 1).to_string();
        Page { name, ..page(Sheet::nth(within, list, index + 1), section) }
    })
}

fn page<S: Section + Default>(sheet: Sheet, section: &S) -> Page {
    page_of(sheet, section, &S::default())
}

fn page_of<S: Section>(sheet: Sheet, section: &S, usual: &S) -> Page {
    let (sort, reload) = (std::any::type_name::<S>(), Reload::Restart);
    Page { sort, sheet, name: String::new(), reload, entries: entries(section, usual) }
}

fn live(page: Page) -> Page {
    Page { reload: Reload::Live, ..page }
}

fn entries<S: Section>(section: &S, usual: &S) -> Vec<Entry> {
    let of = |section: &S, name| section.value(name).expect("a section has its own keys");
    let entry = |setting: &'static Setting| Entry {
        setting,
        value: of(section, setting.name),
        usual: (!setting.required).then(|| of(usual, setting.name)),
    };
    S::settings().into_iter().map(entry).collect()
}
