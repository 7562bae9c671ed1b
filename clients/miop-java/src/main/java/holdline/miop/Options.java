package holdline.miop;

import java.net.URI;
import java.util.List;
import java.util.function.DoubleSupplier;
import javax.net.ssl.SSLContext;

/** What a client is made with, after it was checked. */
final class Options {
    List<String> addresses;
    String product;
    String device;
    byte[] secret;
    long keyId;
    Client.TokenSource token;
    boolean hasCertificate;
    List<String> tags;
    SSLContext tls;
    String serverName;
    List<String> pins;
    URI proxy;
    boolean isManual;
    Store store;
    int window;
    boolean pulls;
    String network = "";
    int shortestS = 30;
    int firstS = 120;
    int longestS = 1_800;
    int wishS;
    long backoffFirstMs = 1_000;
    long backoffLongestMs = 60_000;
    Clock clock;
    DoubleSupplier random;

    Client.PushHandler onPush;
    java.util.function.Consumer<State> onState = state -> {};
    java.util.function.Consumer<String> onStored = clientId -> {};
    java.util.function.LongConsumer onPulled = remaining -> {};
    /** Of tests: after each frame that was handled. */
    java.util.function.IntConsumer onFrame;

    String identity() {
        return product + " " + device;
    }
}
