package holdline.miop;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.util.ArrayList;
import java.util.List;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * A frame of MIOP 7 (docs/wire/miop.md, section 5), and how it is read and written.
 *
 * <pre>u16 version | u8 flags | u8 opcode [ u32 length [ u32 seq ] varint properties payload ]</pre>
 */
final class Frame {
    static final int PING = 0;
    static final int PONG = 1;
    static final int BIND = 2;
    static final int MSG = 3;
    static final int MSG_ACK = 4;
    static final int UNBIND = 5;
    static final int BIND_ACK = 6;
    static final int UNBIND_ACK = 7;
    static final int REPORT = 8;
    static final int REPORT_ACK = 9;
    static final int KICK = 10;
    static final int REDIRECT = 11;
    static final int CHALLENGE = 12;
    static final int AUTH = 13;
    static final int CONFIG = 14;
    static final int PULL = 15;
    static final int GO_AWAY = 16;
    static final int ERROR = 17;

    static final int ACK_REQ = 0x04;
    static final int DUP = 0x20;
    private static final int BODY = 0x01;
    private static final int SEQ = 0x02;
    private static final int COMPRESSED = 0x08;
    private static final int MORE = 0x10;
    private static final int MUST_UNDERSTAND = 0x80;

    static final int BYTES_UNBOUND = 4 << 10;
    static final int BYTES_DEFAULT = 64 << 10;
    static final int BYTES_MOST = 1 << 20;
    static final int NAME_BYTES_MAX = 64;
    static final int PRODUCT_BYTES_MAX = 32;
    private static final int PROPERTIES_BYTES_MAX = 8 << 10;
    private static final int VERSION = 7;
    private static final byte[] NOTHING = {};

    final int opcode;
    /** ACK_REQ and DUP; BODY and SEQ follow from the rest. */
    int flags;
    /** Null: none. */
    Integer seq;
    Properties properties = new Properties();
    byte[] payload = NOTHING;
    /** Bytes on the wire, of a frame that was read. */
    int length;

    Frame(int opcode) {
        this.opcode = opcode;
    }

    Frame(int opcode, Properties properties) {
        this.opcode = opcode;
        this.properties = properties;
    }

    boolean isKnown() {
        return opcode <= ERROR;
    }

    byte[] write() {
        Bytes out = new Bytes().number(VERSION, 2);
        if (seq == null && properties.isEmpty() && payload.length == 0) {
            return out.octet(flags).octet(opcode).toArray();
        }
        byte[] block = properties.write();
        Bytes body = new Bytes();
        if (seq != null) {
            body.number(seq, 4);
        }
        byte[] content = body.block(block).add(payload).toArray();
        out.octet(flags | BODY | (seq == null ? 0 : SEQ)).octet(opcode);
        return out.number(content.length, 4).add(content).toArray();
    }

    /**
     * The frame at the front, or null while more bytes are needed. One of more bytes than the
     * limit is a fault as soon as its length is known.
     */
    static Frame read(Bytes.Reader in, int bytesMax) throws Fault {
        int there = in.left();
        checkVersion(in.part(Math.min(there, 2)));
        if (there < 4) {
            return null;
        }
        int flags = in.octet();
        Frame frame = new Frame(in.octet());
        if ((flags & MUST_UNDERSTAND) != 0) {
            throw new Fault(Fault.MUST_UNDERSTAND);
        }
        if ((flags & (COMPRESSED | MORE)) != 0 || (flags & (SEQ | BODY)) == SEQ) {
            throw new Fault(Fault.BAD_FLAGS);
        }
        frame.flags = flags & (ACK_REQ | DUP);
        frame.length = 4;
        if ((flags & BODY) != 0) {
            if (there < 8) {
                return null;
            }
            long end = in.number(4) + 8;
            if (end > bytesMax) {
                throw new Fault(Fault.TOO_LARGE);
            }
            if (there < end) {
                return null;
            }
            frame.length = (int) end;
            if (frame.isKnown()) {
                frame.readBody(in.part(frame.length - 8), (flags & SEQ) != 0);
            }
        }
        frame.check();
        return frame;
    }

