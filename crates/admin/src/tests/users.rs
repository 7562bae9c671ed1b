//! Users of the book over the API.

use super::description::{check_answer, check_named};
use super::*;
use model::ports::users::{Authority, IMPORT_LINES_MAX, ImportForm, Imported};
use model::ports::users::{UserFault, UserOrder, UserRule, UserState};
use serde_json::json;
use std::collections::BTreeMap;

/// A book in memory that remembers the orders it was given.
#[derive(Default)]
pub(super) struct Book {
    users: Mutex<BTreeMap<String, UserState>>,
    passwords: Mutex<Vec<Option<String>>>,
    says: Mutex<Option<UserFault>>,
    form: Mutex<Option<ImportForm>>,
}

impl Users for Book {
    fn list(&self, after: Option<&str>, count: usize) -> Result<Vec<UserState>, UserFault> {
        let users = self.users.lock().expect("no panic");
        let behind = users.values().filter(|user| after.is_none_or(|at| *user.name > *at));
        self.or_says(behind.take(count).cloned().collect())
    }

    fn count(&self) -> u64 {
        self.users.lock().expect("no panic").len() as u64
    }

    fn user(&self, name: &str) -> Result<Option<UserState>, UserFault> {
        self.or_says(self.users.lock().expect("no panic").get(name).cloned())
    }

    fn keys(&self, name: &str) -> Result<Option<Vec<String>>, UserFault> {
        let users = self.users.lock().expect("no panic");
        let keys = |_: &UserState| vec!["$scram-sha-256$4096$c2FsdA==$AAAA$BBBB".to_owned()];
        self.or_says(users.get(name).map(keys))
    }

    fn put(&self, order: UserOrder, authority: Authority) -> Result<UserState, UserFault> {
        self.or_says(())?;
        reaches(authority, &order.name)?;
        let mut users = self.users.lock().expect("no panic");
        let before = users.remove(&order.name);
        let has_password =
            order.password.is_some() || before.as_ref().is_some_and(|user| user.has_password);
        self.passwords.lock().expect("no panic").push(order.password);
        let was = |is: fn(&UserState) -> bool| before.as_ref().is_some_and(is);
        let state = UserState {
            name: order.name.clone(),
            uid: before.as_ref().map_or(7, |user| user.uid),
            epoch: before.as_ref().map_or(1, |user| user.epoch),
            has_password,
            is_super: order.is_super.unwrap_or(was(|user| user.is_super)),
            is_disabled: order.is_disabled.unwrap_or(was(|user| user.is_disabled)),
            rules: order.rules.or(before.map(|user| user.rules)).unwrap_or_default(),
        };
        users.insert(order.name, state.clone());
        Ok(state)
    }

    fn remove(&self, name: &str, authority: Authority) -> Result<bool, UserFault> {
        self.or_says(())?;
        reaches(authority, name)?;
        Ok(self.users.lock().expect("no panic").remove(name).is_some())
    }

    fn kick(&self, name: &str, authority: Authority) -> Result<Option<UserState>, UserFault> {
        self.or_says(())?;
        reaches(authority, name)?;
        let mut users = self.users.lock().expect("no panic");
        let user = users.get_mut(name);
        Ok(user.map(|user| {
            user.epoch += 1;
            user.clone()
        }))
    }

    fn import(
        &self,
        lines: &[String],
        form: ImportForm,
        authority: Authority,
    ) -> Result<Imported, UserFault> {
        lines.iter().try_for_each(|name| reaches(authority, name))?;
        *self.form.lock().expect("no panic") = Some(form);
        self.or_says(())?;
        Ok(self.take_in(lines))
    }
}

/// Here `boss` is the only one who administers.
fn reaches(authority: Authority, name: &str) -> Result<(), UserFault> {
    match authority == Authority::Admin || name != "boss" {
        true => Ok(()),
        false => Err(UserFault::OutOfReach(name.into())),
    }
}

/// A password is right here when it is the name of a user of the book backwards.
pub(super) fn backwards(book: &Arc<Book>) -> Arc<dyn crate::ConsolePeople> {
    Arc::new(Backwards(Arc::clone(book)))
}

