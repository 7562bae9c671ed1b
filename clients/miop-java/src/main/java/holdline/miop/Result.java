package holdline.miop;

import java.util.HashMap;
import java.util.Map;

/** Codes of the server (docs/wire/miop.md, section 9). */
public final class Result {
    /** Bound. */
    public static final int DONE = 0;
    /** Bound; the earlier session goes on. */
    public static final int RESUMED = 1;
    /** The version of the protocol is not supported. */
    public static final int VERSION = 11;
    /** The proof was refused. */
    public static final int AUTH_FAILED = 20;
    /** The device's clock differs too much from the server's. */
    public static final int CLOCK_SKEW = 21;
    /** The nonce was used before. */
    public static final int REPLAY = 22;
    /** Unknown product. */
    public static final int UNKNOWN_PRODUCT = 23;
    /** The device is blocked. */
    public static final int DEVICE_BLOCKED = 24;
    /** Too many requests at once, or the server is full. */
    public static final int BUSY = 30;
    /** A quota is exceeded. */
    public static final int QUOTA = 31;
    /** The server is shutting down. */
    public static final int DRAINING = 32;
    /** Connect to another server. */
    public static final int REDIRECT = 33;
    /** A newer connection of the device took over. */
    public static final int REPLACED = 40;
    /** An operator ended the connection. */
    public static final int KICKED = 41;
    /** The server received nothing for too long. */
    public static final int HEARTBEAT_TIMEOUT = 42;
    /** The device did not read. */
    public static final int SLOW_CONSUMER = 43;
    /** No BIND came in time. */
    public static final int BIND_TIMEOUT = 44;
    /** A defect of the server. */
    public static final int INTERNAL = 50;

    private static final Map<Integer, String> WORDS = new HashMap<>();

    static {
        WORDS.put(AUTH_FAILED, "auth_failed");
        WORDS.put(CLOCK_SKEW, "clock_skew");
        WORDS.put(REPLAY, "replay");
        WORDS.put(UNKNOWN_PRODUCT, "unknown_product");
        WORDS.put(DEVICE_BLOCKED, "device_blocked");
        WORDS.put(BUSY, "busy");
        WORDS.put(QUOTA, "quota");
        WORDS.put(DRAINING, "draining");
        WORDS.put(REDIRECT, "redirect");
        WORDS.put(REPLACED, "replaced");
        WORDS.put(KICKED, "kicked");
        WORDS.put(HEARTBEAT_TIMEOUT, "heartbeat_timeout");
        WORDS.put(SLOW_CONSUMER, "slow_consumer");
        WORDS.put(BIND_TIMEOUT, "bind_timeout");
        WORDS.put(INTERNAL, "internal");
    }

    private Result() {}

    /** Its word; {@code result_N} for those that have none. */
    public static String word(int result) {
        return WORDS.getOrDefault(result, "result_" + result);
    }

    /** Connecting again would not help. */
    static boolean isFinal(int result) {
        return result == VERSION || result / 10 == 2 || result == REPLACED || result == KICKED;
    }
}
