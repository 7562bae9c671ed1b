package holdline.im;

import com.google.protobuf.ByteString;
import dev.holdline.im.v1.Content;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Messages that the server has not stored yet, in the order in which they were sent.
 *
 * <p>One message of a conversation is on its way at a time, so that a conversation keeps its order.
 * Each keeps its client id until the server has answered, so that retries never duplicate it
 * (IM 4.2).
 */
final class Outbox {
    private static final int MESSAGES_MAX = 256;
    private static final long BYTES_MAX = 1 << 20;
    /** After a message that the server could not take now; it doubles. */
    private static final long AGAIN_MS = 1_000;
    private static final long AGAIN_MS_MAX = 30_000;

    /** A message that waits. */
    static final class Queued {
        final ByteString clientId;
        final String to;
        final Content content;
        final int textBytes;

        Queued(ByteString clientId, String to, Content content) {
            this.clientId = clientId;
            this.to = to;
            this.content = content;
            textBytes = content.getText().getBytes(StandardCharsets.UTF_8).length;
        }

        private long size() {
            return textBytes + content.getExtra().size();
        }
    }

    final List<Queued> queue = new ArrayList<>();
    /** Rises with each change of the queue. */
    long version;
    private final Map<Integer, Queued> underWay = new HashMap<>();
    private long againAt = Inbox.NEVER;
    private long againMs = AGAIN_MS;

    void add(Queued message) throws ImException {
        long size = message.size();
        for (Queued it : queue) {
            if (it.clientId.equals(message.clientId)) {
                return;
            }
            size += it.size();
        }
        if (queue.size() >= MESSAGES_MAX || size > BYTES_MAX) {
            throw new ImException("queue_full");
        }
        queue.add(message);
        version++;
    }

    /** The next that is to be sent: the first of a conversation that has none on its way. */
    Queued next(long now, String domain, int window) {
        if (againAt != Inbox.NEVER && now < againAt) {
            return null;
        }
        againAt = Inbox.NEVER;
        if (underWay.size() >= window) {
            return null;
        }
        Set<String> busy = new HashSet<>();
        underWay.values().forEach(it -> busy.add(whole(it.to, domain)));
        for (Queued it : queue) {
            if (!busy.contains(whole(it.to, domain))) {
                return it;
            }
        }
        return null;
    }

    void sent(int number, Queued message) {
        underWay.put(number, message);
    }

    /** The server has answered this request for good: the message, if it still waited. */
    Queued answered(int number) {
        Queued it = underWay.remove(number);
        againMs = AGAIN_MS;
        return it == null ? null : take(it.clientId);
    }

    /** The server could not take it now. */
    void refused(long now, int number, long hintMs) {
        if (underWay.remove(number) != null) {
            againAt = now + Math.max(againMs, hintMs);
            againMs = Math.min(againMs * 2, AGAIN_MS_MAX);
        }
    }

    /** It waits no more. */
    Queued take(ByteString clientId) {
        for (Queued it : queue) {
            if (it.clientId.equals(clientId)) {
                queue.remove(it);
                version++;
                return it;
            }
        }
        return null;
    }

    void lost() {
        underWay.clear();
        againAt = Inbox.NEVER;
    }

    long due() {
        return queue.isEmpty() ? Inbox.NEVER : againAt;
    }

    private static String whole(String to, String domain) {
        return to.contains("@") ? to : to + "@" + domain;
    }
}
