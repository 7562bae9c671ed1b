package holdline.im;

/** A message is given up: the server refused it. */
public final class Failed {
    private final String clientId;
    private final String to;
    private final ImException error;

    Failed(String clientId, String to, ImException error) {
        this.clientId = clientId;
        this.to = to;
        this.error = error;
    }

    /** What {@link Client#send} returned. */
    public String clientId() {
        return clientId;
    }

    /** To whom. */
    public String to() {
        return to;
    }

    /** Why. */
    public ImException error() {
        return error;
    }
}
