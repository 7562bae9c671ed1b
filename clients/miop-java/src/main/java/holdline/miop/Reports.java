package holdline.miop;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;

/**
 * The queue of Reports, which outlives connections and restarts, and what of it is in flight.
 *
 * <p>A Report keeps its number over connections, so that a receiver recognises a repeated one by
 * device and number. After a refusal nothing is sent for a pause, of which a half is random.
 */
final class Reports {
    static final int COUNT_MAX = 256;
    static final int BYTES_MAX = 1 << 20;
    private static final int IN_FLIGHT_MAX = 16;
    private static final long PAUSE_FIRST_MS = 5_000;
    private static final long PAUSE_LONGEST_MS = 300_000;
    private static final int CLIENT_ID_BYTES_MAX = 64;
    /** What a REPORT has beside its body: header, length, number, no properties. */
    private static final int HEAD_BYTES = 13;

    static final class Report {
        final int seq;
        final String clientId;
        final byte[] body;
        /** It is in flight on this connection. */
        boolean isSent;

        Report(int seq, String clientId, byte[] body) {
            this.seq = seq;
            this.clientId = clientId;
            this.body = body;
        }
    }

    final List<Report> waiting = new ArrayList<>();
    int nextSeq = 1;
    private final DoubleSupplier random;
    private int bytes;
    private long pauseMs = PAUSE_FIRST_MS;
    private long pausedTo;

    Reports(DoubleSupplier random) {
        this.random = random;
    }

    void restore(Report report) {
        waiting.add(report);
        bytes += report.body.length;
    }

    /** Adds a Report, unless its client id waits already. */
    boolean queue(byte[] body, String clientId, int frameMax) throws MiopException {
        for (Report it : waiting) {
            if (it.clientId.equals(clientId)) {
                return false;
            }
        }
        int idBytes = clientId.getBytes(StandardCharsets.UTF_8).length;
        if (body.length + HEAD_BYTES > frameMax || idBytes > CLIENT_ID_BYTES_MAX) {
            throw new MiopException("too_large");
        }
        if (waiting.size() >= COUNT_MAX || bytes + body.length > BYTES_MAX) {
            throw new MiopException("queue_full");
        }
        restore(new Report(nextSeq, clientId, body.clone()));
        nextSeq = seqAfter(nextSeq);
        return true;
    }

    /** Takes back the one that was queued last: it could not be stored. */
    void unqueue() {
        Report last = waiting.remove(waiting.size() - 1);
        bytes -= last.body.length;
        nextSeq = last.seq;
    }

    /** Numbers rise by one from 1 and wrap. */
    static int seqAfter(int seq) {
        return seq + 1 == 0 ? 1 : seq + 1;
    }

    /** What was in flight on the last connection is sent again. */
    void connected() {
        waiting.forEach(it -> it.isSent = false);
        pausedTo = 0;
    }

    /**
     * A Report to be sent now, which is then in flight; null: none. One that is larger than this
     * server accepts waits for another server: it would end the connection.
     */
    Report next(long now, int frameMax) {
        if (now < pausedTo) {
            return null;
        }
        pausedTo = 0;
        int inFlight = 0;
        Report first = null;
        for (Report it : waiting) {
            if (it.isSent) {
                inFlight++;
            } else if (first == null && it.body.length + HEAD_BYTES <= frameMax) {
                first = it;
            }
        }
        if (first == null || inFlight >= IN_FLIGHT_MAX) {
            return null;
        }
        first.isSent = true;
        return first;
    }

    /** The server has all up to a number, of those that it did not refuse. */
    boolean taken(int upTo, Consumer<String> stored) {
        boolean any = false;
        for (Iterator<Report> all = waiting.iterator(); all.hasNext();) {
            Report it = all.next();
            if (it.isSent && upTo - it.seq >= 0) {
                all.remove();
                bytes -= it.body.length;
                stored.accept(it.clientId);
                any = true;
            }
        }
        if (any) {
            pauseMs = PAUSE_FIRST_MS;
        }
        return any;
    }

    /** The server did not accept this one now. */
    void refused(long now, int seq) {
        for (Report it : waiting) {
            if (it.isSent && it.seq == seq) {
                it.isSent = false;
                double half = pauseMs / 2.0;
                pausedTo = now + (long) (half + random.getAsDouble() * half);
                pauseMs = Math.min(pauseMs * 2, PAUSE_LONGEST_MS);
            }
        }
    }

    /** When a Report waits for nothing but time. */
    long wakeAt() {
        boolean anyWaits = waiting.stream().anyMatch(it -> !it.isSent);
        return pausedTo == 0 || !anyWaits ? Machine.NEVER : pausedTo;
    }
}
