package holdline.im;

/** Something was not done. */
public final class ImException extends Exception {
    private static final long serialVersionUID = 1;

    private final String code;
    private final String reason;

    ImException(String code, String reason) {
        super(reason.isEmpty() ? code : code + ": " + reason);
        this.code = code;
        this.reason = reason;
    }

    ImException(String code) {
        this(code, "");
    }

    /** A word of IM 8.2, or {@code disconnected}, {@code queue_full}. */
    public String code() {
        return code;
    }

    /** The operator's text for people; mostly empty. */
    public String reason() {
        return reason;
    }
}
