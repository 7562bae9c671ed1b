package holdline.miop;

/** Why something was not done, as one word: see {@link #word}. */
public final class MiopException extends Exception {
    private static final long serialVersionUID = 1;

    private final String word;

    MiopException(String word) {
        super("miop: " + word);
        this.word = word;
    }

    /**
     * {@code queue_full}: too many Reports are waiting. {@code too_large}: larger than the server
     * accepts. {@code not_bound}: not connected. {@code unknown}: no such push waits for an
     * acknowledgement. {@code not_stored}: the store failed.
     */
    public String word() {
        return word;
    }
}
