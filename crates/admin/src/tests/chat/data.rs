//! Data of an account over the API: its export, its erasure, and the list of all groups.

use super::answer;
use crate::tests::description::check_answer;
use crate::tests::*;
use ::model::chat::ChatDelivery;
use ::model::ports::chat::{ChatAnswer, ChatCommand, ErrandWhat};
use ::model::timeline::Seq;
use serde_json::json;

/// As the service answers, with one page of each list.
fn one_page(command: &Command) -> Answer {
    let mut told = answer(command);
    if let Answer::Chat(ChatAnswer::Told(Some(told))) = &mut told {
        match &mut **told {
            ChatDelivery::ContactsPage(page) => page.more = false,
            ChatDelivery::Conversations(page) => page.more = false,
            _ => {}
        }
    }
    told
}

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn an_export_has_a_line_for_everything_and_says_that_it_is_whole() {
    let test_api = TestApi::new(one_page);
    let (status, text, _) = test_api.send("GET", "/v1/chat/accounts/ann/export", "");
    assert_eq!(status, 200, "{text}");
    let all = lines(&text);
    let types: Vec<_> = all.iter().map(|line| line["type"].as_str().expect("a type")).collect();
    let expected = [
        "account",
        "settings",
        "contact",
        "conversation",
        "group",
        "push",
        "node",
        "item",
        "message",
        "event",
        "message",
        "file",
        "end",
    ];
    assert_eq!(types, expected);
    assert_eq!(
        (&all[0]["account"], &all[1]["shares_reads"]),
        (&json!("ann@a.example"), &json!(true))
    );
    assert_eq!(all[5]["way"], "gateway chat");
    assert!(!text.contains("a secret"), "no token is told");
    assert_eq!((&all[8]["place"], &all[8]["text"]), (&json!(1), &json!("one")));
    assert_eq!((&all[9]["what"], &all[9]["upto"]), (&json!("read"), &json!(1)));
    assert_eq!(all[11]["url"], "https://a.example/cat.png");
    assert_eq!((&all[12]["lines"], &all[12]["upto"]), (&json!(12), &json!(3)));
}

#[test]
fn an_export_that_cannot_be_read_further_says_so_in_its_last_line() {
    let test_api = TestApi::new(|command| match command {
        Command::Chat(ChatCommand::Errand(errand)) => match errand.what {
            ErrandWhat::Inbox { .. } => Answer::Chat(ChatAnswer::StoreFailed),
            _ => one_page(command),
        },
        _ => one_page(command),
    });
    let (status, text, _) = test_api.send("GET", "/v1/chat/accounts/ann/export", "");
    let last = lines(&text).pop().expect("a line");
    assert_eq!((status, &last["type"]), (200, &json!("fault")), "{text}");
    let nobody = TestApi::new(|_| Answer::Chat(ChatAnswer::Account(None)));
    let (status, told) = nobody.json("GET", "/v1/chat/accounts/ann/export", "");
    assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_account")));
}

#[test]
fn an_export_whose_pages_do_not_go_on_ends() {
    let stuck = TestApi::new(|command| match command {
        Command::Chat(ChatCommand::Errand(errand)) => {
            let mut errand = errand.clone();
            if let ErrandWhat::Conversations { before, .. } = &mut errand.what {
                *before = Seq::MAX;
            }
            answer(&Command::Chat(ChatCommand::Errand(errand)))
        }
        _ => answer(command),
    });
    let (status, text, _) = stuck.send("GET", "/v1/chat/accounts/ann/export", "");
    let last = lines(&text).pop().expect("a line");
    assert_eq!((status, &last["type"]), (200, &json!("fault")), "{text}");
}

#[test]
fn an_erasure_is_begun_its_user_leaves_the_book_and_it_is_told_how_far_it_is() {
    let test_api = TestApi::new(answer);
    test_api.json("PUT", "/v1/users/ann", r#"{"password": "one"}"#);
    let (status, told) = test_api.json("DELETE", "/v1/chat/accounts/ann", "");
    let expected = json!({
        "erased": false, "step": "messages", "messages": 7, "user_removed": true,
    });
    assert_eq!((status, &told), (200, &expected));
    check_answer("delete", "/v1/chat/accounts/{account}", &told);
    let (_, told) = test_api.json("DELETE", "/v1/chat/accounts/ann", "");
    assert_eq!(told["user_removed"], false, "there is none any more");
    let over = TestApi::new(|_| Answer::Chat(ChatAnswer::Erasing(None)));
    let (status, told) = over.json("DELETE", "/v1/chat/accounts/ann", "");
    assert_eq!((status, &told["error"]["code"]), (404, &json!("unknown_account")));
}

#[test]
fn all_groups_are_listed_from_one_shard_after_the_other() {
    let test_api = TestApi::new(answer);
    let (status, told) = test_api.json("GET", "/v1/chat/groups", "");
    assert_eq!(status, 200);
    check_answer("get", "/v1/chat/groups", &told);
    assert_eq!(told["groups"][0]["owner"], "ann@a.example");
    assert_eq!(told["next"], "0-0001ff");
    let (_, told) = test_api.json("GET", "/v1/chat/groups?after=0-0001ff&limit=7", "");
    assert_eq!((&told["groups"], &told["next"]), (&json!([]), &json!("1-")));
    let (_, told) = test_api.json("GET", "/v1/chat/groups?after=1-", "");
    assert_eq!(told["next"], Value::Null);
    let asked = test_api.asked();
    let parts = asked.iter().map(|command| match command {
        Command::Chat(ChatCommand::Groups { shard, after, count }) => (*shard, after.len(), *count),
        other => panic!("{other:?}"),
    });
    assert_eq!(parts.collect::<Vec<_>>(), [(0, 0, 50), (0, 3, 7), (1, 0, 50)]);
    for wrong in ["after=x", "after=1", "after=0-zz", "limit=0", "limit=257"] {
        assert_eq!(test_api.json("GET", &format!("/v1/chat/groups?{wrong}"), "").0, 400, "{wrong}");
    }
}
