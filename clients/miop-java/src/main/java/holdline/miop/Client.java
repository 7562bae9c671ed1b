package holdline.miop;

import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Consumer;
import java.util.function.LongConsumer;

/**
 * One device: it keeps a connection, comes back when it is lost, hands out each push once, and
 * acknowledges it when the application has it.
 *
 * <p>All methods may be called from any thread. {@link ClientBuilder} makes one.
 */
public final class Client implements AutoCloseable {
    /** Of this library. */
    public static final String VERSION = "0.1.0";

    /** Acknowledgements wait at most so long for those of pushes that are there already. */
    private static final long ACK_DELAY_MS = 100;

    /** Gets each push once. */
    @FunctionalInterface
    public interface PushHandler {
        /**
         * The push is acknowledged when this returns. After an exception the server sends it again,
         * and it is handed out again. One push is handed out at a time, in the order of arrival.
         */
        void handle(Push push) throws Exception;
    }

    /** Fetches the token for a connection; it may ask a server of the application for a new one. */
    @FunctionalInterface
    public interface TokenSource {
        /** The token that the API made for this device. */
        String token() throws IOException;
    }

    private static final SecureRandom RANDOM = new SecureRandom();

    private final Options options;
    private final Clock clock;
    private final Dialer dialer;
    private final Turns events = new Turns("miop-events");
    private final CountDownLatch over = new CountDownLatch(1);
    // Of the lock of this object:
    private final Machine machine;
    private Link link;
    private Dialer.Attempt attempt;
    private Exception fault; // of the last connection
    private State end;

    Client(Options options) throws IOException {
        this.options = options;
        clock = options.clock;
        dialer = new Dialer(options);
        Memory memory = new Memory(new Reports(options.random));
        memory.read(options.store.load(), options.identity());
        machine = new Machine(options, memory, new Outside());
    }

    /** A builder with what every client needs: {@code host:port} of a server, and names. */
    public static ClientBuilder builder(String address, String product, String device) {
        return new ClientBuilder(address, product, device);
    }

    /** Connects, and stays connected until {@link #close} or a final result of the server. */
    public Client start() {
        turn(machine::start);
        return this;
    }

    /** Waits for the end; its state says why. */
    public State await() throws InterruptedException {
        over.await();
        return end;
    }

    /**
     * Tells the server that the device leaves. It returns at once; {@link #await} returns after
     * five seconds at most.
     */
    @Override
    public void close() {
        turn(machine::stop);
    }

    /**
     * Drops everything without a word. The session and what was not acknowledged are there for the
     * next client with the same store.
     */
    public synchronized void kill() {
        machine.kill();
        if (attempt != null) {
            attempt.cancel();
        }
        if (link != null) {
            link.abort();
        }
        clock.wakeAt(0, null);
        ended(new State(State.Name.ENDED));
    }

    /** Acknowledges a push ({@link ClientBuilder#manualAck}) when the application has stored it. */
    public void acknowledge(long id) throws MiopException {
        settle(id, true);
    }

    /** Gives a push back: it is handed out again when the server sends it again. */
    public void reject(long id) throws MiopException {
        settle(id, false);
    }

    private synchronized void settle(long id, boolean has) throws MiopException {
        if (!machine.settle(id, has)) {
            throw new MiopException("unknown");
        }
        finishTurn();
    }

    /**
     * Sends bytes to the application's server. They wait for a connection, and outlive this process
     * if the store does. The client id that it returns comes back in
     * {@link ClientBuilder#onStored}.
     */
    public String report(byte[] body) throws MiopException {
        byte[] name = random(16);
        StringBuilder clientId = new StringBuilder();
        for (byte octet : name) {
            clientId.append(String.format("%02x", octet));
        }
        report(clientId.toString(), body);
        return clientId.toString();
    }

    /**
     * As above with a client id of the application's. One that waits already is not queued again,
     * so a call whose outcome is not known may be repeated.
     */
    public synchronized void report(String clientId, byte[] body) throws MiopException {
        machine.report(clock.nowMs(), body, clientId);
        finishTurn();
    }

    /**
     * Reports that the user opened a push: a Report with a client id of its own, so that it is
     * queued once. Returns the client id.
     */
    public String opened(long id) throws MiopException {
        return reportPush(1, "opened", id);
    }

    /** Reports that the user dismissed a push, likewise. */
    public String dismissed(long id) throws MiopException {
        return reportPush(2, "dismissed", id);
    }

    /** The form of MIOP 5.10. */
    private String reportPush(int what, String word, long id) throws MiopException {
        ByteBuffer body = ByteBuffer.allocate(15);
        body.put(new byte[] {0, 'm', 'i', 'o', 'p', 0, (byte) what}).putLong(id);
        String clientId = word + "-" + Long.toUnsignedString(id);
        report(clientId, body.array());
        return clientId;
    }

    /** Asks for up to {@code count} stored pushes; 0: as many as the server likes. */
    public synchronized void pull(int count) throws MiopException {
        machine.pull(clock.nowMs(), count);
        finishTurn();
    }

    /**
     * Says that the network is there again or that the device woke up: a client that waits connects
     * at once, and a connection that seems to be there has to prove it.
     */
    public void nudge() {
        turn(machine::nudge);
    }

    /** Says that the device is on another network now, in a word of the application's. */
    public void network(String name) {
        turn(now -> machine.onNetwork(now, name));
    }

    /**
     * Waits until callbacks that are due have returned, and what was decided was handed to the
     * system. It must not be called from a callback.
     */
    public void flush() throws InterruptedException {
        drain();
        events.await();
    }

    // ---- turns ----------------------------------------------------------------------------------

    /** Lets the machine do something, and then stores and sends what follows. */
    private synchronized void turn(LongConsumer what) {
        what.accept(clock.nowMs());
        finishTurn();
    }

