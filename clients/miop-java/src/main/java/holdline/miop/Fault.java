package holdline.miop;

/** What is wrong with a frame: a name of docs/wire/miop.md, section 9. */
final class Fault extends Exception {
    static final String UNKNOWN_VERSION = "unknown_version";
    static final String NEWER_VERSION = "newer_version";
    static final String VERSION_CHANGED = "version_changed";
    static final String TOO_LARGE = "too_large";
    static final String MUST_UNDERSTAND = "must_understand";
    static final String BAD_FLAGS = "bad_flags";
    static final String BAD_LENGTH = "bad_length";
    static final String EMPTY_BLOCK = "empty_block";
    static final String BAD_PROPERTY = "bad_property";
    static final String CRITICAL_PROPERTY = "critical_property";
    static final String MISSING_PROPERTY = "missing_property";
    static final String BAD_RECORD = "bad_record";
    static final String OUT_OF_ORDER = "out_of_order";

    private static final long serialVersionUID = 1;

    Fault(String name) {
        super(name, null, false, false);
    }
}
