package holdline.miop;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Frames as the vectors of clients/conformance write them, and as the library does. */
final class Vectors {
    enum Form { NUMBER, BIG, OCTETS, TEXT, TRIPLE, LIST }

    private static final class Known {
        final int key;
        final String name;
        final Form form;

        Known(int key, String name, Form form) {
            this.key = key;
            this.name = name;
            this.form = form;
        }
    }

    /** In the order of their keys. */
    private static final Known[] PROPERTIES = {
        new Known(Properties.DEVICE_ID, "device_id", Form.TEXT),
        new Known(Properties.PRODUCT_KEY, "product_key", Form.TEXT),
        new Known(Properties.CLIENT_TS, "client_ts", Form.BIG),
        new Known(Properties.HEARTBEAT_WISH, "heartbeat_wish", Form.TRIPLE),
        new Known(Properties.HEARTBEAT, "heartbeat", Form.NUMBER),
        new Known(Properties.CLIENT_NONCE, "client_nonce", Form.OCTETS),
        new Known(Properties.SERVER_NONCE, "server_nonce", Form.OCTETS),
        new Known(Properties.AUTH_TYPE, "auth_type", Form.NUMBER),
        new Known(Properties.KEY_ID, "key_id", Form.NUMBER),
        new Known(Properties.MAC, "mac", Form.OCTETS),
        new Known(Properties.TOKEN, "token", Form.OCTETS),
        new Known(Properties.RESUME_TOKEN, "resume_token", Form.OCTETS),
        new Known(Properties.LAST_MSG_ID, "last_msg_id", Form.BIG),
        new Known(Properties.SESSION_EPOCH, "session_epoch", Form.BIG),
        new Known(Properties.RESULT, "result", Form.NUMBER),
        new Known(Properties.REASON, "reason", Form.TEXT),
        new Known(Properties.RETRY_AFTER_MS, "retry_after_ms", Form.NUMBER),
        new Known(Properties.ADDR, "addrs", Form.LIST),
        new Known(Properties.CAPS, "caps", Form.NUMBER),
        new Known(Properties.MAX_FRAME, "max_frame", Form.NUMBER),
        new Known(Properties.MAX_INFLIGHT, "max_inflight", Form.NUMBER),
        new Known(Properties.ACK_TIMEOUT_MS, "ack_timeout_ms", Form.NUMBER),
        new Known(Properties.OFFLINE_COUNT, "offline_count", Form.NUMBER),
        new Known(Properties.SERVER_TIME, "server_time", Form.BIG),
        new Known(Properties.TAG, "tags", Form.LIST),
        new Known(Properties.COUNT, "count", Form.NUMBER),
        new Known(Properties.REPORT_SEQ, "report_seq", Form.NUMBER),
    };

    private Vectors() {}

    static Map<String, Object> toJson(Frame frame) throws Fault {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("opcode", frame.opcode);
        if (!frame.isKnown()) {
            out.put("skipped", true);
            return out;
        }
        if (frame.seq != null) {
            out.put("seq", Integer.toUnsignedLong(frame.seq));
        }
        if ((frame.flags & Frame.ACK_REQ) != 0) {
            out.put("ack_req", true);
        }
        if ((frame.flags & Frame.DUP) != 0) {
            out.put("dup", true);
        }
        Map<String, Object> properties = new LinkedHashMap<>();
        for (Known it : PROPERTIES) {
            if (frame.properties.count(it.key) > 0) {
                properties.put(it.name, toJson(it, frame.properties));
            }
        }
        out.put("properties", properties);
        if (frame.opcode != Frame.MSG) {
            out.put("payload", hex(frame.payload));
            return out;
        }
        List<Object> records = new ArrayList<>();
        for (Push push : frame.records()) {
            records.add(toJson(push));
        }
        out.put("records", records);
        return out;
    }

    private static Object toJson(Known it, Properties properties) {
        long number = it.form == Form.LIST ? 0 : properties.number(it.key);
        switch (it.form) {
            case LIST:
                return properties.texts(it.key);
            case NUMBER:
                return number;
            case BIG:
                return Long.toUnsignedString(number);
            case TRIPLE:
                return List.of(number >>> 32, number >>> 16 & 0xffff, number & 0xffff);
            case OCTETS:
                return hex(properties.bytes(it.key));
            default:
                return properties.texts(it.key).get(0);
        }
    }

    static Map<String, Object> toJson(Push push) {
        Map<String, Object> out = new LinkedHashMap<>();
        out.put("id", Long.toUnsignedString(push.id()));
        out.put("app_id", push.appId());
        out.put("silent", push.isSilent());
        out.put("high", push.isHigh());
        out.put("expire_at", push.expireAt());
        out.put("collapse", hex(push.collapseKey()));
        out.put("body", hex(push.body()));
        return out;
    }

    static Frame fromJson(Map<?, ?> in) {
        Map<?, ?> said = (Map<?, ?>) in.get("properties");
        Frame frame = new Frame(((Long) in.get("opcode")).intValue());
        if (in.get("seq") != null) {
            frame.seq = ((Long) in.get("seq")).intValue();
        }
        for (Known it : PROPERTIES) {
            if (said.containsKey(it.name)) {
                add(frame.properties, it, said.get(it.name));
            }
        }
        frame.payload = bytes((String) in.get("payload"));
        return frame;
    }

    private static void add(Properties to, Known it, Object value) {
        switch (it.form) {
            case LIST:
                ((List<?>) value).forEach(text -> to.add(it.key, (String) text));
                break;
            case NUMBER:
                to.add(it.key, (Long) value);
                break;
            case BIG:
                to.add(it.key, Long.parseUnsignedLong((String) value));
                break;
            case TRIPLE:
                Bytes three = new Bytes();
                ((List<?>) value).forEach(one -> three.number((Long) one, 2));
                to.add(it.key, three.toArray());
                break;
            case OCTETS:
                to.add(it.key, bytes((String) value));
                break;
            default:
                to.add(it.key, (String) value);
        }
    }

    static String hex(byte[] bytes) {
        StringBuilder out = new StringBuilder();
        for (byte octet : bytes) {
            out.append(String.format("%02x", octet));
        }
        return out.toString();
    }

    static byte[] bytes(String hex) {
        byte[] out = new byte[hex.length() / 2];
        for (int at = 0; at < out.length; at++) {
            out[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return out;
    }
}