struct Backwards(Arc<Book>);

impl crate::ConsolePeople for Backwards {
    fn check(&self, name: &str, password: &str) -> Result<Option<u64>, UserFault> {
        let is_right = name.chars().rev().collect::<String>() == password;
        Ok(self.standing(name)?.filter(|_| is_right))
    }

    fn standing(&self, name: &str) -> Result<Option<u64>, UserFault> {
        let state = self.0.user(name)?.filter(|state| state.has_password && !state.is_disabled);
        Ok(state.map(|state| state.epoch))
    }
}

impl Book {
    /// A line is a name here, and one that is `wrong` is wrong.
    fn take_in(&self, lines: &[String]) -> Imported {
        let mut told = Imported::default();
        for line in lines {
            if line == "wrong" {
                told.wrong = Some("a line is a name".into());
                break;
            }
            let order = UserOrder {
                name: line.clone(),
                password: None,
                is_super: None,
                is_disabled: None,
                rules: None,
            };
            self.put(order, Authority::Admin).expect("nothing is said");
            (told.done, told.made) = (told.done + 1, told.made + 1);
        }
        told
    }

    /// The error that the test wants, or this answer.
    fn or_says<T>(&self, told: T) -> Result<T, UserFault> {
        self.says.lock().expect("no panic").clone().map_or(Ok(told), Err)
    }
}

fn test_api() -> (TestApi, Arc<Book>) {
    let book = Arc::new(Book::default());
    let users = Arc::clone(&book) as Arc<dyn Users>;
    (TestApi::with(Settings { users, ..settings() }, |_| Answer::Busy), book)
}

