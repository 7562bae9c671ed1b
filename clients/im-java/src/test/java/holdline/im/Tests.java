package holdline.im;

import dev.holdline.im.v1.ChatMessage;
import dev.holdline.im.v1.ClientFrame;
import dev.holdline.im.v1.Content;
import dev.holdline.im.v1.InboxEntry;
import dev.holdline.im.v1.LoggedIn;
import dev.holdline.im.v1.Reason;
import dev.holdline.im.v1.Refused;
import dev.holdline.im.v1.ServerFrame;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.CountDownLatch;

/** What the conformance suite does not see. A program: there is no test framework to fetch. */
public final class Tests {
    private interface Test {
        void run() throws Exception;
    }

    private static int passed;
    private static int failed;

    private Tests() {}

    /** Runs all; the last line is "N passed, N failed". */
    public static void main(String[] words) {
        test("a message is stored before it is sent", Tests::storedFirst);
        test("a handler that fails keeps its message", Tests::failingHandler);
        test("a lasting refusal ends the client", Tests::refusal);
        test("a file store keeps the record private", Tests::fileStore);
        test("a record of another account is not used", Tests::otherAccount);
        test("a damaged record is an error", Tests::damagedRecord);
        test("a damaged frame is a frame, a fault or incomplete", Tests::damagedFrames);
        test("arguments that cannot work are refused", Tests::arguments);
        test("secrets are not shown", Tests::secrets);
        System.out.println(passed + " passed, " + failed + " failed");
        System.exit(failed == 0 ? 0 : 1);
    }

    private static void test(String name, Test test) {
        try {
            test.run();
            passed++;
        } catch (Exception | AssertionError failure) {
            failed++;
            System.out.println("FAIL: " + name);
            failure.printStackTrace(System.out);
        }
    }

    private static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    /** A server that answers the first Login, and the requests that come then. */
    private static final class Script implements AutoCloseable {
        private final ServerSocket listener =
            new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        private Socket socket;

        Script() throws IOException {
            listener.setSoTimeout(60_000);
        }

        ClientBuilder builder() {
            return Client.builder("127.0.0.1:" + listener.getLocalPort(), "ann", "phone")
                .clock(new HandClock(0)).onMessage(message -> {});
        }

        void answer(ServerFrame... frames) throws IOException {
            socket = listener.accept();
            socket.setSoTimeout(60_000);
            for (int count = 0; count < Wire.PREFACE.length; count++) {
                check(socket.getInputStream().read() == (Wire.PREFACE[count] & 0xff), "preface");
            }
            check(next().hasLogin(), "a Login");
            for (ServerFrame frame : frames) {
                frame.writeDelimitedTo(socket.getOutputStream());
            }
        }

        ClientFrame next() throws IOException {
            InputStream in = socket.getInputStream();
            return ClientFrame.parseDelimitedFrom(in);
        }

        @Override
        public void close() throws IOException {
            listener.close();
            if (socket != null) {
                socket.close();
            }
        }
    }

    private static ServerFrame loggedIn() {
        return ServerFrame.newBuilder().setLoggedIn(LoggedIn.newBuilder()
            .setAccount("ann@a.example").setSilenceS(60).setPageMessagesMax(8)
            .setTextBytesMax(1_000).setExtraBytesMax(100).setRequestsMax(8)).build();
    }

    private static ServerFrame message(long place) {
        ChatMessage said = ChatMessage.newBuilder().setId(place).setSeq(place)
            .setFrom("bob@a.example").setTo("ann@a.example")
            .setContent(Content.newBuilder().setText("hi")).build();
        return ServerFrame.newBuilder().setMessage(
            InboxEntry.newBuilder().setSeq(place).setMessage(said)).build();
    }

    private static void storedFirst() throws Exception {
        List<String> order = Collections.synchronizedList(new ArrayList<>());
        Store store = new Store() {
            @Override
            public byte[] load() {
                return null;
            }

            @Override
            public void save(byte[] record) {
                order.add(new String(record, StandardCharsets.US_ASCII));
            }
        };
        try (Script script = new Script()) {
            Client client = script.builder().store(store).build();
            String id = client.send("bob", "hi");
            check(order.get(0).contains(id), "stored when it was given");
            client.start();
            script.answer(loggedIn());
            check(Memory.hex(script.next().getSend().getClientId()).equals(id), "sent then");
            client.kill();
        }
    }

