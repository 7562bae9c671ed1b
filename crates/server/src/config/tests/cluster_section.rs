//! `[cluster]`: what is refused, and what is warned of.

use super::{parse, refused};

#[test]
fn a_cluster_needs_an_address_for_clients_and_a_synced_log() {
    let nats = "nats = [\"nats://a:4222\"]";
    refused(
        &format!("[cluster]\n{nats}"),
        &[&format!(
            "holdline.toml:2: [cluster] {nats}: nodes that follow must know where clients reach \
             this one; set advertise to the host name or IP address of this node"
        )],
    );
    refused(
        &format!("[store]\nfsync = \"never\"\n[cluster]\n{nats}\nadvertise = [\"b\"]"),
        &["holdline.toml:2: [store] fsync = \"never\": a node of a cluster must have a message \
           on its disk before it is published; set fsync = \"always\""],
    );
}

#[test]
fn keys_of_a_cluster_agree_with_each_other() {
    let with = |rest: &str| {
        let text = format!("[cluster]\nnats = [\"nats://a:4222\"]\nadvertise = [\"b\"]\n{rest}");
        parse(&text).err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert_eq!(with(""), "");
    assert!(with("certificate = \"c\"").contains("certificate and key go together"));
    let tls = with("certificate = \"c\"\nkey = \"k\"");
    assert!(tls.contains("a client certificate is sent only in TLS"), "{tls}");
    assert!(with("credentials = \"c\"\nnkey = \"k\"").contains("exclude each other"));
    let alone = with("copies_min = 2\nfollowers = 0");
    assert!(alone.contains("is more than the leader and its followers are"), "{alone}");
    assert_eq!(with("copies_min = 2"), "");
    assert!(with("nats = []").contains("duplicate"), "TOML has each key once");
}

#[test]
fn a_media_folder_of_a_cluster_is_warned_of() {
    let text = |cluster: &str| format!("{cluster}\n[media]\nfolder = \"files\"");
    let cluster = "[cluster]\nnats = [\"nats://a:4222\"]\nadvertise = [\"b\"]";
    let warnings = |text: &str| parse(text).expect("right").warnings;
    let told = warnings(&text(cluster));
    assert!(told.iter().any(|it| it.contains("all nodes of the cluster must see")), "{told:?}");
    assert!(warnings(&text("")).is_empty(), "a server that is alone shares with nobody");
}
