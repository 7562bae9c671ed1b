//! A service that nobody had when the server was made, in its list: it is asked over the control
//! port, speaks to its like on other shards, and has back what its log kept.

use model::ports::control::{Answer, Command, Control};
use model::service::Echo;
use server::config::Config;
use server::shard_logic::RunningService;
use server::start::{RunningServer, StartOptions, start, start_with};
use std::path::Path;
use std::sync::mpsc::sync_channel;
use testkit::echo::EchoService;

fn config(data: &Path) -> Config {
    let data = data.to_str().expect("a path of letters");
    let text = format!(
        "[server]\ndata = {data:?}\nshards = 2\npin = false\n[api]\nenabled = false\n\
         [limits]\ndrain_ms = 50\n[listen.tcp]\naddress = \"127.0.0.1:0\"\n"
    );
    Config::parse("test", &text, std::iter::empty()).expect("it holds to the rules")
}

fn say(server: &RunningServer, text: &str) -> Answer {
    let (tell, told) = sync_channel(1);
    let reply = Box::new(move |answer| tell.send(answer).expect("awaited"));
    server.control().ask(Command::Echo(Echo(text.into())), reply);
    told.recv().expect("an answer")
}

fn stop(server: RunningServer) {
    server.drain();
    server.join();
}

#[test]
fn a_further_service_runs_in_a_server_and_keeps_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let echo = |shard, shards| vec![RunningService::boxed(EchoService::new(shard, shards))];
    let server = start_with(
        config(folder.path()),
        StartOptions { further: &echo, ..StartOptions::default() },
    )
    .expect("starts");
    assert_eq!(say(&server, "a"), Answer::Echo(Echo("a 1".into())));
    assert_eq!(say(&server, "b"), Answer::Echo(Echo("b 2".into())));
    stop(server);
    let server = start_with(
        config(folder.path()),
        StartOptions { further: &echo, ..StartOptions::default() },
    )
    .expect("starts");
    assert_eq!(say(&server, "c"), Answer::Echo(Echo("c 3".into())), "its row came back");
    stop(server);
}

#[test]
fn a_service_that_is_not_there_is_busy() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = start(config(folder.path())).expect("starts");
    assert_eq!(say(&server, "a"), Answer::Busy);
    stop(server);
}
