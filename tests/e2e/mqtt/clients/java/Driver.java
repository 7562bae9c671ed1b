import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocketFactory;
import javax.net.ssl.TrustManagerFactory;

/**
 * The Java clients, told by lines: `paho` (mqttv3 and mqttv5) or `hivemq`. See drivers.py for what
 * is said both ways.
 */
final class Driver {
    /** A client of either library; each call says its answer itself, or throws. */
    interface Client {
        void connect(Line line) throws Exception;

        void subscribe(Line line) throws Exception;

        void unsubscribe(Line line) throws Exception;

        void publish(Line line) throws Exception;

        void disconnect(Line line) throws Exception;
    }

    static final char[] PASSWORD = "e2e".toCharArray();

    static synchronized void say(String name, String event, Line fields) {
        System.out.println(fields.put("as", name).put("event", event));
        System.out.flush();
    }

    static void say(String name, String event) {
        say(name, event, new Line());
    }

    /** Why something failed, with its causes. */
    static String why(Throwable error) {
        StringBuilder text = new StringBuilder();
        for (Throwable each = error; each != null; each = each.getCause()) {
            text.append(text.length() == 0 ? "" : ": ").append(each);
        }
        return text.toString();
    }

    static TrustManagerFactory trust(Line line) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null);
        try (FileInputStream file = new FileInputStream(line.text("ca"))) {
            store.setCertificateEntry(
                "ca", CertificateFactory.getInstance("X.509").generateCertificate(file));
        }
        TrustManagerFactory factory =
            TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        factory.init(store);
        return factory;
    }

    /** The client's own certificate, or null. */
    static KeyManagerFactory keys(Line line) throws Exception {
        if (!line.has("p12")) {
            return null;
        }
        KeyStore store = KeyStore.getInstance("PKCS12");
        try (FileInputStream file = new FileInputStream(line.text("p12"))) {
            store.load(file, PASSWORD);
        }
        KeyManagerFactory factory =
            KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        factory.init(store, PASSWORD);
        return factory;
    }

    static SSLSocketFactory sockets(Line line) throws Exception {
        SSLContext context = SSLContext.getInstance("TLS");
        KeyManagerFactory keys = keys(line);
        context.init(keys == null ? null : keys.getKeyManagers(),
            trust(line).getTrustManagers(), null);
        return context.getSocketFactory();
    }

    private static Client make(String library, String name, Line line) {
        boolean is5 = line.text("version").equals("5");
        if (library.equals("paho")) {
            return is5 ? new Paho5(name) : new Paho3(name);
        }
        return is5 ? new HiveMq5(name) : new HiveMq3(name);
    }

    private static void work(Client client, String name, Line line) {
        try {
            switch (line.text("do")) {
                case "connect" -> client.connect(line);
                case "subscribe" -> client.subscribe(line);
                case "unsubscribe" -> client.unsubscribe(line);
                case "publish" -> client.publish(line);
                case "disconnect" -> client.disconnect(line);
                default -> throw new IllegalArgumentException(line.text("do"));
            }
        } catch (Exception error) {
            say(name, "failed", new Line().put("why", why(error)));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Client> clients = new HashMap<>();
        Map<String, ExecutorService> workers = new HashMap<>();
        BufferedReader input =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String text = input.readLine(); text != null; text = input.readLine()) {
            Line line = Line.read(text);
            String name = line.text("as");
            if (line.text("do").equals("connect")) {
                clients.put(name, make(arguments[0], name, line));
            }
            Client client = clients.get(name);
            workers.computeIfAbsent(name, any -> Executors.newSingleThreadExecutor())
                .execute(() -> work(client, name, line));
        }
        System.exit(0);
    }
}
