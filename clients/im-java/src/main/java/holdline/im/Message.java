package holdline.im;

import dev.holdline.im.v1.ChatMessage;
import dev.holdline.im.v1.InboxEntry;

/** A message of the inbox. */
public final class Message {
    private final long place;
    private final ChatMessage raw;
    private final String peer;

    Message(InboxEntry entry, String account) {
        place = entry.getSeq();
        raw = entry.getMessage();
        String domain = raw.getTo().substring(raw.getTo().indexOf('@') + 1);
        boolean isMany = domain.startsWith("conference.") || domain.startsWith("live.");
        peer = isMany || raw.getFrom().equals(account) ? raw.getTo() : raw.getFrom();
    }

    /** Its place in the inbox, by which it is acknowledged. */
    public long place() {
        return place;
    }

    /** The conversation: the other account, or the group. */
    public String peer() {
        return peer;
    }

    /** Who said it. */
    public String sender() {
        return raw.getFrom();
    }

    /** What was said. */
    public String text() {
        return raw.getContent().getText();
    }

    /** The protocol's own message, with everything that is not here. */
    public ChatMessage raw() {
        return raw;
    }

    @Override
    public String toString() {
        return "Message " + place + " of " + sender();
    }
}
