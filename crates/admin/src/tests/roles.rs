//! People at the console: what each role may, what it is told of the rest, and when it is over.

use super::console::{OWN, Told, ask};
use super::tokens::whole_test_api;
use super::*;
use crate::Roles;
use serde_json::json;

fn api() -> TestApi {
    let names = |name: &str| vec![name.to_owned()];
    let roles = Roles::of(&names("vera"), &names("otto"), &names("anna"));
    let api = whole_test_api(|settings| settings.roles = roles);
    for name in ["vera", "otto", "anna", "paul"] {
        let body = json!({ "password": "told to a book that does not look" }).to_string();
        assert_eq!(api.json("PUT", &format!("/v1/users/{name}"), &body).0, 200);
    }
    api
}

fn log_in(api: &TestApi, user: &str, password: &str) -> Told {
    let body = json!({ "user": user, "password": password }).to_string();
    ask(api, &OWN, ("POST", "/v1/session", &body))
}

fn cookie(api: &TestApi, user: &str) -> String {
    let told = log_in(api, user, &user.chars().rev().collect::<String>());
    assert_eq!(told.status, 200, "{}", told.body);
    told.cookie()
}

fn status(api: &TestApi, cookie: &str, method: &str, path: &str) -> u16 {
    let head = [OWN[0], OWN[1], ("Cookie", cookie)];
    ask(api, &head, (method, path, "{}")).status
}

#[test]
fn a_user_with_a_role_logs_in_by_its_password_and_is_told_what_it_is() {
    let api = api();
    let told = log_in(&api, "vera", "arev");
    let session = &told.json()["session"];
    assert_eq!((&session["token"], &session["role"]), (&json!("vera"), &json!("viewer")));
    assert_eq!(session["scopes"], json!(["metrics", "read", "view"]));
    for (user, password) in [("vera", "wrong"), ("paul", "luap"), ("nobody", "ydobon")] {
        let told = log_in(&api, user, password);
        assert_eq!((told.status, told.code()), (401, "wrong_user".into()), "{user}");
    }
    for body in [
        json!({ "user": "vera" }),
        json!({ "password": "arev" }),
        json!({ "user": "vera", "password": "" }),
        json!({ "user": "vera", "password": "arev", "token": "x" }),
        json!({ "user": "v".repeat(257), "password": "arev" }),
    ] {
        let told = ask(&api, &OWN, ("POST", "/v1/session", &body.to_string()));
        assert_eq!(told.code(), "bad_request", "{body}");
    }
}

#[test]
fn of_all_routes_a_viewer_changes_nothing_and_an_operator_no_users_tokens_or_products() {
    let api = api();
    let [viewer, operator, admin] = ["vera", "otto", "anna"].map(|user| cookie(&api, user));
    let mut seen = [0; 2];
    for rule in rules() {
        let is_stream = ["/v1/events", "/v1/overview/stream", "/v1/trace"].contains(&rule.path)
            || rule.path.ends_with("/export"); // of a service that says the same for ever
        if rule.scopes.is_empty() || rule.path == "/v1/session" || is_stream {
            continue;
        }
        let method = rule.method.to_uppercase();
        let path = rule.path.replace("{product}", "p").replace(['{', '}'], "");
        let asks_only = method == "GET" || rule.scopes.contains(&crate::tokens::scope::Scope::Read);
        let is_refused = |cookie: &str| status(&api, cookie, &method, &path) == 403;
        assert!(!is_refused(&admin), "{method} {path}");
        let wants = |word: &str| rule.scopes.iter().any(|scope| scope.name() == word);
        let operates = wants("manage") || wants("push") || wants("publish");
        // What people say in chat is no viewer's.
        let sees = ["metrics", "read", "view"].into_iter().any(wants);
        assert!(asks_only || !sees, "a viewer changes nothing: {method} {path}");
        assert_eq!(is_refused(&viewer), !sees, "viewer: {method} {path}");
        assert_eq!(is_refused(&operator), !sees && !operates, "operator: {method} {path}");
        seen[usize::from(sees)] += 1;
    }
    assert!(seen.iter().all(|&count| count > 15), "{seen:?}");
}

#[test]
fn a_refused_action_is_told_whose_role_is_good_for_what() {
    let api = api();
    let head = [OWN[0], OWN[1], ("Cookie", &*cookie(&api, "vera"))];
    let told = ask(&api, &head, ("DELETE", "/v1/clients/c", ""));
    assert_eq!((told.status, told.code()), (403, "scope_missing".into()));
    let message = told.json()["error"]["message"].as_str().expect("words").to_owned();
    assert!(
        message.contains("vera has the role viewer") && message.contains("`manage`"),
        "{message}"
    );
}

#[test]
fn sessions_of_a_user_end_with_a_kick_a_disabling_and_its_removal_and_others_go_on() {
    let api = api();
    let other = cookie(&api, "anna");
    for (method, path, body) in [
        ("POST", "/v1/users/otto/kick", ""),
        ("PUT", "/v1/users/otto", r#"{"disabled": true}"#),
        ("DELETE", "/v1/users/otto", ""),
    ] {
        if method == "DELETE" {
            assert_eq!(api.json("PUT", "/v1/users/otto", r#"{"disabled": false}"#).0, 200);
        }
        let session = cookie(&api, "otto");
        assert_eq!(status(&api, &session, "GET", "/v1/status"), 200);
        assert_eq!(api.json(method, path, body).0, 200, "{method} {path}");
        assert_eq!(status(&api, &session, "GET", "/v1/status"), 401, "{method} {path}");
        assert_eq!(status(&api, &other, "GET", "/v1/status"), 200);
    }
    assert_eq!(log_in(&api, "otto", "otto").code(), "wrong_user");
}

#[test]
fn other_roles_hold_at_once_and_whoever_had_another_one_is_out() {
    let api = api();
    let [vera, otto, anna] = ["vera", "otto", "anna"].map(|user| cookie(&api, user));
    let names = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let roles = Roles::of(&names(&["paul", "vera"]), &names(&["anna"]), &[]);
    api.running.as_ref().expect("it runs").handle().set_roles(roles);
    let now = [&vera, &otto, &anna].map(|cookie| status(&api, cookie, "GET", "/v1/status"));
    assert_eq!(now, [200, 401, 401], "a role that is the same goes on");
    assert_eq!(log_in(&api, "otto", "otto").code(), "wrong_user", "he has none any more");
    let paul = cookie(&api, "paul");
    assert_eq!(status(&api, &paul, "GET", "/v1/status"), 200);
    let anna = cookie(&api, "anna");
    assert_eq!(status(&api, &anna, "PUT", "/v1/users/eve"), 403, "she is an operator now");
}
