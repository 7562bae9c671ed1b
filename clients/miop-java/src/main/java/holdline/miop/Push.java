package holdline.miop;

import java.nio.charset.StandardCharsets;

/** A message of the server. */
public final class Push {
    static final int SILENT = 0x02;
    static final int HIGH = 0x04;
    static final int COMPRESSED = 0x08;
    static final int HEAD_BYTES = 17;

    private final long id;
    private final long appId;
    private final int bits;
    private final long expireAt;
    private final byte[] collapseKey;
    private final byte[] body;

    Push(long id, long appId, int bits, long expireAt, byte[] collapseKey, byte[] body) {
        this.id = id;
        this.appId = appId;
        this.bits = bits;
        this.expireAt = expireAt;
        this.collapseKey = collapseKey;
        this.body = body;
    }

    /**
     * Its number, which is unique, as 64 bits without a sign. A push that is handed out again after
     * a crash has the same one.
     */
    public long id() {
        return id;
    }

    /** The product's number. */
    public long appId() {
        return appId;
    }

    /** Show nothing. */
    public boolean isSilent() {
        return (bits & SILENT) != 0;
    }

    /** It may have overtaken others. */
    public boolean isHigh() {
        return (bits & HIGH) != 0;
    }

    /** The Unix second after which it means nothing; 0: it meant "now". */
    public long expireAt() {
        return expireAt;
    }

    /** A newer push replaces an older one with the same key; empty: none. */
    public byte[] collapseKey() {
        return collapseKey.clone();
    }

    /** The content. */
    public byte[] body() {
        return body.clone();
    }

    /** The content as text. */
    public String text() {
        return new String(body, StandardCharsets.UTF_8);
    }

    /** The id only: the content is the application's. */
    @Override
    public String toString() {
        return "push " + Long.toUnsignedString(id);
    }
}
