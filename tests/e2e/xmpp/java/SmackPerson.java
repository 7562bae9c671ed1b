import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.net.InetAddress;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;
import org.jivesoftware.smack.ConnectionConfiguration.SecurityMode;
import org.jivesoftware.smack.chat2.ChatManager;
import org.jivesoftware.smack.packet.Message;
import org.jivesoftware.smack.packet.Presence;
import org.jivesoftware.smack.roster.AbstractPresenceEventListener;
import org.jivesoftware.smack.roster.Roster;
import org.jivesoftware.smack.roster.RosterEntry;
import org.jivesoftware.smack.tcp.XMPPTCPConnection;
import org.jivesoftware.smack.tcp.XMPPTCPConnectionConfiguration;
import org.jivesoftware.smackx.carbons.CarbonManager;
import org.jivesoftware.smackx.mam.MamManager;
import org.jivesoftware.smackx.muc.MultiUserChat;
import org.jivesoftware.smackx.muc.MultiUserChatManager;
import org.jxmpp.jid.BareJid;
import org.jxmpp.jid.EntityBareJid;
import org.jxmpp.jid.FullJid;
import org.jxmpp.jid.Jid;
import org.jxmpp.jid.impl.JidCreate;
import org.jxmpp.jid.parts.Resourcepart;

/**
 * A person with Smack over TCP, in TLS. What it is told and what it tells are lines, words with tabs
 * between them; xmpp/test_libraries.py knows which.
 *
 * <p>java SmackPerson AUTHORITY PORT NAME PASSWORD
 */
public final class SmackPerson {
    private final XMPPTCPConnection connection;
    private final Roster roster;

    public static void main(String[] words) throws Exception {
        new SmackPerson(words[0], Integer.parseInt(words[1]), words[2], words[3]).run();
        System.exit(0);
    }

    private SmackPerson(String authority, int port, String name, String password) throws Exception {
        connection = new XMPPTCPConnection(XMPPTCPConnectionConfiguration.builder()
            .setHostAddress(InetAddress.getByName("127.0.0.1")).setPort(port)
            .setXmppDomain("localhost").setUsernameAndPassword(name, password)
            .setSecurityMode(SecurityMode.required).setCustomX509TrustManager(trusting(authority))
            .setResource("desk").build());
        roster = Roster.getInstanceFor(connection);
        roster.setSubscriptionMode(Roster.SubscriptionMode.accept_all);
        roster.addPresenceEventListener(new AbstractPresenceEventListener() {
            @Override
            public void presenceAvailable(FullJid who, Presence presence) {
                boolean isHere = presence.getMode() == Presence.Mode.available;
                print("presence", who, isHere ? "here" : presence.getMode());
            }

            @Override
            public void presenceUnavailable(FullJid who, Presence presence) {
                print("presence", who, "gone");
            }
        });
        ChatManager.getInstanceFor(connection).addIncomingListener(
            (from, message, chat) -> print("message", message.getFrom(), message.getBody()));
    }

    private static X509TrustManager trusting(String authority) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, null);
        try (FileInputStream file = new FileInputStream(authority)) {
            store.setCertificateEntry("ca",
                CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        String kind = TrustManagerFactory.getDefaultAlgorithm();
        TrustManagerFactory trust = TrustManagerFactory.getInstance(kind);
        trust.init(store);
        return (X509TrustManager) trust.getTrustManagers()[0];
    }

    private static synchronized void print(Object... words) {
        StringBuilder line = new StringBuilder();
        for (Object word : words) {
            line.append(line.length() > 0 ? "\t" : "").append(word);
        }
        System.out.println(line);
        System.out.flush();
    }

    private void run() throws Exception {
        try {
            connection.connect().login();
        } catch (Exception error) {
            print("failed", error);
            return;
        }
        roster.reloadAndWait();
        CarbonManager.getInstanceFor(connection).enableCarbons();
        print("online", connection.getUser());
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t");
            if (words[0].equals("quit")) {
                break;
            }
            try {
                act(words);
            } catch (Exception error) {
                print("failed", words[0], error);
            }
        }
        connection.disconnect();
    }

    private void act(String[] words) throws Exception {
        switch (words[0]) {
            case "add" -> roster.createItemAndRequestSubscription(bare(words[1]), words[2], null);
            case "roster" -> {
                roster.reloadAndWait();
                for (RosterEntry it : roster.getEntries()) {
                    print("contact", it.getJid(), it.getName() == null ? "" : it.getName(),
                        it.getType());
                }
                print("roster", roster.getEntryCount());
            }
            case "show" -> connection.sendStanza(connection.getStanzaFactory()
                .buildPresenceStanza().setMode(Presence.Mode.fromString(words[1])).build());
            case "say" -> ChatManager.getInstanceFor(connection)
                .chatWith(entity(words[1])).send(words[2]);
            case "join" -> {
                MultiUserChat room = room(words[1]);
                room.addMessageListener(message -> {
                    if (message.getBody() != null) {
                        print("room", message.getFrom(), message.getBody());
                    }
                });
                room.join(Resourcepart.from(words[2]));
                print("joined", words[1]);
            }
            case "tell" -> room(words[1]).sendMessage(words[2]);
            case "archive" -> {
                Jid other = bare(words[1]);
                MamManager archive = MamManager.getInstanceFor(connection);
                var found = archive.queryArchive(MamManager.MamQueryArgs.builder()
                    .limitResultsToJid(other).setResultPageSizeTo(50).build()).getMessages();
                for (Message message : found) {
                    print("archived", message.getFrom(), message.getBody());
                }
                print("archive", found.size());
            }
            default -> print("failed", words[0], "it is not known");
        }
    }

    private MultiUserChat room(String name) throws Exception {
        return MultiUserChatManager.getInstanceFor(connection).getMultiUserChat(entity(name));
    }

    private static BareJid bare(String text) throws Exception {
        return JidCreate.bareFrom(text);
    }

    private static EntityBareJid entity(String text) throws Exception {
        return JidCreate.entityBareFrom(text);
    }
}
