package holdline.miop;

import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The properties of a frame, in the order of the wire (docs/wire/miop.md, section 5.4). */
final class Properties {
    static final int DEVICE_ID = 1;
    static final int PRODUCT_KEY = 2;
    static final int CLIENT_TS = 3;
    static final int HEARTBEAT_WISH = 4;
    static final int HEARTBEAT = 5;
    static final int CLIENT_NONCE = 6;
    static final int SERVER_NONCE = 7;
    static final int AUTH_TYPE = 8;
    static final int KEY_ID = 9;
    static final int MAC = 10;
    static final int TOKEN = 11;
    static final int RESUME_TOKEN = 12;
    static final int LAST_MSG_ID = 13;
    static final int SESSION_EPOCH = 14;
    static final int RESULT = 15;
    static final int REASON = 16;
    static final int RETRY_AFTER_MS = 17;
    static final int ADDR = 19;
    static final int CAPS = 20;
    static final int MAX_FRAME = 21;
    static final int MAX_INFLIGHT = 22;
    static final int ACK_TIMEOUT_MS = 23;
    static final int OFFLINE_COUNT = 27;
    static final int SERVER_TIME = 28;
    static final int TAG = 30;
    static final int COUNT = 31;
    static final int REPORT_SEQ = 33;

    static final int TAGS_MAX = 64;
    private static final int CRITICAL = 128;
    private static final int VALUE_BYTES_MAX = 512;
    private static final int ADDRESSES_MAX = 4;
    private static final int ADDRESS_BYTES_MAX = 64;
    private static final int ANY = 0;

    /** Bytes of each known value; a key that is not in it is unknown or reserved. */
    private static final Map<Integer, Integer> WIDTHS = new HashMap<>();

    static {
        int[] any = {DEVICE_ID, PRODUCT_KEY, TOKEN, REASON, ADDR, TAG};
        int[][] fixed = {
            {CLIENT_TS, 8}, {HEARTBEAT_WISH, 6}, {HEARTBEAT, 2}, {CLIENT_NONCE, 16},
            {SERVER_NONCE, 16}, {AUTH_TYPE, 1}, {KEY_ID, 4}, {MAC, 32}, {RESUME_TOKEN, 32},
            {LAST_MSG_ID, 8}, {SESSION_EPOCH, 8}, {RESULT, 1}, {RETRY_AFTER_MS, 4}, {CAPS, 4},
            {MAX_FRAME, 4}, {MAX_INFLIGHT, 2}, {ACK_TIMEOUT_MS, 4}, {OFFLINE_COUNT, 4},
            {SERVER_TIME, 8}, {COUNT, 2}, {REPORT_SEQ, 4},
        };
        for (int key : any) {
            WIDTHS.put(key, ANY);
        }
        for (int[] one : fixed) {
            WIDTHS.put(one[0], one[1]);
        }
    }

    private static final class Property {
        final int key;
        final byte[] value;

        Property(int key, byte[] value) {
            this.key = key;
            this.value = value;
        }
    }

    private final List<Property> all = new ArrayList<>();

    static Properties read(Bytes.Reader block) throws Fault {
        Properties read = new Properties();
        while (block.left() > 0) {
            int key = block.octet();
            byte[] value = block.block().rest();
            if (value.length > VALUE_BYTES_MAX) {
                throw new Fault(Fault.BAD_PROPERTY);
            }
            Integer width = WIDTHS.get(key);
            if (width != null) {
                read.admit(key, width, value);
                read.add(key, value);
            } else if (key >= CRITICAL) {
                throw new Fault(Fault.CRITICAL_PROPERTY);
            }
        }
        return read;
    }

    /** Whether a value is well formed, and may stand behind those that are there. */
    private void admit(int key, int width, byte[] value) throws Fault {
        int before = count(key);
        if (key == ADDR) {
            boolean fits = value.length > 0 && value.length <= ADDRESS_BYTES_MAX;
            if (!fits || before == ADDRESSES_MAX || !isText(value)) {
                throw new Fault(Fault.BAD_PROPERTY);
            }
        } else if (key == TAG) {
            if (before == TAGS_MAX) {
                throw new Fault(Fault.TOO_LARGE);
            }
        } else if ((width != ANY && value.length != width) || before > 0) {
            throw new Fault(Fault.BAD_PROPERTY);
        }
    }

    private static boolean isText(byte[] value) {
        try {
            StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(value));
            return true;
        } catch (CharacterCodingException notText) {
            return false;
        }
    }

    Properties add(int key, byte[] value) {
        all.add(new Property(key, value));
        return this;
    }

    Properties add(int key, String text) {
        return add(key, text.getBytes(StandardCharsets.UTF_8));
    }

    Properties add(int key, long number) {
        return add(key, new Bytes().number(number, WIDTHS.get(key)).toArray());
    }

    byte[] write() {
        Bytes out = new Bytes();
        for (Property it : all) {
            out.octet(it.key).block(it.value);
        }
        return out.toArray();
    }

    boolean isEmpty() {
        return all.isEmpty();
    }

    int count(int key) {
        int count = 0;
        for (Property it : all) {
            count += it.key == key ? 1 : 0;
        }
        return count;
    }

    /** The value of a key; null when it is absent. */
    byte[] bytes(int key) {
        for (Property it : all) {
            if (it.key == key) {
                return it.value;
            }
        }
        return null;
    }

    boolean has(int key) {
        return bytes(key) != null;
    }

    /** The value of a key as an unsigned number of its width; 0 when it is absent. */
    long number(int key) {
        byte[] value = bytes(key);
        return value == null ? 0 : new Bytes.Reader(value).number(value.length);
    }

    /** All values of a key that may be repeated. */
    List<String> texts(int key) {
        List<String> texts = new ArrayList<>();
        for (Property it : all) {
            if (it.key == key) {
                texts.add(new String(it.value, StandardCharsets.UTF_8));
            }
        }
        return texts;
    }

    /** Whether a device id, product key or tag is well formed (section 8). */
    static boolean isName(String text, int bytesMax) {
        return text.length() <= bytesMax && text.matches("[A-Za-z0-9._\\-+:/=]+");
    }
}
