package holdline.im;

import dev.holdline.im.v1.Fault;
import dev.holdline.im.v1.Reason;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Locale;
import java.util.Set;

/** The protocol's words (IM 8): why a session ends, why something was not done. */
final class Words {
    /** Reasons with which a client does not come back by itself. */
    static final Set<String> LASTING = new HashSet<>(Arrays.asList("bad_credentials",
        "not_authorized", "name_invalid", "bad_method", "taken_over", "admin_kick", "expired",
        "malformed", "too_large", "out_of_order", "unknown_version"));
    /** Faults after which the same request may succeed. */
    static final Set<String> PASSING =
        new HashSet<>(Arrays.asList("busy", "store_full", "store_failed", "rate_limited"));

    private Words() {}

    /** An unknown reason is treated as 0 (IM 8.1). */
    static String of(Reason reason) {
        Reason known = reason == Reason.UNRECOGNIZED ? Reason.REASON_UNSPECIFIED : reason;
        return known.name().substring("REASON_".length()).toLowerCase(Locale.ROOT);
    }

    static String of(Fault fault) {
        Fault known = fault == Fault.UNRECOGNIZED ? Fault.FAULT_UNSPECIFIED : fault;
        return known.name().substring("FAULT_".length()).toLowerCase(Locale.ROOT);
    }
}
