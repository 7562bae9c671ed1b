package holdline.im;

import java.util.Locale;

/** What a client does now. */
public final class State {
    /** Names of states. */
    public enum Name { CONNECTING, ONLINE, WAITING, ENDED }

    private final Name name;
    String address = "";
    String account = "";
    long untilMs;
    String why = "";
    Exception fault;

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

    /** Of ONLINE: the account, with its domain. */
    public String account() {
        return account;
    }

    /** Of WAITING: its end, milliseconds of the client's {@link Clock}. */
    public long untilMs() {
        return untilMs;
    }

    /**
     * Of WAITING and ENDED: a word of IM 8.1, or {@code unreachable}, {@code disconnected},
     * {@code timed_out}, {@code pin_mismatch}, {@code insecure}, {@code credentials_failed},
     * {@code server_malformed}, {@code server_not_proved}, {@code closed}.
     */
    public String why() {
        return why;
    }

    /** Of WAITING: what was wrong with the connection; null if that is not known. */
    public Exception fault() {
        return fault;
    }

    @Override
    public String toString() {
        String text = name.toString().toLowerCase(Locale.ROOT);
        String more = fault == null ? "" : ": " + fault;
        return why.isEmpty() ? text : text + " (" + why + more + ")";
    }
}
