package holdline.im;

/** A message is stored. */
public final class Sent {
    private final String clientId;
    private final String to;
    private final long id;
    private final long seq;
    private final long atMs;

    Sent(String clientId, String to, long id, long seq, long atMs) {
        this.clientId = clientId;
        this.to = to;
        this.id = id;
        this.seq = seq;
        this.atMs = atMs;
    }

    /** What {@link Client#send} returned. */
    public String clientId() {
        return clientId;
    }

    /** To whom. */
    public String to() {
        return to;
    }

    /** The server's number for it: 64 bits without a sign. */
    public long id() {
        return id;
    }

    /** Its place in the conversation. */
    public long seq() {
        return seq;
    }

    /** When the server took it, Unix milliseconds. */
    public long atMs() {
        return atMs;
    }
}