    private static void failingHandler() throws Exception {
        File file = File.createTempFile("holdline", "im");
        check(file.delete(), "a new name");
        CountDownLatch seen = new CountDownLatch(2);
        try (Script script = new Script()) {
            Client client = script.builder().store(new FileStore(file)).onMessage(message -> {
                seen.countDown();
                if (message.place() == 2) {
                    throw new IOException("disk full");
                }
            }).build().start();
            script.answer(loggedIn(), message(1), message(2));
            seen.await();
            client.flush();
            client.close();
            check(client.await().why().equals("closed"), "closed");
        }
        String record = new String(Files.readAllBytes(file.toPath()), StandardCharsets.US_ASCII);
        check(record.contains("\nlast 1\n"), record);
        check(file.delete(), "it was there");
    }

    private static void refusal() throws Exception {
        try (Script script = new Script()) {
            Client client = script.builder().build().start();
            script.answer(ServerFrame.newBuilder().setRefused(
                Refused.newBuilder().setReason(Reason.REASON_NOT_AUTHORIZED)).build());
            State end = client.await();
            check(end.name() == State.Name.ENDED && end.why().equals("not_authorized"),
                end.toString());
        }
    }

    private static void fileStore() throws Exception {
        File file = File.createTempFile("holdline", "im");
        FileStore store = new FileStore(file);
        store.save(new byte[] {1});
        store.save(new byte[] {2});
        check(new FileStore(file).load()[0] == 2, "the last one");
        check(Files.getPosixFilePermissions(file.toPath()).size() == 2, "its owner's alone");
        check(file.delete(), "it was there");
    }

    private static Machine machine() {
        return new Machine(new Options(), null, () -> "nonce");
    }

    private static void otherAccount() throws Exception {
        Machine machine = machine();
        machine.outbox.add(new Outbox.Queued(Memory.clientId("0123456789abcdef0123456789abcdef"), "bob",
            Content.newBuilder().setText("hi").build()));
        machine.inbox.restore(7);
        byte[] record = Memory.write("ann", "phone", machine);
        for (String account : new String[] {"ann", "carol"}) {
            Machine read = machine();
            Memory.read(record, account, "phone", read);
            boolean isSame = account.equals("ann");
            check(read.inbox.done == (isSame ? 7 : -1)
                && read.outbox.queue.size() == (isSame ? 1 : 0),
                account);
        }
    }

    private static void damagedRecord() throws Exception {
        for (String bad : new String[] {"{", "holdline-im 1", "holdline-im 1\nof YW5u cGhvbmU=\nlast",
            "holdline-im 1\nof YW5u cGhvbmU=\nlast 1\nmessage x"}) {
            try {
                Memory.read(bad.getBytes(StandardCharsets.US_ASCII), "ann", "phone", machine());
                throw new AssertionError("read: " + bad);
            } catch (IOException damaged) {
                // As it should be.
            }
        }
    }

    private static void damagedFrames() throws Exception {
        Random source = new Random(1);
        int faults = 0;
        for (int round = 0; round < 20_000; round++) {
            java.io.ByteArrayOutputStream out = new java.io.ByteArrayOutputStream();
            (round % 2 == 0 ? loggedIn() : message(7)).writeDelimitedTo(out);
            byte[] data = out.toByteArray();
            for (int count = source.nextInt(3); count >= 0; count--) {
                data[source.nextInt(data.length)] = (byte) source.nextInt(256);
            }
            try {
                Wire.decode(data, 0, Wire.FRAME_BYTES_MAX);
            } catch (Wire.Fault fault) {
                faults++;
            }
        }
        check(faults > 1_000, "only " + faults);
    }

    private static void arguments() throws Exception {
        Test[] bad = {
            () -> Client.builder("nowhere", "ann", "phone"),
            () -> Client.builder("a:1", "", "phone"),
            () -> Client.builder("a:1", "ann", "d".repeat(65)),
            () -> Client.builder("a:1", "ann", "phone").build(),
            () -> Client.builder("a:1", "ann", "phone").proxy("ftp://x:1"),
            () -> Client.builder("a:1", "ann", "phone").onMessage(m -> {}).pins("sha256/x").build(),
            () -> Client.builder("a:1", "ann", "phone").onMessage(m -> {}).build()
                .send("beef", "bob", Content.getDefaultInstance()),
        };
        for (Test each : bad) {
            try {
                each.run();
                throw new AssertionError("accepted");
            } catch (IllegalArgumentException refused) {
                // As it should be.
            }
        }
    }

    private static void secrets() {
        check(!Credentials.password("hush").toString().contains("hush"), "a password");
    }
}