#[test]
fn a_user_is_made_changed_shown_and_removed() {
    let (test_api, book) = test_api();
    let path = "/v1/users/a%2Fb";
    let body = json!({
        "password": "s3cret-word", "superuser": true,
        "rules": [{ "action": "publish", "filter": "a/%c/#" }, { "allow": false, "filter": "x" }],
    });
    let (status, told) = test_api.json("PUT", path, &body.to_string());
    assert_eq!((status, &told["name"], &told["superuser"]), (200, &json!("a/b"), &json!(true)));
    check_answer("put", "/v1/users/{user}", &told);
    let expected = [
        UserRule { allow: true, publish: true, read: false, filter: "a/%c/#".into() },
        UserRule { allow: false, publish: true, read: true, filter: "x".into() },
    ];
    assert_eq!(book.user("a/b").expect("said").expect("is there").rules, expected);
    let (_, told) = test_api.json("PUT", path, r#"{"disabled": true}"#);
    assert_eq!((&told["superuser"], &told["disabled"]), (&json!(true), &json!(true)));
    assert_eq!(told["rules"].as_array().map(Vec::len), Some(2), "what is left out stays");
    assert_eq!(book.passwords.lock().expect("no panic")[1], None);
    for name in ["a", "c"] {
        assert_eq!(test_api.json("PUT", &format!("/v1/users/{name}"), "").0, 200);
    }
    let (_, told) = test_api.json("GET", "/v1/users?limit=2", "");
    check_answer("get", "/v1/users", &told);
    assert_eq!((&told["users"][1]["name"], &told["next"]), (&json!("a/b"), &json!("a/b")));
    assert_eq!(told["total"], json!(3), "of all pages");
    let (_, told) = test_api.json("GET", "/v1/users?limit=2&after=a%2Fb", "");
    assert_eq!((&told["users"][0]["name"], &told["next"]), (&json!("c"), &json!(null)));
    let (_, text, _) = test_api.send("GET", path, "");
    check_answer("get", "/v1/users/{user}", &serde_json::from_str(&text).expect("JSON"));
    assert!(!text.contains("s3cret"), "{text}");
    let (status, told) = test_api.json("POST", "/v1/users/a%2Fb/kick", "");
    check_answer("post", "/v1/users/{user}/kick", &told);
    assert_eq!((status, &told["uid"], &told["epoch"]), (200, &json!("7"), &json!("2")));
    let (_, told) = test_api.json("DELETE", path, "");
    check_answer("delete", "/v1/users/{user}", &told);
    for (method, path) in [("GET", path), ("DELETE", path), ("POST", "/v1/users/a%2Fb/kick")] {
        let (status, told) = test_api.json(method, path, "");
        assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_user")));
    }
}

#[test]
fn what_the_book_does_not_take_is_told() {
    let (test_api, book) = test_api();
    let long = "x".repeat(257);
    for (path, body, expected) in [
        (&*format!("/v1/users/{long}"), "{}", "1 to 256 bytes"),
        ("/v1/users/a%0Ab", "{}", "control"),
        ("/v1/users/u", r#"{"password": ""}"#, "1 to 1024 bytes"),
        ("/v1/users/u", r#"{"password": 7}"#, "`password` must be a string"),
        ("/v1/users/u", r#"{"rules": [{"filter": "a#"}]}"#, "`rules[0].filter` must use + only"),
        ("/v1/users/u", r#"{"rules": [{"filter": "a", "action": "x"}]}"#, "`rules[0].action`"),
        ("/v1/users/u", r#"{"rules": null}"#, "`rules` must not be null"),
        (
            "/v1/users/u",
            r#"{"rules": [{"filter": "a"}, {"filter": "b", "action": null}]}"#,
            "`rules[1].action` must not be null",
        ),
        ("/v1/users/u", r#"{"admin": true}"#, "unknown field `admin`"),
    ] {
        let (status, told) = test_api.json("PUT", path, body);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(expected), "{body}: {status} {message}");
        check_named("ApiError", &told);
    }
    for (fault, status, code) in [
        (UserFault::Wrong("not so".into()), 400, "bad_request"),
        (UserFault::Full, 409, "users_full"),
        (UserFault::Busy, 503, "busy"),
        (UserFault::StoreFailed, 503, "store_failed"),
        (UserFault::DatabaseFailed("away".into()), 503, "database_failed"),
    ] {
        *book.says.lock().expect("no panic") = Some(fault);
        for (method, path, body) in [
            ("PUT", "/v1/users/u", "{}"),
            ("GET", "/v1/users/u", ""),
            ("GET", "/v1/users", ""),
            ("DELETE", "/v1/users/u", ""),
            ("POST", "/v1/users/u/kick", ""),
            ("POST", "/v1/users", r#"{"lines": ["a"]}"#),
        ] {
            let (found, told) = test_api.json(method, path, body);
            assert_eq!((found, &told["error"]["code"]), (status, &json!(code)), "{method} {path}");
        }
    }
}

#[test]
fn lines_of_users_are_taken_in_up_to_the_first_that_is_wrong() {
    let (test_api, book) = test_api();
    let (status, told) = test_api.json("POST", "/v1/users", r#"{"lines": ["a", "b"]}"#);
    check_answer("post", "/v1/users", &told);
    let expected = json!({ "done": 2, "made": 2, "changed": 0, "same": 0, "wrong": null });
    assert_eq!((status, told), (200, expected));
    assert_eq!(*book.form.lock().expect("no panic"), Some(ImportForm::Passwords));
    let body = r#"{"lines": ["c", "wrong", "d"], "form": "csv"}"#;
    let (status, told) = test_api.json("POST", "/v1/users", body);
    check_answer("post", "/v1/users", &told);
    assert_eq!(
        (status, &told["done"], &told["wrong"]),
        (200, &json!(1), &json!("a line is a name"))
    );
    assert_eq!(*book.form.lock().expect("no panic"), Some(ImportForm::Csv));
    assert_eq!(book.user("d"), Ok(None));
    let many = json!({ "lines": vec!["x"; IMPORT_LINES_MAX + 1] }).to_string();
    for (body, expected) in [
        (r#"{"lines": []}"#, "1 to 4096"),
        (&*many, "1 to 4096"),
        (r#"{"lines": ["a"], "form": "xml"}"#, "`form` must be"),
        (r#"{"lines": [1]}"#, "`lines[0]` must be a string"),
        ("{}", "lines"),
    ] {
        let (status, told) = test_api.json("POST", "/v1/users", body);
        let message = told["error"]["message"].as_str().expect("text");
        assert!(status == 400 && message.contains(expected), "{status} {message}");
    }
}
