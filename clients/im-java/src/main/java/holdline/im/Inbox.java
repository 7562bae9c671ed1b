package holdline.im;

import java.util.TreeSet;

/**
 * How far this device is in its account's inbox, and what it does to go on (IM 5).
 *
 * <p>Invariant: an entry is handed out once in the life of a client, in the inbox's order, without a
 * gap but for what this device has sent itself.
 */
final class Inbox {
    static final long NEVER = Long.MAX_VALUE;
    /** Entries that are acknowledged together without waiting for the second. */
    private static final int UNACKNOWLEDGED_MAX = 32;
    /** The longest that an acknowledgement waits for others (IM 5.5). */
    private static final long ACKNOWLEDGE_MS = 1_000;
    /** After a pull that the server did not do. */
    private static final long PULL_AGAIN_MS = 1_000;
    /** Number of unacknowledged entries at which delivery to the application pauses. */
    private static final int HELD_MAX = 256;

    /** Up to here everything was handed out. */
    long last;
    /** Up to here the application has everything; -1: there was no session. */
    long done = -1;
    private final TreeSet<Long> held = new TreeSet<>();
    private long acknowledged;
    private long head;
    private long own;
    private long acknowledgeAt = NEVER;
    private long pullAt;
    private boolean isPulling;
    private boolean mustPull;

    void restore(long place) {
        last = place;
        done = place;
    }

    /** A session begins. An inbox that ends before what is known is another one. */
    void begin(long cursor, long head) {
        if (done < 0 || last > head) {
            restore(cursor);
            held.clear();
        }
        acknowledged = cursor;
        this.head = head;
        own = 0;
        pullAt = 0;
        isPulling = false;
        // Until it has pulled up to the head, the server sends nothing by itself (IM 5.2).
        mustPull = cursor != head || last != cursor;
        acknowledgeAt = done > cursor ? 0 : NEVER;
    }

    /** An entry has come by itself; true if it is the next one. */
    boolean comes(long place) {
        boolean isBehind = mustPull || isPulling || head > last;
        notify(place);
        long between = place - last - 1;
        if (between < 0 || isFull() || between > own || between > 0 && isBehind) {
            return false;
        }
        own -= between;
        last = place;
        return true;
    }

    void notify(long head) {
        this.head = Math.max(this.head, head);
    }

    /** Everything up to a place was pulled. */
    void page(long upto, long head) {
        isPulling = false;
        own = 0;
        notify(head);
        last = Math.max(last, upto);
        if (last >= this.head) {
            mustPull = false;
        }
    }

    void pullFailed(long now) {
        isPulling = false;
        pullAt = now + PULL_AGAIN_MS;
    }

    /** This device sent a message, whose place it has not passed. */
    void sentOwn() {
        own++;
    }

    /** The entry is handed out. */
    void hold(long place) {
        held.add(place);
    }

    /** The application has an entry; false if it does not hold it. */
    boolean release(long now, long place) {
        boolean isHeld = held.remove(place);
        advance(now);
        return isHeld;
    }

    /** Everything before the first entry that is held is done. */
    void advance(long now) {
        done = Math.max(done, held.isEmpty() ? last : held.first() - 1);
        if (done > acknowledged && acknowledgeAt == NEVER) {
            acknowledgeAt = now + ACKNOWLEDGE_MS;
        }
    }

    /** The acknowledgement that is due; -1: none. */
    long acknowledgement(long now) {
        boolean isMuch = done - acknowledged >= UNACKNOWLEDGED_MAX;
        if (done <= acknowledged || !isMuch && now < acknowledgeAt) {
            return -1;
        }
        acknowledged = done;
        acknowledgeAt = NEVER;
        return done;
    }

    /** The place after which a pull is due; -1: none is. */
    long pull(long now) {
        if (!wantsPull() || now < pullAt) {
            return -1;
        }
        isPulling = true;
        return last;
    }

    long due() {
        return wantsPull() ? Math.min(acknowledgeAt, pullAt) : acknowledgeAt;
    }

    private boolean isFull() {
        return held.size() >= HELD_MAX;
    }

    private boolean wantsPull() {
        return !isPulling && !isFull() && (mustPull || last < head);
    }
}