    private void finishTurn() {
        machine.flush(clock.nowMs());
        arm();
    }

    private void arm() {
        long at = machine.wakeAt();
        if (at == Machine.NEVER) {
            clock.wakeAt(0, null);
        } else {
            clock.wakeAt(at, () -> turn(machine::tick));
        }
    }

    /**
     * Handles what has arrived, frame by frame. Pushes are handed out here, without the lock: while
     * the application works on one, nothing more is read, and heartbeats go on.
     */
    private void received(long conn, byte[] bytes) throws InterruptedException {
        turn(now -> machine.feed(now, conn, bytes));
        long since = clock.nowMs();
        for (;;) {
            Machine.Step step = nextStep(conn);
            if (step == null) {
                return;
            }
            List<Boolean> wanted = handOut(step.pushes);
            settled(step.pushes, wanted, since);
            if (options.onFrame != null) {
                drain();
                options.onFrame.accept(step.opcode);
            }
        }
    }

    private synchronized Machine.Step nextStep(long conn) {
        Machine.Step step = machine.step(clock.nowMs(), conn);
        boolean any = step != null && !step.pushes.isEmpty();
        machine.isHandling = any;
        if (step == null || !any && !machine.isPushNext()) {
            machine.flush(clock.nowMs());
        }
        arm();
        return step;
    }

    private List<Boolean> handOut(List<Push> pushes) {
        List<Boolean> wanted = new ArrayList<>();
        for (Push push : pushes) {
            boolean wants = true;
            try {
                options.onPush.handle(push);
            } catch (Exception rejected) {
                wants = false;
            }
            wanted.add(wants);
        }
        return wanted;
    }

    /** Acknowledgements may wait for those of pushes that are there already. */
    private synchronized void settled(List<Push> pushes, List<Boolean> wanted, long since) {
        machine.isHandling = false;
        for (int at = 0; at < pushes.size(); at++) {
            if (!wanted.get(at) || !options.isManual) {
                machine.settle(pushes.get(at).id(), wanted.get(at));
            }
        }
        boolean isLate = clock.nowMs() - since > ACK_DELAY_MS;
        if (isLate || options.onFrame != null || !machine.isPushNext()) {
            machine.flush(clock.nowMs());
        }
        arm();
    }

    /** The life of one connection, on a thread of its own. */
    private void live(Dialer.Attempt attempt, long conn) {
        Link made;
        String why = "credentials_failed";
        try {
            String token = options.token == null ? null : options.token.token();
            why = "connect_failed";
            made = adopt(attempt.open(), conn, token);
        } catch (IOException failed) {
            boolean isPinned = failed instanceof Dialer.PinMismatch;
            failed(conn, isPinned ? "pin_mismatch" : why, failed);
            return;
        }
        if (made == null) {
            return;
        }
        byte[] buffer = new byte[16 << 10];
        try {
            for (int count = made.read(buffer); count > 0; count = made.read(buffer)) {
                received(conn, java.util.Arrays.copyOf(buffer, count));
            }
        } catch (IOException | InterruptedException broken) {
            // As an end.
        }
        made.abort();
        turn(now -> machine.closed(now, conn, "lost"));
    }

    private synchronized void failed(long conn, String why, Exception failed) {
        if (machine.isConnecting(conn)) {
            fault = failed;
        }
        turn(now -> machine.closed(now, conn, why));
    }

    /** A connection that is there; null if it is not wanted any more. */
    private synchronized Link adopt(Socket socket, long conn, String token) throws IOException {
        // Behind a proxy every address is of another machine.
        boolean isLocal = options.proxy == null && socket.getInetAddress().isLoopbackAddress();
        if (token != null && options.tls == null && !isLocal) {
            socket.close(); // a server that redirects cannot make it show its token to a network
            failed(conn, "insecure", new IOException("a token needs TLS"));
            return null;
        }
        if (!machine.isConnecting(conn)) {
            socket.close();
            return null;
        }
        link = new Link(socket);
        machine.connected(clock.nowMs(), conn, token);
        finishTurn();
        return link;
    }

    private void drain() throws InterruptedException {
        Link current;
        synchronized (this) {
            current = link;
        }
        if (current != null) {
            current.drain();
        }
    }

    private void ended(State state) {
        end = state;
        events.close();
        clock.close();
        over.countDown();
    }

    private static byte[] random(int count) {
        byte[] bytes = new byte[count];
        RANDOM.nextBytes(bytes);
        return bytes;
    }

    /** What the machine calls, with the lock held. */
    private final class Outside implements Machine.Port {
        @Override
        public void connect(long conn, String address) {
            Dialer.Attempt made = dialer.attempt(address);
            attempt = made;
            fault = null;
            Thread thread = new Thread(() -> live(made, conn), "miop-connection");
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public void write(byte[] frame) {
            link.write(frame);
        }

        @Override
        public void disconnect() {
            if (attempt != null) {
                attempt.cancel();
                attempt = null;
            }
            if (link != null) {
                link.close();
            }
        }

        @Override
        public void state(State state) {
            if (state.name() == State.Name.WAITING) {
                state.fault = fault;
            }
            events.add(() -> options.onState.accept(state));
            if (state.name() == State.Name.ENDED) {
                ended(state);
            }
        }

        @Override
        public void stored(String clientId) {
            events.add(() -> options.onStored.accept(clientId));
        }

        @Override
        public void pulled(long remaining) {
            events.add(() -> options.onPulled.accept(remaining));
        }

        @Override
        public void save(byte[] record) throws IOException {
            options.store.save(record);
        }

        @Override
        public long wallMs() {
            return clock.wallMs();
        }

        @Override
        public byte[] nonce() {
            return random(16);
        }
    }
}
