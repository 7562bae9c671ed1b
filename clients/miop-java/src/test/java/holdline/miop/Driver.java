package holdline.miop;

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;

/**
 * Shows this library to clients/conformance: JSON lines on standard input and output, as the README
 * there specifies.
 */
public final class Driver {
    private static final PrintStream OUT = new PrintStream(
        new java.io.FileOutputStream(java.io.FileDescriptor.out), true, StandardCharsets.US_ASCII);

    private Client client;
    private HandClock clock;
    private Store store;
    /** Of the client: what one that was killed still says is not printed. */
    private int life;

    private Driver() {}

    /** Reads commands to the end of the input. */
    public static void main(String[] words) throws Exception {
        Driver driver = new Driver();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in,
            StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<?, ?> command = (Map<?, ?>) Json.read(line);
            Map<String, Object> answer = new LinkedHashMap<>();
            try {
                driver.run(command, answer);
                if (driver.client != null) {
                    driver.client.flush();
                }
                if (command.get("do").equals("time")) {
                    answer.put("next", driver.clock.next());
                }
            } catch (Fault fault) {
                answer.put("fault", fault.getMessage());
            } catch (MiopException refused) {
                answer.put("error", refused.word());
            } catch (Exception failed) {
                answer.put("error", failed.toString());
            }
            answer.put("n", command.get("n"));
            print(answer);
        }
        System.exit(0);
    }

    private static synchronized void print(Map<String, Object> what) {
        OUT.println(Json.write(what));
    }

    private void run(Map<?, ?> c, Map<String, Object> answer) throws Exception {
        switch (text(c, "do")) {
            case "hello":
                answer.put("library", "miop-java");
                answer.put("version", Client.VERSION);
                answer.put("features", List.of("tls", "pins", "socks5", "http_connect", "detail"));
                break;
            case "decode":
                decode(c, answer);
                break;
            case "encode":
                Frame frame = Vectors.fromJson((Map<?, ?>) c.get("frame"));
                answer.put("bytes", Vectors.hex(frame.write()));
                break;
            case "mac":
                mac(c, answer);
                break;
            case "open":
                open(c);
                break;
            case "time":
                client.flush();
                // A turn that began before arms its timer at its end: so until nothing is due.
                for (clock.set(number(c, "ms", 0)); clock.due() != null;
                    clock.set(number(c, "ms", 0))) {
                    client.flush();
                }
                break;
            case "kill":
                nextLife();
                client.kill();
                client = null;
                byte[] record = store.load();
                answer.put("state", record == null ? ""
                    : new String(record, StandardCharsets.US_ASCII));
                break;
            default:
                use(c, answer);
        }
    }

    private void use(Map<?, ?> c, Map<String, Object> answer) throws Exception {
        switch (text(c, "do")) {
            case "acknowledge":
                client.acknowledge(Long.parseUnsignedLong(text(c, "id")));
                break;
            case "reject":
                client.reject(Long.parseUnsignedLong(text(c, "id")));
                break;
            case "report":
                byte[] body = Vectors.bytes(text(c, "payload"));
                if (c.get("client_id") != null) {
                    client.report(text(c, "client_id"), body);
                    answer.put("client_id", c.get("client_id"));
                } else {
                    answer.put("client_id", client.report(body));
                }
                break;
            case "opened":
                answer.put("client_id", client.opened(Long.parseUnsignedLong(text(c, "id"))));
                break;
            case "dismissed":
                answer.put("client_id", client.dismissed(Long.parseUnsignedLong(text(c, "id"))));
                break;
            case "pull":
                client.pull((int) number(c, "count", 0));
                break;
            case "nudge":
                client.nudge();
                break;
            case "network":
                client.network(text(c, "name"));
                break;
            case "close":
                client.close();
                break;
            default:
                throw new IllegalArgumentException("unknown command");
        }
    }

    private static void decode(Map<?, ?> c, Map<String, Object> answer) throws Fault {
        byte[] bytes = Vectors.bytes(text(c, "bytes"));
        int limit = (int) number(c, "frame_bytes_max", Frame.BYTES_DEFAULT);
        Frame frame = Frame.read(new Bytes.Reader(bytes), limit);
        if (frame == null) {
            answer.put("more", true);
        } else {
            answer.put("frame", Vectors.toJson(frame));
            answer.put("length", frame.length);
        }
    }

    private static void mac(Map<?, ?> c, Map<String, Object> answer) {
        Frame.Claim claim = new Frame.Claim();
        claim.product = text(c, "product");
        claim.device = text(c, "device");
        claim.clientTs = Long.parseUnsignedLong(text(c, "client_ts"));
        claim.clientNonce = Vectors.bytes(text(c, "client_nonce"));
        claim.caps = (int) number(c, "caps", 0);
        byte[] secret = Vectors.bytes(text(c, "secret"));
        byte[] nonce = Vectors.bytes(text(c, "server_nonce"));
        answer.put("mac", Vectors.hex(claim.mac(secret, nonce)));
    }

    private void open(Map<?, ?> c) throws Exception {
        clock = new HandClock(number(c, "wall_ms", 1_700_000_000_000L));
        store = Store.inMemory();
        if (c.get("state") != null) {
            store.save(text(c, "state").getBytes(StandardCharsets.US_ASCII));
        }
        List<String> addresses = texts(c, "addresses");
        ClientBuilder builder = Client.builder(addresses.get(0), text(c, "product"),
            text(c, "device")).clock(clock).store(store);
        addresses.subList(1, addresses.size()).forEach(builder::address);
        double random = c.get("random") == null ? 0.5 : ((Number) c.get("random")).doubleValue();
        builder.random(() -> random);
        if (c.get("secret") != null) {
            builder.secret(number(c, "key_id", 0), Vectors.bytes(text(c, "secret")));
        }
        if (c.get("token") != null) {
            builder.token(() -> text(c, "token"));
        }
        if (c.get("tags") != null) {
            builder.tags(texts(c, "tags"));
        }
        if ("manual".equals(c.get("acknowledge"))) {
            builder.manualAck();
        }
        if (c.get("heartbeat") != null) {
            Map<?, ?> range = (Map<?, ?>) c.get("heartbeat");
            builder.heartbeat((int) number(range, "shortest", 30), (int) number(range, "first", 120),
                (int) number(range, "longest", 1800));
        }
        if (c.get("heartbeat_wish") != null) {
            builder.heartbeatWish((int) number(c, "heartbeat_wish", 0));
        }
        if (c.get("max_inflight") != null) {
            builder.window((int) number(c, "max_inflight", 1));
        }
        if (Boolean.TRUE.equals(c.get("pulls"))) {
            builder.pulls();
        }
        if (c.get("proxy") != null) {
            builder.proxy(text(c, "proxy"));
        }
        if (c.get("tls") != null) {
            Map<?, ?> tls = (Map<?, ?>) c.get("tls");
            builder.tls(trusting(text(tls, "ca")), (String) tls.get("name"));
            builder.pins(texts(tls, "pins").toArray(new String[0]));
        }
        listen(builder, nextLife());
        client = builder.build().start();
    }

    private static SSLContext trusting(String file) throws Exception {
        KeyStore trusted = KeyStore.getInstance(KeyStore.getDefaultType());
        trusted.load(null);
        try (InputStream in = new FileInputStream(file)) {
            trusted.setCertificateEntry("ca",
                CertificateFactory.getInstance("X.509").generateCertificate(in));
        }
        TrustManagerFactory trust =
            TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(null, trust.getTrustManagers(), null);
        return context;
    }

    private synchronized int nextLife() {
        return ++life;
    }

    private synchronized boolean lives(int which) {
        return which == life;
    }

    private void listen(ClientBuilder builder, int mine) {
        builder.onPush(push -> say(mine, "push", Vectors.toJson(push)));
        builder.onFrame(opcode -> say(mine, "frame", Map.of("opcode", opcode)));
        builder.onStored(name -> say(mine, "stored", Map.of("client_id", name)));
        builder.onPulled(count -> say(mine, "pulled", Map.of("remaining", count)));
        builder.onState(state -> {
            Map<String, Object> what = new LinkedHashMap<>();
            what.put("state", state.name().toString().toLowerCase(Locale.ROOT));
            what.put("address", state.address());
            what.put("resumed", state.isResumed());
            what.put("heartbeat", state.heartbeatS());
            what.put("offline_count", state.offlineCount());
            what.put("until", state.untilMs());
            what.put("why", state.why());
            what.put("detail", String.valueOf(state.fault()));
            if (state.result() != 0) {
                what.put("result", state.result());
            }
            say(mine, "state", what);
        });
    }

    private void say(int mine, String event, Map<String, Object> fields) {
        if (lives(mine)) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("event", event);
            line.putAll(fields);
            print(line);
        }
    }

    private static String text(Map<?, ?> from, String name) {
        return (String) from.get(name);
    }

    private static long number(Map<?, ?> from, String name, long none) {
        Object found = from.get(name);
        return found == null ? none : (Long) found;
    }

    private static List<String> texts(Map<?, ?> from, String name) {
        List<String> texts = new ArrayList<>();
        Object found = from.get(name);
        if (found != null) {
            ((List<?>) found).forEach(it -> texts.add((String) it));
        }
        return texts;
    }
}
