package holdline.miop;

import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/** What the conformance suite does not see. A program, because the library has no dependencies. */
public final class Tests {
    private interface Test {
        void run() throws Exception;
    }

    private static int passed;
    private static int failed;

    private Tests() {}

    /** Runs all; the last line is "N passed, N failed". */
    public static void main(String[] words) {
        test("a push is not acknowledged before its id is stored", Tests::storedFirst);
        test("heartbeats go on while a handler works", Tests::slowHandler);
        test("a handler that fails gets the push again", Tests::failingHandler);
        test("close unbinds and await returns", Tests::closing);
        test("a final result ends the client", Tests::finalResult);
        test("a file store keeps the record private", Tests::fileStore);
        test("a record of another device is not used", Tests::otherDevice);
        test("a damaged record is an error", Tests::damaged);
        test("numbers of Reports wrap", Tests::wrapping);
        test("a Report that is too large for this server waits, and the next one is sent",
            Tests::tooLargeHere);
        test("arguments that cannot work are refused", Tests::arguments);
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

    static void check(boolean holds, String otherwise) {
        if (!holds) {
            throw new AssertionError(otherwise);
        }
    }

    private static void storedFirst() throws Exception {
        AtomicBoolean fails = new AtomicBoolean();
        CountDownLatch tried = new CountDownLatch(1);
        CountDownLatch bound = new CountDownLatch(1);
        Store store = new Store() {
            @Override
            public byte[] load() {
                return null;
            }

            @Override
            public void save(byte[] record) throws IOException {
                if (fails.get()) {
                    tried.countDown();
                    throw new IOException("disk full");
                }
            }
        };
        try (Script script = new Script(builder -> builder.store(store).onState(state -> {
            if (state.name() == State.Name.BOUND) {
                bound.countDown();
            }
        }))) {
            script.bind();
            bound.await();
            script.client.flush();
            fails.set(true);
            script.push(7);
            tried.await();
            script.client.nudge();
            script.expect(Frame.PING); // and no acknowledgement before it
            fails.set(false);
            script.client.nudge(); // any turn tries again
            Frame frame = script.next();
            if (frame.opcode == Frame.PING) {
                frame = script.next();
            }
            check(frame.opcode == Frame.MSG_ACK && frame.payload[7] == 7, "the push");
        }
    }

    private static void slowHandler() throws Exception {
        CountDownLatch working = new CountDownLatch(1);
        CountDownLatch finish = new CountDownLatch(1);
        try (Script script = new Script(builder -> builder.onPush(push -> {
            working.countDown();
            finish.await();
        }))) {
            script.bind();
            script.push(1);
            working.await();
            script.clock.set(script.clock.next());
            script.expect(Frame.PING);
            script.send(new Frame(Frame.PONG)); // unread, for the handler works
            script.clock.set(script.clock.next()); // the answer would be due now
            finish.countDown();
            script.expect(Frame.MSG_ACK);
        }
    }

    private static void failingHandler() throws Exception {
        AtomicInteger count = new AtomicInteger();
        try (Script script = new Script(builder -> builder.onPush(push -> {
            if (count.incrementAndGet() == 1) {
                throw new IOException("not now");
            }
        }))) {
            script.bind();
            script.push(1);
            script.push(1);
            script.expect(Frame.MSG_ACK);
            check(count.get() == 2, "handed out " + count + " times");
        }
    }

    private static void closing() throws Exception {
        try (Script script = new Script(builder -> {})) {
            script.bind();
            script.push(1);
            script.expect(Frame.MSG_ACK);
            script.client.close();
            script.expect(Frame.UNBIND);
            script.send(new Frame(Frame.UNBIND_ACK));
            check(script.client.await().why().equals("closed"), "why");
        }
    }

    private static void finalResult() throws Exception {
        try (Script script = new Script(builder -> {})) {
            script.bind();
            script.push(1);
            script.expect(Frame.MSG_ACK);
            script.send(new Frame(Frame.KICK,
                new Properties().add(Properties.RESULT, Result.REPLACED)));
            check(script.client.await().result() == Result.REPLACED, "the result");
        }
    }

    private static void fileStore() throws Exception {
        File folder = Files.createTempDirectory("miop").toFile();
        File file = new File(folder, "state");
        FileStore store = new FileStore(file);
        check(store.load() == null, "nothing is there yet");
        store.save("one".getBytes(StandardCharsets.US_ASCII));
        store.save("two".getBytes(StandardCharsets.US_ASCII));
        check(new String(store.load(), StandardCharsets.US_ASCII).equals("two"), "the newest");
        check(folder.list().length == 1, "nothing else is left");
        String mode = Files.getPosixFilePermissions(file.toPath()).toString();
        check(!mode.contains("GROUP") && !mode.contains("OTHERS"), mode);
        check(file.delete() && folder.delete(), "the test cleans up");
    }

    private static Memory memory() {
        return new Memory(new Reports(() -> 0.5));
    }

    private static void otherDevice() throws Exception {
        Memory memory = memory();
        memory.see(-1);
        memory.epoch = 9;
        memory.token = new byte[32];
        memory.network("home").now = 90;
        memory.reports.queue(new byte[] {1}, "a b\n", 1_000);
        byte[] record = memory.write("demo a");
        Memory same = memory();
        same.read(record, "demo a");
        check(same.hasSeen(-1) && same.epoch == 9 && same.network("home").now == 90, "all of it");
        check(same.reports.nextSeq == 2 && same.reports.waiting.get(0).clientId.equals("a b\n"),
            "the Report");
        Memory other = memory();
        other.read(record, "demo b");
        check(!other.hasSeen(-1) && other.token == null && other.reports.nextSeq == 1, "nothing");
    }

    private static void damaged() {
        for (String record : new String[] {"{", "holdline-miop 2 p d\n", "holdline-miop 1 p d\nx\n",
            "holdline-miop 1 p d\nsession 1\n", "holdline-miop 1 p d\nreport 1 ! !\n"}) {
            try {
                memory().read(record.getBytes(StandardCharsets.US_ASCII), "p d");
            } catch (IOException expected) {
                continue;
            }
            throw new AssertionError("accepted: " + record);
        }
    }

    private static void wrapping() {
        check(Reports.seqAfter(1) == 2, "the next");
        check(Reports.seqAfter(-1) == 1, "the first again");
    }

    private static void tooLargeHere() throws Exception {
        Reports reports = new Reports(() -> 0.5);
        reports.queue(new byte[5_000], "a", 65_536);
        reports.queue(new byte[5], "b", 65_536);
        check(reports.next(0, 4_096).seq == 2, "the second");
        check(reports.next(0, 4_096) == null, "not the first");
        check(reports.next(0, 65_536).seq == 1, "elsewhere the first");
    }

    private static void arguments() throws Exception {
        Client.builder("push.example:7000", "p", "d").onPush(push -> {}).build();
        Runnable[] wrong = {
            () -> Client.builder("push.example", "p", "d"),
            () -> Client.builder("push.example:7000", "two words", "d"),
            () -> Client.builder("push.example:7000", "p", "d".repeat(65)),
            () -> good().tags(java.util.List.of("")),
            () -> good().pins("sha1/AAAA"),
            () -> good().proxy("ftp://proxy:1"),
            () -> good().heartbeat(60, 30, 90),
            () -> good().window(0),
            () -> build(good().onPush(null)),
            () -> build(good().token(() -> "t")),
            () -> build(Client.builder("127.0.0.1:1", "demo", "dev-1").onPush(push -> {})
                .token(() -> "t").proxy("socks5://127.0.0.1:2")),
            () -> build(good().pins("sha256/AAAA")),
        };
        for (int at = 0; at < wrong.length; at++) {
            try {
                wrong[at].run();
            } catch (IllegalArgumentException expected) {
                continue;
            }
            throw new AssertionError("accepted: number " + at);
        }
    }

    private static ClientBuilder good() {
        return Client.builder("push.example:7000", "p", "d").onPush(push -> {});
    }

    private static void build(ClientBuilder builder) {
        try {
            builder.build();
        } catch (IOException unexpected) {
            throw new AssertionError(unexpected);
        }
    }
}
