package holdline.im;

import com.google.protobuf.InvalidProtocolBufferException;
import dev.holdline.im.v1.ClientFrame;
import dev.holdline.im.v1.ServerFrame;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.Arrays;

/** Frames: a length, and as many bytes of protobuf (IM 2). */
final class Wire {
    static final byte[] PREFACE = {(byte) 0xc4, 'I', 'M', 1};
    /** The largest frame of a server whose limits are the usual ones (IM 2.2). */
    static final int FRAME_BYTES_MAX = 397_312;
    /** What a frame of a server has beside text and extra of a message. */
    static final int BESIDE_CONTENT_BYTES = 4_096;
    private static final int LENGTH_BYTES_MAX = 5;

    /** The server sent what it must not: the message is a word of IM 2.3. */
    static final class Fault extends Exception {
        private static final long serialVersionUID = 1;

        Fault(String word) {
            super(word);
        }
    }

    /** A frame that has arrived whole. */
    static final class Found {
        final ServerFrame frame;
        /** Where it ends. */
        final int end;

        Found(ServerFrame frame, int end) {
            this.frame = frame;
            this.end = end;
        }
    }

    private Wire() {}

    static byte[] encode(ClientFrame frame) {
        try {
            ByteArrayOutputStream out = new ByteArrayOutputStream();
            frame.writeDelimitedTo(out);
            return out.toByteArray();
        } catch (IOException never) {
            throw new IllegalStateException(never);
        }
    }

    /** The frame at this place; null if it is not whole. */
    static Found decode(byte[] data, int from, int bytesMax) throws Fault {
        long size = 0;
        int at = from;
        for (;; at++) {
            if (at - from == LENGTH_BYTES_MAX) {
                throw new Fault("length");
            }
            if (at == data.length) {
                return null;
            }
            size |= (long) (data[at] & 0x7f) << 7 * (at - from);
            if (data[at] >= 0) {
                break;
            }
        }
        long end = at + 1 + size;
        if (end - from > bytesMax) {
            throw new Fault("too_large");
        }
        if (end > data.length) {
            return null;
        }
        try {
            byte[] body = Arrays.copyOfRange(data, at + 1, (int) end);
            return new Found(ServerFrame.parseFrom(body), (int) end);
        } catch (InvalidProtocolBufferException malformed) {
            throw new Fault("malformed");
        }
    }
}
