package holdline.miop;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;

/**
 * Where to connect: first where the server sends us, then where the device was bound last, then
 * the configured addresses in turn.
 */
final class Addresses {
    /** Two servers that name each other get the back-off after so many ends in succession. */
    private static final int FOLLOWED_MAX = 3;

    private final List<String> configured;
    private int next;
    /** To be tried before the configured ones, once each. */
    private final Deque<String> first = new ArrayDeque<>();
    private String current;
    private int followed;

    Addresses(List<String> configured) {
        this.configured = new ArrayList<>(configured);
    }

    String take() {
        current = first.isEmpty() ? configured.get(next++ % configured.size()) : first.poll();
        return current;
    }

    /** The next attempt is at the same address. */
    void again() {
        first.addFirst(current);
    }

    void bound() {
        followed = 0;
    }

    /** The session at the current address ended, and the server may have named others. */
    void lost(boolean wasBound, List<String> named) {
        String lastBound = wasBound ? current : first.peekLast();
        if (wasBound || !named.isEmpty()) {
            first.clear();
            first.addAll(named);
            if (lastBound != null) {
                first.add(lastBound);
            }
        }
    }

    /** Whether addresses of the server are tried without a wait. */
    boolean follow(List<String> named) {
        return !named.isEmpty() && followed++ < FOLLOWED_MAX;
    }
}
