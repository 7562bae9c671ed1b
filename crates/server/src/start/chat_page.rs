//! The chat page: the files of `clients/chat-page` that listeners give to browsers.
//!
//! The files are in the binary as they are in the repository; `scripts/clients.sh` checks that they
//! match their sources. Their content is the page's own affair.

use net::layer::files::StaticFile;

const HTML: &str = "text/html; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const ICON: &str = "image/svg+xml";

/// Where IM is for the page, which asks for nothing else.
pub(super) const SOCKET_PATH: &str = "/im";
/// Where the page is.
pub const PATH: &str = "/chat";

macro_rules! file {
    ($path:literal, $media_type:ident) => {
        StaticFile::new(
            $path,
            $media_type,
            include_bytes!(concat!("../../../../clients/chat-page/public", $path)),
        )
    };
}

/// All files of the page. It is there with a slash behind its path, too.
pub(super) fn files() -> Vec<StaticFile> {
    let page = include_bytes!("../../../../clients/chat-page/public/chat.html");
    vec![
        StaticFile::new(PATH, HTML, page),
        StaticFile::new("/chat/", HTML, page),
        file!("/chat/chat.css", STYLE),
        file!("/chat/icon.svg", ICON),
        file!("/chat/attachments.js", SCRIPT),
        file!("/chat/avatars.js", SCRIPT),
        file!("/chat/changes.js", SCRIPT),
        file!("/chat/completion.js", SCRIPT),
        file!("/chat/contact.js", SCRIPT),
        file!("/chat/conversation.js", SCRIPT),
        file!("/chat/dom.js", SCRIPT),
        file!("/chat/drafts.js", SCRIPT),
        file!("/chat/files.js", SCRIPT),
        file!("/chat/keeping.js", SCRIPT),
        file!("/chat/links.js", SCRIPT),
        file!("/chat/list.js", SCRIPT),
        file!("/chat/listed.js", SCRIPT),
        file!("/chat/login.js", SCRIPT),
        file!("/chat/members.js", SCRIPT),
        file!("/chat/mentions.js", SCRIPT),
        file!("/chat/menu.js", SCRIPT),
        file!("/chat/notices.js", SCRIPT),
        file!("/chat/options.js", SCRIPT),
        file!("/chat/page.js", SCRIPT),
        file!("/chat/place.js", SCRIPT),
        file!("/chat/presence.js", SCRIPT),
        file!("/chat/quotes.js", SCRIPT),
        file!("/chat/reading.js", SCRIPT),
        file!("/chat/receipts.js", SCRIPT),
        file!("/chat/room.js", SCRIPT),
        file!("/chat/searching.js", SCRIPT),
        file!("/chat/talk.js", SCRIPT),
        file!("/chat/titles.js", SCRIPT),
        file!("/chat/typing-line.js", SCRIPT),
        file!("/chat/typing.js", SCRIPT),
        file!("/chat/words.js", SCRIPT),
        file!("/chat/im/actions.js", SCRIPT),
        file!("/chat/im/addresses.js", SCRIPT),
        file!("/chat/im/asks.js", SCRIPT),
        file!("/chat/im/backoff.js", SCRIPT),
        file!("/chat/im/chatroom.js", SCRIPT),
        file!("/chat/im/contact.js", SCRIPT),
        file!("/chat/im/client.js", SCRIPT),
        file!("/chat/im/conversation-list.js", SCRIPT),
        file!("/chat/im/conversation-requests.js", SCRIPT),
        file!("/chat/im/conversation.js", SCRIPT),
        file!("/chat/im/file.js", SCRIPT),
        file!("/chat/im/follower.js", SCRIPT),
        file!("/chat/im/frames.js", SCRIPT),
        file!("/chat/im/given.js", SCRIPT),
        file!("/chat/im/group.js", SCRIPT),
        file!("/chat/im/inbox.js", SCRIPT),
        file!("/chat/im/index.js", SCRIPT),
        file!("/chat/im/keepalive.js", SCRIPT),
        file!("/chat/im/machine.js", SCRIPT),
        file!("/chat/im/message.js", SCRIPT),
        file!("/chat/im/options.js", SCRIPT),
        file!("/chat/im/outbox.js", SCRIPT),
        file!("/chat/im/people.js", SCRIPT),
        file!("/chat/im/receipts.js", SCRIPT),
        file!("/chat/im/scram.js", SCRIPT),
        file!("/chat/im/storage.js", SCRIPT),
        file!("/chat/im/token.js", SCRIPT),
        file!("/chat/im/transient.js", SCRIPT),
        file!("/chat/im/wire.js", SCRIPT),
        file!("/chat/im/words.js", SCRIPT),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// The files in a folder and below, as a browser would ask for them.
    fn below(folder: &Path, path: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("it is in the repository") {
            let entry = entry.expect("an entry");
            let path = format!("{path}/{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                below(&entry.path(), &path, found);
            } else {
                found.push(path);
            }
        }
    }

    #[test]
    fn every_file_of_the_page_is_given_and_no_other() {
        let public = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../clients/chat-page/public");
        let mut there = Vec::new();
        below(&public, "", &mut there);
        let served = |path: &str| match path {
            "/chat.html" => vec!["/chat".to_owned(), "/chat/".to_owned()],
            path => vec![path.to_owned()],
        };
        let mut there: Vec<String> = there.iter().flat_map(|path| served(path)).collect();
        let mut given: Vec<String> = files().iter().map(|file| file.path().to_owned()).collect();
        there.sort();
        given.sort();
        assert_eq!(given, there);
    }
}