    private static void checkVersion(Bytes.Reader in) throws Fault {
        if (in.left() > 0 && in.octet() != 0) {
            throw new Fault(Fault.UNKNOWN_VERSION);
        }
        int version = in.left() > 0 ? in.octet() : VERSION;
        if (version > VERSION) {
            throw new Fault(Fault.NEWER_VERSION);
        }
        if (version != VERSION) {
            throw new Fault(version >= 5 ? Fault.VERSION_CHANGED : Fault.UNKNOWN_VERSION);
        }
    }

    private void readBody(Bytes.Reader body, boolean hasSeq) throws Fault {
        if (hasSeq) {
            if (body.left() < 4) {
                throw new Fault(Fault.BAD_LENGTH);
            }
            seq = (int) body.number(4);
        }
        Bytes.Reader block = body.block();
        if (block.left() > PROPERTIES_BYTES_MAX) {
            throw new Fault(Fault.TOO_LARGE);
        }
        properties = Properties.read(block);
        payload = body.rest();
    }

    /** The property without which a frame of the server means nothing must be there. */
    private void check() throws Fault {
        int needed = opcode == BIND_ACK ? Properties.RESULT
            : opcode == CHALLENGE ? Properties.SERVER_NONCE
            : opcode == REPORT_ACK ? Properties.REPORT_SEQ : 0;
        if (needed != 0 && !properties.has(needed)) {
            throw new Fault(Fault.MISSING_PROPERTY);
        }
    }

    /** The pushes of a MSG, at least one (section 5.5). */
    List<Push> records() throws Fault {
        Bytes.Reader in = new Bytes.Reader(payload);
        if (in.left() == 0) {
            throw new Fault(Fault.EMPTY_BLOCK);
        }
        List<Push> records = new ArrayList<>();
        while (in.left() > 0) {
            if (in.left() < Push.HEAD_BYTES) {
                throw new Fault(Fault.BAD_RECORD);
            }
            long id = in.number(8);
            long appId = in.number(4);
            int bits = in.octet();
            long expireAt = in.number(4);
            try {
                byte[] collapse = in.block().rest();
                byte[] body = in.block().rest();
                records.add(new Push(id, appId, bits, expireAt, collapse, body));
            } catch (Fault cutOff) {
                throw new Fault(Fault.BAD_RECORD);
            }
            if ((bits & Push.COMPRESSED) != 0) {
                throw new Fault(Fault.BAD_RECORD);
            }
        }
        return records;
    }

    /** What a device proves with a secret of its product (section 6.1). */
    static final class Claim {
        String product = "";
        String device = "";
        long clientTs;
        byte[] clientNonce = NOTHING;
        int caps;

        /** The signature; the nonce is that of a CHALLENGE, empty without one. */
        byte[] mac(byte[] secret, byte[] serverNonce) {
            byte[][] parts = {
                "MIOP7-BIND".getBytes(StandardCharsets.US_ASCII),
                product.getBytes(StandardCharsets.UTF_8), device.getBytes(StandardCharsets.UTF_8),
                new Bytes().number(clientTs, 8).toArray(), clientNonce,
                new Bytes().number(caps, 4).toArray(), NOTHING, serverNonce,
            };
            Bytes text = new Bytes();
            for (byte[] part : parts) {
                text.number(part.length, 2).add(part);
            }
            try {
                Mac mac = Mac.getInstance("HmacSHA256");
                mac.init(new SecretKeySpec(secret, "HmacSHA256"));
                return mac.doFinal(text.toArray());
            } catch (GeneralSecurityException absent) {
                throw new IllegalStateException("every Java has HmacSHA256", absent);
            }
        }
    }
}
