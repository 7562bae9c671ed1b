package holdline.miop;

import java.util.Arrays;

/** Bytes that are written: numbers are big-endian. */
final class Bytes {
    private byte[] bytes = new byte[64];
    private int length;

    Bytes number(long value, int width) {
        for (int at = width - 1; at >= 0; at--) {
            octet((int) (value >>> (8 * at)));
        }
        return this;
    }

    Bytes octet(int value) {
        room(1);
        bytes[length++] = (byte) value;
        return this;
    }

    Bytes add(byte[] more) {
        room(more.length);
        System.arraycopy(more, 0, bytes, length, more.length);
        length += more.length;
        return this;
    }

    /** MIOP 5.3: seven bits in each byte, low ones first. */
    Bytes varint(int value) {
        while (value >>> 7 != 0) {
            octet(value & 0x7f | 0x80);
            value >>>= 7;
        }
        return octet(value);
    }

    Bytes block(byte[] block) {
        return varint(block.length).add(block);
    }

    int length() {
        return length;
    }

    byte[] toArray() {
        return Arrays.copyOf(bytes, length);
    }

    /** Drops the first bytes. */
    void drop(int count) {
        System.arraycopy(bytes, count, bytes, 0, length - count);
        length -= count;
    }

    Reader reader() {
        return new Reader(bytes, 0, length);
    }

    private void room(int more) {
        if (length + more > bytes.length) {
            bytes = Arrays.copyOf(bytes, Math.max(length + more, 2 * bytes.length));
        }
    }

    /** A place in bytes that are read. */
    static final class Reader {
        private final byte[] bytes;
        private final int end;
        private int at;

        Reader(byte[] bytes, int from, int end) {
            this.bytes = bytes;
            this.at = from;
            this.end = end;
        }

        Reader(byte[] bytes) {
            this(bytes, 0, bytes.length);
        }

        int left() {
            return end - at;
        }

        int octet() {
            return bytes[at++] & 0xff;
        }

        /** An unsigned number; of eight bytes it may look negative. */
        long number(int width) {
            long value = 0;
            for (int count = 0; count < width; count++) {
                value = value << 8 | octet();
            }
            return value;
        }

        byte[] take(int count) {
            at += count;
            return Arrays.copyOfRange(bytes, at - count, at);
        }

        Reader part(int count) {
            at += count;
            return new Reader(bytes, at - count, at);
        }

        /** A number of 32 bits in its shortest form, and nothing else. */
        long varint() throws Fault {
            long value = 0;
            for (int count = 0; count < 5 && left() > 0; count++) {
                int octet = octet();
                value |= (long) (octet & 0x7f) << (7 * count);
                if ((octet & 0x80) == 0) {
                    if (value > 0xffffffffL || (count > 0 && octet == 0)) {
                        break;
                    }
                    return value;
                }
            }
            throw new Fault(Fault.BAD_LENGTH);
        }

        /** A varint and so many bytes. */
        Reader block() throws Fault {
            long length = varint();
            if (length > left()) {
                throw new Fault(Fault.BAD_LENGTH);
            }
            return part((int) length);
        }

        byte[] rest() {
            return take(left());
        }
    }
}
