package holdline.miop;

/** What a client does now. */
public final class State {
    /** Names of states. */
    public enum Name { CONNECTING, BINDING, BOUND, WAITING, CLOSING, ENDED }

    private final Name name;
    String address = "";
    boolean isResumed;
    int heartbeatS;
    int offlineCount;
    long untilMs;
    String why = "";
    Exception fault;
    int result;

    State(Name name) {
        this.name = name;
    }

    /** Its name. */
    public Name name() {
        return name;
    }

    /** Of CONNECTING: where. */
    public String address() {
        return address;
    }

    /** Of BOUND: an earlier session goes on. */
    public boolean isResumed() {
        return isResumed;
    }

    /** Of BOUND: the agreed heartbeat, seconds. */
    public int heartbeatS() {
        return heartbeatS;
    }

    /** Of BOUND: pushes that the server has stored. */
    public int offlineCount() {
        return offlineCount;
    }

    /** Of WAITING: its end, milliseconds of the client's {@link Clock}. */
    public long untilMs() {
        return untilMs;
    }

    /**
     * Of WAITING and ENDED: a fault or result of docs/wire/miop.md, or {@code connect_failed},
     * {@code connect_timeout}, {@code bind_timeout}, {@code lost}, {@code no_pong},
     * {@code pin_mismatch}, {@code closed}.
     */
    public String why() {
        return why;
    }

    /** Of ENDED: the server's {@link Result}, 0 without one. */
    public int result() {
        return result;
    }

    /** Of WAITING: what was wrong with the connection; null if that is not known. */
    public Exception fault() {
        return fault;
    }

    @Override
    public String toString() {
        String text = name.toString().toLowerCase(java.util.Locale.ROOT);
        String more = fault == null ? "" : ": " + fault;
        return why.isEmpty() ? text : text + " (" + why + more + ")";
    }
}
