package holdline.im;

import dev.holdline.im.v1.InboxEvent;
import dev.holdline.im.v1.ServerFrame;
import java.io.IOException;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;
import javax.net.ssl.SSLContext;

/** Makes a {@link Client}. */
public final class ClientBuilder {
    private final Options options = new Options();

    ClientBuilder(String address, String account, String device) {
        address(address);
        options.account = name(account, 320);
        options.device = name(device, 64);
    }

    /** One more server, {@code host:port}; they are tried in turn. */
    public ClientBuilder address(String address) {
        require(address.matches(".+:\\d{1,5}"), "not host:port: " + address);
        options.addresses.add(address);
        return this;
    }

    /** Proves the account. */
    public ClientBuilder credentials(Credentials credentials) {
        Objects.requireNonNull(credentials);
        options.credentials = () -> credentials;
        return this;
    }

    /** Asks for the proof of the account before each connection, so that a new token may come. */
    public ClientBuilder credentials(Client.CredentialsSource source) {
        options.credentials = Objects.requireNonNull(source);
        options.renews = true;
        return this;
    }

    /**
     * Encrypts the connection. The certificate must be for {@code serverName}, also where the
     * server sends the client elsewhere; null: the host of the first address.
     */
    public ClientBuilder tls(SSLContext context, String serverName) {
        options.tls = Objects.requireNonNull(context);
        options.serverName = serverName;
        return this;
    }

    /**
     * The server's key must be one of these: {@code sha256/BASE64} of its SubjectPublicKeyInfo.
     */
    public ClientBuilder pins(String... pins) {
        for (String pin : pins) {
            require(pin.startsWith(Dialer.PIN_PREFIX), "not " + Dialer.PIN_PREFIX + "BASE64");
        }
        options.pins.addAll(Arrays.asList(pins));
        return this;
    }

    /** {@code socks5://user:password@host:port} or {@code http://user:password@host:port}. */
    public ClientBuilder proxy(String uri) {
        URI proxy = URI.create(uri);
        boolean known = "socks5".equals(proxy.getScheme()) || "http".equals(proxy.getScheme());
        require(known && proxy.getHost() != null && proxy.getPort() > 0,
            "not socks5://host:port or http://host:port");
        options.proxy = proxy;
        return this;
    }

    /** Gets each message once, one at a time, in the order of the inbox; needed. */
    public ClientBuilder onMessage(Client.MessageHandler handler) {
        options.onMessage = handler;
        return this;
    }

    /** Leaves the acknowledgement of messages and events to {@link Client#acknowledge}. */
    public ClientBuilder manualAck() {
        options.isManual = true;
        return this;
    }

    /**
     * Gets what else is in the inbox: read cursors and settings. All listeners are called in order,
     * in one thread.
     */
    public ClientBuilder onEvent(Consumer<InboxEvent> listener) {
        options.onEvent = listener;
        return this;
    }

    /** Hears of messages that are stored. */
    public ClientBuilder onSent(Consumer<Sent> listener) {
        options.onSent = listener;
        return this;
    }

    /** Hears of messages that are given up. */
    public ClientBuilder onFailed(Consumer<Failed> listener) {
        options.onFailed = listener;
        return this;
    }

    /** Gets what has no place in the inbox: presence, typing, chatrooms. */
    public ClientBuilder onTold(Consumer<ServerFrame> listener) {
        options.onTold = listener;
        return this;
    }

    /** Hears of states. */
    public ClientBuilder onState(Consumer<State> listener) {
        options.onState = listener;
        return this;
    }

    /** Keeps the client's state; without this call, in memory. */
    public ClientBuilder store(Store store) {
        options.store = store;
        return this;
    }

    /** Hears of a save that failed: the client goes on, and saves again with the next change. */
    public ClientBuilder onStoreError(Consumer<IOException> listener) {
        options.onStoreError = listener;
        return this;
    }

    /** The longest silence of the client that it asks for, seconds; 0: the server's. */
    public ClientBuilder silence(int seconds) {
        require(seconds >= 0, "a negative silence");
        options.silenceS = seconds;
        return this;
    }

    /** Another clock than the system's. */
    public ClientBuilder clock(Clock clock) {
        options.clock = clock;
        return this;
    }

    /** Of tests: numbers from 0 up to 1, for jitter. */
    ClientBuilder random(DoubleSupplier random) {
        options.random = random;
        return this;
    }

    /** Of tests: after each frame that was handled. */
    ClientBuilder onFrame(Consumer<String> listener) {
        options.onFrame = listener;
        return this;
    }

    /** Makes the client and loads its state; it does not connect before {@link Client#start}. */
    public Client build() throws IOException {
        require(options.onMessage != null, "onMessage is missing");
        require(options.pins.isEmpty() || options.tls != null, "pins need TLS");
        if (options.serverName == null) {
            options.serverName = Dialer.host(options.addresses.get(0));
        }
        if (options.store == null) {
            options.store = Store.inMemory();
        }
        if (options.clock == null) {
            options.clock = new SystemClock();
        }
        if (options.random == null) {
            options.random = new SecureRandom()::nextDouble;
        }
        return new Client(options);
    }

    private static String name(String text, int bytesMax) {
        int bytes = text.getBytes(StandardCharsets.UTF_8).length;
        require(bytes > 0 && bytes <= bytesMax, 
            "a name has 1 to " + bytesMax + " bytes, not \"" + text + "\"");
        return text;
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalArgumentException(otherwise);
        }
    }
}
