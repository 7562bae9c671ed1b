package holdline.im;

import java.util.Objects;

/** How a device proves its account. */
public final class Credentials {
    final String password;
    final String token;
    final String loginToken;

    private Credentials(String password, String token, String loginToken) {
        this.password = password;
        this.token = token;
        this.loginToken = loginToken;
    }

    /** No proof. */
    public static Credentials none() {
        return new Credentials(null, null, null);
    }

    /**
     * A password, which SCRAM-SHA-256 proves and does not show. A server without SCRAM gets it only
     * over TLS, or on this machine.
     */
    public static Credentials password(String password) {
        return new Credentials(Objects.requireNonNull(password), null, null);
    }

    /** A token of an identity provider. It is sent as it is, only over TLS or to this machine. */
    public static Credentials token(String token) {
        return new Credentials(null, Objects.requireNonNull(token), null);
    }

    /** A token that {@link Client#requestToken} gave to this device. It is proved and not shown. */
    public static Credentials loginToken(String token) {
        return new Credentials(null, null, Objects.requireNonNull(token));
    }

    boolean isToken() {
        return token != null || loginToken != null;
    }

    @Override
    public String toString() {
        return "Credentials(…)";
    }
}
