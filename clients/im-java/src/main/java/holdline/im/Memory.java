package holdline.im;

import com.google.protobuf.ByteString;
import dev.holdline.im.v1.Content;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * What a client stores, as lines of text: whose it is, its place in the inbox, the heartbeats of networks,
 * and a line for each message that waits.
 */
final class Memory {
    private static final String HEAD = "holdline-im 1";

    private Memory() {}

    static byte[] write(String account, String device, Machine machine) {
        StringBuilder text = new StringBuilder(HEAD);
        text.append("\nof ").append(base64(account)).append(' ').append(base64(device));
        text.append("\nlast ").append(machine.inbox.done).append('\n');
        machine.heartbeat.networks().forEach((name, it) -> {
            text.append("network ").append(base64(name)).append(' ').append(it.now);
            text.append(' ').append(it.good).append(' ').append(it.bad).append('\n');
        });
        for (Outbox.Queued it : machine.outbox.queue) {
            text.append("message ").append(hex(it.clientId)).append(' ').append(base64(it.to));
            text.append(' ').append(Base64.getEncoder().encodeToString(it.content.toByteArray()));
            text.append('\n');
        }
        return text.toString().getBytes(StandardCharsets.US_ASCII);
    }

    /** Goes on from a record, if it is of this device. */
    static void read(byte[] record, String account, String device, Machine machine)
            throws IOException {
        if (record == null || record.length == 0) {
            return;
        }
        try {
            String[] lines = new String(record, StandardCharsets.US_ASCII).split("\n");
            if (!lines[0].equals(HEAD)) {
                throw new IOException("the stored state cannot be read: " + lines[0]);
            }
            if (!lines[1].equals("of " + base64(account) + " " + base64(device))) {
                return;
            }
            long last = Long.parseLong(lines[2].split(" ")[1]);
            if (last >= 0) {
                machine.inbox.restore(last);
            }
            for (int at = 3; at < lines.length; at++) {
                String[] words = lines[at].split(" ", -1);
                if (words[0].equals("network")) {
                    byte[] name = Base64.getDecoder().decode(words[1]);
                    machine.heartbeat.restore(new String(name, StandardCharsets.UTF_8),
                        Integer.parseInt(words[2]), Integer.parseInt(words[3]),
                        Integer.parseInt(words[4]));
                    continue;
                }
                byte[] to = Base64.getDecoder().decode(words[2]);
                byte[] content = Base64.getDecoder().decode(words[3]);
                machine.outbox.add(new Outbox.Queued(clientId(words[1]),
                    new String(to, StandardCharsets.UTF_8), Content.parseFrom(content)));
            }
        } catch (RuntimeException | ImException damaged) {
            throw new IOException("the stored state cannot be read", damaged);
        }
    }

    private static String base64(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    static String hex(ByteString bytes) {
        StringBuilder text = new StringBuilder();
        for (byte octet : bytes.toByteArray()) {
            text.append(Character.forDigit(octet >> 4 & 15, 16));
            text.append(Character.forDigit(octet & 15, 16));
        }
        return text.toString();
    }

    /** A client id of 32 hexadecimal digits. */
    static ByteString clientId(String text) {
        if (!text.matches("[0-9a-f]{32}")) {
            throw new IllegalArgumentException("a client id has 32 hexadecimal digits: " + text);
        }
        byte[] bytes = new byte[16];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(text.substring(2 * at, 2 * at + 2), 16);
        }
        return ByteString.copyFrom(bytes);
    }
}
