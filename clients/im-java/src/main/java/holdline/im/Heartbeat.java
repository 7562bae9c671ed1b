package holdline.im;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * The interval between signs of life: the longest that a network lets live.
 *
 * <p>NATs and proxies forget a silent connection after a time that they do not tell. The interval
 * grows by half while the connection survives it, and is halved between the longest that worked
 * and the shortest that failed until the two are close.
 */
final class Heartbeat {
    /** Answers at one interval before a longer one is tried. */
    private static final int ANSWERS_TO_GROW = 2;
    /** Number of answers after which a bound is forgotten, because networks change. */
    private static final int ANSWERS_TO_FORGET = 50;
    private static final int SETTLED_S = 10;
    /** Networks that are remembered. */
    private static final int NETWORKS_MAX = 16;

    /** What is known about one network, in seconds; 0: not known. */
    static final class Known {
        int now;
        int good;
        int bad;

        Known(int now, int good, int bad) {
            this.now = now;
            this.good = good;
            this.bad = bad;
        }
    }

    final int shortest;
    final int first;
    final int longest;
    int agreed;
    private Known known;
    private int answers;
    private int answersBounded;
    /** An interval that seems to have failed: it counts if the network is there. */
    private int suspect;

    /** By their names; the one used last is the last. */
    private final Map<String, Known> networks = new LinkedHashMap<>();
    private String network = "";

    Heartbeat(int shortest, int first, int longest) {
        this.shortest = shortest;
        this.first = first;
        this.longest = longest;
        use("");
    }

    /** Goes on with what is known about a network. */
    void use(String name) {
        network = name;
        Known learned = networks.remove(name);
        known = learned == null ? new Known(0, 0, 0) : learned;
        networks.put(name, known);
        if (networks.size() > NETWORKS_MAX) {
            networks.remove(networks.keySet().iterator().next());
        }
        answers = 0;
        answersBounded = 0;
        suspect = 0;
        if (known.now == 0) {
            known.now = first;
        }
    }

    /** The silence after which a sign of life is due, seconds. */
    int interval() {
        return Math.min(Math.min(Math.max(known.now, shortest), longest), agreed);
    }

    /** A PING after so much silence was answered. */
    void lived(int seconds) {
        answers++;
        known.good = Math.max(known.good, seconds);
        if (known.bad != 0) {
            answersBounded++;
            if (known.good >= known.bad || answersBounded >= ANSWERS_TO_FORGET) {
                known.bad = 0;
                answersBounded = 0;
            }
        }
        if (answers < ANSWERS_TO_GROW) {
            return;
        }
        answers = 0;
        if (known.bad == 0) {
            known.now = Math.min(seconds + seconds / 2, longest);
        } else if (known.bad - known.good > Math.max(SETTLED_S, known.good / 8)) {
            known.now = (known.good + known.bad) / 2;
        }
    }

    /** An interval that seems to have failed; 0: none. */
    void suspect(int seconds) {
        suspect = seconds;
    }

    /**
     * The next connection succeeded. If it did so at the first attempt, the network was there, and
     * the silence was what the connection before did not survive.
     */
    void bound(boolean atFirst) {
        int failed = suspect;
        suspect = 0;
        if (failed == 0 || !atFirst) {
            return;
        }
        known.bad = failed;
        answers = 0;
        answersBounded = 0;
        if (known.good >= failed) {
            known.good = 0;
        }
        known.now = known.good == 0 ? Math.max(failed / 2, shortest) : known.good;
    }

    /** What is known about networks. */
    Map<String, Known> networks() {
        return networks;
    }

    /** Goes on with what was learned earlier about a network. */
    void restore(String name, int now, int good, int bad) {
        networks.put(name, new Known(now, good, bad));
        use(network);
    }

    /** Changes with everything that is to be stored. */
    String state() {
        return network + " " + known.now + " " + known.good + " " + known.bad;
    }
}
