package holdline.im;

import dev.holdline.im.v1.InboxEvent;
import dev.holdline.im.v1.ServerFrame;
import java.io.IOException;
import java.net.URI;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;
import javax.net.ssl.SSLContext;

/** What a client is made with, after it was checked. */
final class Options {
    final List<String> addresses = new ArrayList<>();
    String account;
    String device;
    Client.CredentialsSource credentials = Credentials::none;
    /** Credentials are asked for before each connection, so a new token may come. */
    boolean renews;
    SSLContext tls;
    String serverName;
    final List<String> pins = new ArrayList<>();
    URI proxy;
    boolean isManual;
    Store store;
    int silenceS;
    Clock clock;
    DoubleSupplier random;

    Client.MessageHandler onMessage;
    Consumer<InboxEvent> onEvent;
    Consumer<Sent> onSent = sent -> {};
    Consumer<Failed> onFailed = failed -> {};
    Consumer<ServerFrame> onTold = frame -> {};
    Consumer<State> onState = state -> {};
    Consumer<IOException> onStoreError = failed -> {};
    /** Of tests: after each frame that was handled. */
    Consumer<String> onFrame;
}
