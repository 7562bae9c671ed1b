package holdline.im;

import dev.holdline.im.v1.ChatMessage;
import dev.holdline.im.v1.Content;
import dev.holdline.im.v1.ServerFrame;
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
    private int asks;

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
            } catch (Wire.Fault fault) {
                answer.put("fault", fault.getMessage());
            } catch (ImException refused) {
                answer.put("error", refused.code());
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
                answer.put("library", "im-java");
                answer.put("version", Client.VERSION);
                answer.put("features", List.of("manual", "heartbeat", "tls", "pins", "socks5", "http_connect", "detail"));
                break;
            case "decode":
                decode(bytes(text(c, "bytes")), answer);
                break;
            case "prove":
                prove(c, answer);
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
                client.flush();
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
            case "send":
                String id = text(c, "client_id") == null ? Client.clientId() : text(c, "client_id");
                client.send(id, text(c, "to"),
                    Content.newBuilder().setKind(1).setText(text(c, "text")).build());
                answer.put("client_id", id);
                break;
            case "acknowledge":
                if (!client.acknowledge(number(c, "seq", 0))) {
                    throw new IllegalArgumentException("unknown");
                }
                break;
            case "history":
                answer.put("ask", history(c));
                break;
            case "network":
                client.network(text(c, "name"));
                break;
            case "nudge":
                client.nudge();
                break;
            case "close":
                client.close();
                break;
            default:
                throw new IllegalArgumentException("unknown command");
        }
    }

    private static void decode(byte[] data, Map<String, Object> answer) throws Wire.Fault {
        Wire.Found found = Wire.decode(data, 0, Wire.FRAME_BYTES_MAX);
        if (found == null) {
            answer.put("more", true);
            return;
        }
        ServerFrame.AnswerCase name = found.frame.getAnswerCase();
        boolean isKnown = name != ServerFrame.AnswerCase.ANSWER_NOT_SET;
        answer.put("answer", isKnown ? name.name().toLowerCase(Locale.ROOT) : null);
        answer.put("length", found.end);
    }

    private static void prove(Map<?, ?> c, Map<String, Object> answer) {
        if (c.get("token") != null) {
            Scram.Proof proof = Scram.hashedToken(text(c, "account"), text(c, "token"));
            answer.put("first", hex(proof.data));
            answer.put("proof", hex(proof.expected));
            return;
        }
        Scram scram = new Scram(text(c, "account"), text(c, "password"), text(c, "nonce"));
        Scram.Proof proof =
            scram.answer(text(c, "challenge").getBytes(StandardCharsets.UTF_8));
        answer.put("first", new String(scram.first(), StandardCharsets.UTF_8));
        answer.put("answer", new String(proof.data, StandardCharsets.UTF_8));
        answer.put("proof", new String(proof.expected, StandardCharsets.UTF_8));
    }

    private void open(Map<?, ?> c) throws Exception {
        clock = new HandClock(number(c, "wall_ms", 1_700_000_000_000L));
        store = Store.inMemory();
        if (c.get("state") != null) {
            store.save(text(c, "state").getBytes(StandardCharsets.US_ASCII));
        }
        List<String> addresses = texts(c, "addresses");
        ClientBuilder builder = Client.builder(addresses.get(0), text(c, "account"),
            text(c, "device")).clock(clock).store(store);
        addresses.subList(1, addresses.size()).forEach(builder::address);
        double random = c.get("random") == null ? 0.5 : ((Number) c.get("random")).doubleValue();
        builder.random(() -> random);
        if (c.get("password") != null) {
            builder.credentials(Credentials.password(text(c, "password")));
        }
        if (c.get("token") != null) {
            builder.credentials(Credentials.token(text(c, "token")));
        }
        if (c.get("login_token") != null) {
            builder.credentials(Credentials.loginToken(text(c, "login_token")));
        }
        if ("manual".equals(c.get("acknowledge"))) {
            builder.manualAck();
        }
        builder.silence((int) number(c, "silence_s", 0));
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

    private int history(Map<?, ?> c) {
        int ask = ++asks;
        int mine = life;
        client.history(text(c, "with"), (int) number(c, "count", 1), 0)
            .whenComplete((page, failed) -> {
                Map<String, Object> what = new LinkedHashMap<>();
                what.put("ask", ask);
                if (failed == null) {
                    List<String> texts = new ArrayList<>();
                    for (ChatMessage message : Client.oldestFirst(page)) {
                        texts.add(message.getContent().getText());
                    }
                    what.put("texts", texts);
                    what.put("more", page.getMore());
                } else {
                    Throwable cause = failed.getCause() == null ? failed : failed.getCause();
                    what.put("error", ((ImException) cause).code());
                }
                say(mine, "history", what);
            });
        return ask;
    }

    private synchronized int nextLife() {
        return ++life;
    }

    private synchronized boolean lives(int which) {
        return which == life;
    }

    private void listen(ClientBuilder builder, int mine) {
        builder.onMessage(message -> {
            Map<String, Object> what = new LinkedHashMap<>();
            what.put("seq", message.place());
            what.put("id", Long.toUnsignedString(message.raw().getId()));
            what.put("from", message.sender());
            what.put("to", message.raw().getTo());
            what.put("text", message.text());
            what.put("client_id", Memory.hex(message.raw().getClientId()));
            say(mine, "message", what);
        });
        builder.onEvent(event ->
            say(mine, "event", Map.of("seq", event.getSeq(), "with", event.getWith())));
        builder.onSent(sent -> say(mine, "sent", Map.of("client_id", sent.clientId(),
            "id", Long.toUnsignedString(sent.id()), "seq", sent.seq())));
        builder.onFailed(failed -> say(mine, "failed",
            Map.of("client_id", failed.clientId(), "why", failed.error().code())));
        builder.onFrame(answer -> say(mine, "frame", Map.of("answer", answer)));
        builder.onState(state -> {
            Map<String, Object> what = new LinkedHashMap<>();
            what.put("state", state.name().toString().toLowerCase(Locale.ROOT));
            what.put("address", state.address());
            what.put("account", state.account());
            what.put("until", state.untilMs());
            what.put("why", state.why());
            what.put("detail", String.valueOf(state.fault()));
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

    private static String hex(byte[] bytes) {
        return Memory.hex(com.google.protobuf.ByteString.copyFrom(bytes));
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int at = 0; at < bytes.length; at++) {
            bytes[at] = (byte) Integer.parseInt(hex.substring(2 * at, 2 * at + 2), 16);
        }
        return bytes;
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
