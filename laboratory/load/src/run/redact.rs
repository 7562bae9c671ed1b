//! A plan without secrets, for reports.
//!
//! A report is sent around; passwords, secrets and tokens are replaced by a word here, and nowhere
//! else. The invariant: no value of a key that holds a secret leaves this file.

use lab::plan::Plan;

const HIDDEN: &str = "(hidden)";

/// The plan as TOML.
pub(super) fn plan(plan: &Plan) -> String {
    let mut shown = plan.clone();
    shown.target.url.iter_mut().for_each(|url| *url = self::url(url));
    if shown.target.token.is_some() {
        shown.target.token = Some(HIDDEN.to_owned());
    }
    let secrets = shown.parameters.iter_mut().filter(|(name, _)| is_secret(&name.to_lowercase()));
    secrets.for_each(|(_, value)| *value = lab::plan::Parameter::Text(HIDDEN.to_owned()));
    for group in &mut shown.groups {
        group.url.iter_mut().for_each(|url| *url = self::url(url));
        for secret in [&mut group.password, &mut group.secret] {
            if secret.is_some() {
                *secret = Some(HIDDEN.to_owned());
            }
        }
    }
    toml::to_string(&shown).unwrap_or_else(|error| format!("# cannot be shown: {error}\n"))
}

/// Targets of the plan, without secrets.
pub fn targets(plan: &Plan) -> Vec<String> {
    let groups = plan.groups.iter().flat_map(|group| &group.url);
    let mut all: Vec<String> = Vec::new();
    for url in plan.target.url.iter().chain(groups).map(|url| self::url(url)) {
        if !all.contains(&url) {
            all.push(url);
        }
    }
    all
}

/// A command line: values of options that hold a secret, and of URLs.
pub(super) fn command(command: &str) -> String {
    let mut hide = false;
    let words = command.split(' ').map(|word| {
        if std::mem::take(&mut hide) {
            return HIDDEN.to_owned();
        }
        let option = word.trim_start_matches('-');
        let (name, value) = option.split_once('=').unwrap_or((option, ""));
        let secret = is_secret(name.rsplit('.').next().unwrap_or(name));
        match (word.starts_with('-') || !value.is_empty(), secret, value.is_empty()) {
            (true, true, true) => {
                hide = true;
                word.to_owned()
            }
            (true, true, false) => {
                let kept = word.len() - value.len();
                format!("{}{HIDDEN}", &word[..kept])
            }
            _ => url(word),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

fn is_secret(name: &str) -> bool {
    ["secret", "password", "token"].iter().any(|word| name.ends_with(word))
}

/// A URL without the password in it. In MIOP's URLs, `HOST:PRODUCT@`, there is none.
fn url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) if !scheme.starts_with("miop") => match user.split_once(':') {
            Some((user, _)) => format!("{user}:{HIDDEN}@{host}"),
            None => rest.to_owned(),
        },
        _ => rest.to_owned(),
    };
    let query = query.map_or(String::new(), |query| {
        let pairs = query.split('&').map(|pair| match pair.split_once('=') {
            Some((key, _)) if is_secret(key) => format!("{key}={HIDDEN}"),
            _ => pair.to_owned(),
        });
        format!("?{}", pairs.collect::<Vec<_>>().join("&"))
    });
    format!("{scheme}://{rest}{query}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_shown() {
        let text = r#"
            name = "t"
            [target]
            url = ["mqtt://me:hush-1@127.0.0.1:1", "miop://dev:pk@h:1/?secret=hush-2&v=7"]
            token = "hush-3"
            [[group]]
            name = "a"
            password = "hush-4"
            secret = "abcd"
            [[stage]]
            name = "s"
            clients = { a = 1 }
        "#;
        let plan = super::super::file::read("t", text, &[]).expect("a plan");
        let shown = super::plan(&plan) + &targets(&plan).join(" ");
        assert!(!shown.contains("hush") && !shown.contains("abcd"), "{shown}");
        assert!(shown.contains("miop://dev:pk@h:1/?secret=(hidden)&v=7"), "{shown}");
        let read = super::super::file::parse("t", &super::plan(&plan), &[]);
        assert_eq!(read.expect("it is a plan still").stages, plan.stages);
        let command = "holdline load x mqtt://u:hush@h:1 --token hush --set group.a.password=hush \
                       --token=hush -c 5";
        let shown = super::command(command);
        assert!(!shown.contains("hush"), "{shown}");
        assert!(shown.ends_with("-c 5"), "{shown}");
    }
}
