package holdline.miop;

import java.io.IOException;
import java.net.URI;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.function.Consumer;
import java.util.function.DoubleSupplier;
import java.util.function.IntConsumer;
import java.util.function.LongConsumer;
import javax.net.ssl.SSLContext;

/** Makes a {@link Client}. Arguments that cannot work are an {@link IllegalArgumentException}. */
public final class ClientBuilder {
    private final Options options = new Options();

    ClientBuilder(String address, String product, String device) {
        options.addresses = new ArrayList<>();
        options.pins = new ArrayList<>();
        address(address);
        options.product = name(product, Frame.PRODUCT_BYTES_MAX);
        options.device = name(device, Frame.NAME_BYTES_MAX);
    }

    /** One more server, {@code host:port}; they are tried in turn. */
    public ClientBuilder address(String address) {
        if (!address.matches("(\\[[0-9A-Fa-f:.]+\\]|[^:\\s]+):\\d{1,5}")) {
            throw new IllegalArgumentException("not host:port: " + address);
        }
        options.addresses.add(address);
        return this;
    }

    /** Proves the device with a secret of its product (HMAC). */
    public ClientBuilder secret(long keyId, byte[] secret) {
        require(secret.length > 0, "an empty secret");
        options.keyId = keyId;
        options.secret = secret.clone();
        return this;
    }

    /**
     * Proves the device with a token, which is fetched for each connection. Tokens are sent over
     * TLS, or to this machine.
     */
    public ClientBuilder token(Client.TokenSource token) {
        options.token = token;
        return this;
    }

    /** Replaces the device's tags; none removes them. Without this call they stay. */
    public ClientBuilder tags(Collection<String> tags) {
        tags.forEach(tag -> name(tag, Frame.NAME_BYTES_MAX));
        require(tags.size() <= Properties.TAGS_MAX, "too many tags");
        options.tags = new ArrayList<>(tags);
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

    /** The context of {@link #tls} has a certificate of the device, which proves it. */
    public ClientBuilder certificate() {
        options.hasCertificate = true;
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

    /** Gets each push once; needed. */
    public ClientBuilder onPush(Client.PushHandler handler) {
        options.onPush = handler;
        return this;
    }

    /**
     * Leaves the acknowledgement to {@link Client#acknowledge} and {@link Client#reject}; an
     * exception of the handler rejects the push at once.
     */
    public ClientBuilder manualAck() {
        options.isManual = true;
        return this;
    }

    /** Hears of states. This and the next two are called in order, in a thread of their own. */
    public ClientBuilder onState(Consumer<State> listener) {
        options.onState = listener;
        return this;
    }

    /** Hears of client ids of Reports that the server has taken. */
    public ClientBuilder onStored(Consumer<String> listener) {
        options.onStored = listener;
        return this;
    }

    /** Hears how many stored pushes remain after a {@link Client#pull}. */
    public ClientBuilder onPulled(LongConsumer listener) {
        options.onPulled = listener;
        return this;
    }

    /** Keeps the client's state; without this call, in memory. */
    public ClientBuilder store(Store store) {
        options.store = store;
        return this;
    }

    /** The wish for unacknowledged pushes at once. */
    public ClientBuilder window(int pushes) {
        require(pushes > 0 && pushes < 1 << 16, "a window is 1 to 65535");
        options.window = pushes;
        return this;
    }

    /** Stored pushes are not sent before {@link Client#pull} asks for them. */
    public ClientBuilder pulls() {
        options.pulls = true;
        return this;
    }

    /** Where the device is now, in a word of the application's: "home", "cell". */
    public ClientBuilder network(String name) {
        options.network = name;
        return this;
    }

    /** Bounds of the heartbeat, and where the search begins; seconds. */
    public ClientBuilder heartbeat(int shortest, int first, int longest) {
        require(shortest > 0 && shortest <= first && first <= longest && longest < 1 << 16,
            "0 < shortest <= first <= longest < 65536");
        options.shortestS = shortest;
        options.firstS = first;
        options.longestS = longest;
        return this;
    }

    /**
     * The heartbeat that is asked for, seconds; without this call, the product's default. PINGs are
     * never further apart than what is agreed.
     */
    public ClientBuilder heartbeatWish(int seconds) {
        require(seconds > 0 && seconds < 1 << 16, "a heartbeat is 1 to 65535 seconds");
        options.wishS = seconds;
        return this;
    }

    /** The spans of the first and the longest wait between attempts. */
    public ClientBuilder backoff(long firstMs, long longestMs) {
        require(firstMs > 0 && firstMs <= longestMs, "0 < first <= longest");
        options.backoffFirstMs = firstMs;
        options.backoffLongestMs = longestMs;
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
    ClientBuilder onFrame(IntConsumer listener) {
        options.onFrame = listener;
        return this;
    }

    /** Makes the client and loads its state; it does not connect before {@link Client#start}. */
    public Client build() throws IOException {
        require(options.onPush != null, "onPush is missing");
        String host = Dialer.host(options.addresses.get(0));
        boolean isLocal = options.proxy == null && options.addresses.stream().map(Dialer::host)
            .allMatch(ClientBuilder::isLoopback);
        require(options.token == null || options.tls != null || isLocal, "a token needs TLS");
        require(options.pins.isEmpty() || options.tls != null, "pins need TLS");
        if (options.serverName == null) {
            options.serverName = host;
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

    private static boolean isLoopback(String host) {
        List<String> names = Arrays.asList("localhost", "::1");
        return names.contains(host.toLowerCase(Locale.ROOT)) || host.startsWith("127.");
    }

    private static String name(String text, int bytesMax) {
        require(Properties.isName(text, bytesMax), "a name is 1 to " + bytesMax
            + " letters, digits and . _ - + : / =, not \"" + text + "\"");
        return text;
    }

    private static void require(boolean holds, String otherwise) {
        if (!holds) {
            throw new IllegalArgumentException(otherwise);
        }
    }
}
