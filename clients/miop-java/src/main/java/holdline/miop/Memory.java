package holdline.miop;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;

/**
 * The state that a client keeps across restarts, and the form of the record: lines of words.
 *
 * <pre>
 * holdline-miop 1 PRODUCT DEVICE
 * session EPOCH TOKEN
 * seen ID ...
 * network NAME NOW GOOD BAD
 * next SEQ
 * report SEQ CLIENT_ID BODY
 * </pre>
 *
 * Texts and bytes are in Base64.
 */
final class Memory {
    /** Several windows, and what a server that was killed may have forgotten. */
    private static final int SEEN_MAX = 256;
    private static final int NETWORKS_MAX = 16;
    private static final String VERSION = "1";

    long epoch;
    byte[] token;
    /** Acknowledged ids, the oldest first. */
    private final Set<Long> seen = new LinkedHashSet<>();
    /** The longest unused one first. */
    private final List<Heartbeat.Known> networks = new ArrayList<>();
    final Reports reports;

    Memory(Reports reports) {
        this.reports = reports;
    }

    boolean hasSeen(long id) {
        return seen.contains(id);
    }

    void see(long id) {
        seen.add(id);
        if (seen.size() > SEEN_MAX) {
            seen.remove(seen.iterator().next());
        }
    }

    /** What is known about a network, which is the one used last from now on. */
    Heartbeat.Known network(String name) {
        Heartbeat.Known found = new Heartbeat.Known(name, 0, 0, 0);
        for (Heartbeat.Known it : networks) {
            found = it.network.equals(name) ? it : found;
        }
        networks.remove(found);
        if (networks.size() == NETWORKS_MAX) {
            networks.remove(0);
        }
        networks.add(found);
        return found;
    }

    byte[] write(String device) {
        StringBuilder out = new StringBuilder("holdline-miop ").append(VERSION).append(' ');
        out.append(device).append('\n');
        if (token != null) {
            out.append("session ").append(epoch).append(' ').append(base64(token)).append('\n');
        }
        out.append("seen");
        seen.forEach(id -> out.append(' ').append(Long.toUnsignedString(id)));
        out.append('\n');
        for (Heartbeat.Known it : networks) {
            out.append("network ").append(base64(it.network.getBytes(StandardCharsets.UTF_8)));
            out.append(' ').append(it.now).append(' ').append(it.good).append(' ').append(it.bad);
            out.append('\n');
        }
        out.append("next ").append(Integer.toUnsignedString(reports.nextSeq)).append('\n');
        for (Reports.Report it : reports.waiting) {
            out.append("report ").append(Integer.toUnsignedString(it.seq)).append(' ');
            out.append(base64(it.clientId.getBytes(StandardCharsets.UTF_8))).append(' ');
            out.append(base64(it.body)).append('\n');
        }
        return out.toString().getBytes(StandardCharsets.US_ASCII);
    }

    /**
     * Reads a record. That of another device is not used: its ids, its session and its Reports are
     * not ours.
     */
    void read(byte[] record, String device) throws IOException {
        if (record == null || record.length == 0) {
            return;
        }
        String[] lines = new String(record, StandardCharsets.US_ASCII).split("\n");
        String[] head = lines[0].split(" ", 3);
        if (head.length != 3 || !head[0].equals("holdline-miop")) {
            throw new IOException("miop: the stored state is damaged");
        }
        if (!head[1].equals(VERSION)) {
            throw new IOException("miop: the stored state was written by a newer version");
        }
        if (!head[2].equals(device)) {
            return;
        }
        try {
            for (int at = 1; at < lines.length; at++) {
                readLine(lines[at].split(" ", -1));
            }
        } catch (IllegalArgumentException | ArrayIndexOutOfBoundsException damaged) {
            throw new IOException("miop: the stored state is damaged", damaged);
        }
    }

    private void readLine(String[] words) {
        switch (words[0]) {
            case "session":
                epoch = Long.parseUnsignedLong(words[1]);
                token = bytes(words[2]);
                break;
            case "seen":
                for (int at = 1; at < words.length; at++) {
                    see(Long.parseUnsignedLong(words[at]));
                }
                break;
            case "network":
                networks.add(new Heartbeat.Known(text(words[1]), Integer.parseInt(words[2]),
                    Integer.parseInt(words[3]), Integer.parseInt(words[4])));
                break;
            case "next":
                reports.nextSeq = Integer.parseUnsignedInt(words[1]);
                break;
            case "report":
                reports.restore(new Reports.Report(Integer.parseUnsignedInt(words[1]),
                    text(words[2]), bytes(words[3])));
                break;
            default:
                throw new IllegalArgumentException(words[0]);
        }
    }

    private static String base64(byte[] bytes) {
        return Base64.getEncoder().encodeToString(bytes);
    }

    private static byte[] bytes(String word) {
        return Base64.getDecoder().decode(word);
    }

    private static String text(String word) {
        return new String(bytes(word), StandardCharsets.UTF_8);
    }
}
