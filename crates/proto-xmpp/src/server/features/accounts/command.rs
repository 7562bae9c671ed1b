//! The commands of XEP-0133 that there are: their names, forms and outcomes, as XML.

use super::count_of;
use crate::forms::{FORMS, field};
use crate::server::iq::{DISCO_INFO, DISCO_ITEMS, disco_info};
use crate::xml::text::escaped;
use model::ports::users::{BOOK_ONLINE_MAX, BookDone, UserVerb};

/// The namespace of commands (XEP-0050 8.1), and the node that has them.
pub(super) const COMMANDS: &str = "http://jabber.org/protocol/commands";

/// The type of their forms, and how their nodes begin (XEP-0133 8.1).
pub(super) const ADMIN: &str = "http://jabber.org/protocol/admin";

/// No commands.
pub(super) const EMPTY: &str = "<query xmlns='http://jabber.org/protocol/disco#items' \
    node='http://jabber.org/protocol/commands'/>";

/// Of how many the list of those who are here may be (XEP-0133 4.20).
const COUNTS: [&str; 5] = ["25", "50", "100", "150", "200"];

/// A command.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Command {
    /// Its node, behind [`ADMIN`] and a `#`.
    pub(super) node: &'static str,
    /// As people read it.
    pub(super) name: &'static str,
    pub(super) what: CommandWhat,
}

/// Kind of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CommandWhat {
    /// Order about one account and its password.
    One(UserVerb),
    /// Order about accounts.
    Many(UserVerb),
    /// How many accounts there are.
    Registered,
    /// How many are here.
    OnlineCount,
    /// Which ones are here.
    Online,
    /// Statistics of a user.
    Statistics,
    /// Sends an announcement to all devices that are online.
    Announce,
}

const fn command(node: &'static str, name: &'static str, what: CommandWhat) -> Command {
    Command { node, name, what }
}

/// All of them, in the order of XEP-0133.
pub(super) static ALL: [Command; 11] = [
    command("add-user", "Add User", CommandWhat::One(UserVerb::Add)),
    command("delete-user", "Delete User", CommandWhat::Many(UserVerb::Remove)),
    command("disable-user", "Disable User", CommandWhat::Many(UserVerb::Disable)),
    command("reenable-user", "Re-Enable User", CommandWhat::Many(UserVerb::Enable)),
    command("end-user-session", "End User Session", CommandWhat::Many(UserVerb::End)),
    command(
        "change-user-password",
        "Change User Password",
        CommandWhat::One(UserVerb::SetPassword),
    ),
    command("user-stats", "Get User Statistics", CommandWhat::Statistics),
    command("get-registered-users-num", "Get Number of Registered Users", CommandWhat::Registered),
    command("get-online-users-num", "Get Number of Online Users", CommandWhat::OnlineCount),
    command("get-online-users-list", "Get List of Online Users", CommandWhat::Online),
    command("announce", "Send Announcement to Online Users", CommandWhat::Announce),
];

/// The command of a node.
pub(super) fn find(node: &str) -> Option<&'static Command> {
    let name = node.strip_prefix(ADMIN)?.strip_prefix('#')?;
    ALL.iter().find(|command| *command.node == *name)
}

/// All of them, as items of the address that was asked.
pub(super) fn list(jid: Option<&str>) -> String {
    let jid = escaped(jid.unwrap_or_default());
    let item =
        |it: &Command| format!("<item jid='{jid}' node='{ADMIN}#{}' name='{}'/>", it.node, it.name);
    let items: String = ALL.iter().map(item).collect();
    format!("<query xmlns='{DISCO_ITEMS}' node='{COMMANDS}'>{items}</query>")
}

/// Description of a command (XEP-0050 2.3); absent: of the node that has them.
pub(super) fn info(command: Option<&Command>) -> String {
    match command {
        None => {
            let identity = "<identity category='automation' type='command-list'/>";
            disco_info(Some(COMMANDS), identity, [DISCO_INFO, DISCO_ITEMS], "")
        }
        Some(it) => {
            let name = it.name;
            let identity =
                format!("<identity category='automation' type='command-node' name='{name}'/>");
            disco_info(Some(&format!("{ADMIN}#{}", it.node)), &identity, [COMMANDS, FORMS], "")
        }
    }
}

/// The form that a command begins with.
pub(super) fn form((command, open): (&Command, &str)) -> String {
    let required = |name: &str, kind: &str, label: &str| {
        format!("<field var='{name}' type='{kind}' label='{label}'><required/></field>")
    };
    let fields = match command.what {
        CommandWhat::One(verb) => {
            let verify = match verb {
                UserVerb::Add => required("password-verify", "text-private", "The same again"),
                _ => String::new(),
            };
            required("accountjid", "jid-single", "The account")
                + &required("password", "text-private", "Its password")
                + &verify
        }
        CommandWhat::Many(_) => required("accountjids", "jid-multi", "The accounts"),
        CommandWhat::Statistics => required("accountjid", "jid-single", "The account"),
        CommandWhat::Announce => {
            let subject = "<field var='subject' type='text-single' label='What it is about'/>";
            subject.to_owned() + &required("announcement", "text-multi", "What is said")
        }
        CommandWhat::Online => {
            let option = |count| format!("<option label='{count}'><value>{count}</value></option>");
            let options: String = COUNTS.into_iter().map(option).collect();
            format!(
                "<field var='max_items' type='list-single' label='At most'>\
                 <value>{BOOK_ONLINE_MAX}</value>{options}</field>"
            )
        }
        CommandWhat::Registered | CommandWhat::OnlineCount => String::new(),
    };
    let fields = field("FORM_TYPE", "hidden", &[ADMIN]) + &fields;
    let form =
        format!("<x xmlns='{FORMS}' type='form'><title>{}</title>{fields}</x>", command.name);
    let actions = "<actions execute='complete'><complete/></actions>";
    put((command, open, "executing"), &format!("{actions}{form}"))
}

/// Result of a command.
pub(super) fn completed((command, open): (&Command, &str), done: &BookDone) -> String {
    let form = |fields: String| {
        let fields = field("FORM_TYPE", "hidden", &[ADMIN]) + &fields;
        format!("<x xmlns='{FORMS}' type='result'>{fields}</x>")
    };
    let count = count_of(done).to_string();
    let inner = match (command.what, done) {
        (CommandWhat::Registered, _) => form(field("registeredusersnum", "", &[&count])),
        (CommandWhat::OnlineCount, _) => form(field("onlineusersnum", "", &[&count])),
        (CommandWhat::Online, BookDone::Online { accounts, .. }) => {
            let accounts: Vec<&str> = accounts.iter().map(|it| it.as_str()).collect();
            form(field("onlineuserjids", "jid-multi", &accounts))
        }
        (CommandWhat::Statistics, BookDone::Statistics { contacts, devices }) => {
            let devices: Vec<&str> = devices.iter().map(|it| &**it).collect();
            let size = field("rostersize", "", &[&contacts.to_string()]);
            form(size + &field("onlineresources", "text-multi", &devices))
        }
        _ => "<note type='info'>Done.</note>".into(),
    };
    put((command, open, "completed"), &inner)
}

/// A command is over, and nothing was done.
pub(super) fn canceled((command, open): (&Command, &str)) -> String {
    put((command, open, "canceled"), "")
}

fn put((command, open, status): (&Command, &str, &str), inner: &str) -> String {
    let node = command.node;
    format!(
        "<command xmlns='{COMMANDS}' node='{ADMIN}#{node}' sessionid='{open}' status='{status}'>\
         {inner}</command>"
    )
}
