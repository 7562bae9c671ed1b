package holdline.im;

import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.MessageDigest;
import java.util.Base64;
import javax.crypto.Mac;
import javax.crypto.spec.SecretKeySpec;

/**
 * One exchange of SCRAM-SHA-256 (RFC 5802, RFC 7677), and login tokens (IM 3.5). Names and passwords
 * are taken as they are, without SASLprep.
 */
final class Scram {
    static final String METHOD = "SCRAM-SHA-256";
    static final String TOKEN_METHOD = "HT-SHA-256-NONE";
    /** A hostile server shall not keep us busy. */
    private static final int ITERATIONS_MAX = 1_000_000;

    /** Bytes to be sent, and what the server must say then. */
    static final class Proof {
        final byte[] data;
        final byte[] expected;

        Proof(byte[] data, byte[] expected) {
            this.data = data;
            this.expected = expected;
        }
    }

    private final String bare;
    private final String password;
    private final String nonce;

    Scram(String name, String password, String nonce) {
        bare = "n=" + name.replace("=", "=3D").replace(",", "=2C") + ",r=" + nonce;
        this.password = password;
        this.nonce = nonce;
    }

    /** The data of Login. */
    byte[] first() {
        return bytes("n,," + bare);
    }

    /** The answer to a challenge; null: it is none to this exchange. */
    Proof answer(byte[] challenge) {
        String text = new String(challenge, StandardCharsets.UTF_8);
        String theirs = field(text, "r=");
        byte[] salt;
        int iterations;
        try {
            salt = Base64.getDecoder().decode(field(text, "s="));
            iterations = Integer.parseInt(field(text, "i="));
        } catch (IllegalArgumentException none) {
            return null;
        }
        boolean isOurs = theirs.startsWith(nonce) && theirs.length() > nonce.length();
        if (!isOurs || iterations < 1 || iterations > ITERATIONS_MAX) {
            return null;
        }
        byte[] salted = stretched(bytes(password), salt, iterations);
        byte[] key = mac(salted, bytes("Client Key"));
        String last = "c=biws,r=" + theirs;
        byte[] said = bytes(bare + "," + text + "," + last);
        byte[] proof = mac(digest(key), said);
        for (int at = 0; at < proof.length; at++) {
            proof[at] ^= key[at];
        }
        byte[] signature = mac(mac(salted, bytes("Server Key")), said);
        Base64.Encoder base64 = Base64.getEncoder();
        return new Proof(bytes(last + ",p=" + base64.encodeToString(proof)),
            bytes("v=" + base64.encodeToString(signature)));
    }

    /** The data of a Login by a token. */
    static Proof hashedToken(String name, String token) {
        byte[] key = bytes(token);
        byte[] mac = mac(key, bytes("Initiator"));
        byte[] first = java.util.Arrays.copyOf(bytes(name), bytes(name).length + 1 + mac.length);
        System.arraycopy(mac, 0, first, first.length - mac.length, mac.length);
        return new Proof(first, mac(key, bytes("Responder")));
    }

    private static String field(String text, String name) {
        for (String part : text.split(",")) {
            if (part.startsWith(name)) {
                return part.substring(name.length());
            }
        }
        return "";
    }

    /** One block of PBKDF2 (RFC 8018 5.2). */
    private static byte[] stretched(byte[] password, byte[] salt, int iterations) {
        try {
            Mac hash = keyed(password);
            hash.update(salt);
            byte[] block = hash.doFinal(new byte[] {0, 0, 0, 1});
            byte[] sum = block.clone();
            for (int round = 1; round < iterations; round++) {
                block = hash.doFinal(block);
                for (int at = 0; at < sum.length; at++) {
                    sum[at] ^= block[at];
                }
            }
            return sum;
        } catch (GeneralSecurityException absent) {
            throw new IllegalStateException("every Java has HMAC-SHA-256", absent);
        }
    }

    private static byte[] mac(byte[] key, byte[] said) {
        try {
            return keyed(key).doFinal(said);
        } catch (GeneralSecurityException absent) {
            throw new IllegalStateException("every Java has HMAC-SHA-256", absent);
        }
    }

    private static Mac keyed(byte[] key) throws GeneralSecurityException {
        Mac mac = Mac.getInstance("HmacSHA256");
        // An empty key is a key of zeros.
        mac.init(new SecretKeySpec(key.length == 0 ? new byte[1] : key, "HmacSHA256"));
        return mac;
    }

    private static byte[] digest(byte[] bytes) {
        try {
            return MessageDigest.getInstance("SHA-256").digest(bytes);
        } catch (GeneralSecurityException absent) {
            throw new IllegalStateException("every Java has SHA-256", absent);
        }
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
