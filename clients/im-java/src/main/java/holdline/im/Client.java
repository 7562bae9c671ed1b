package holdline.im;

import com.google.protobuf.ByteString;
import dev.holdline.im.v1.ChatMessage;
import dev.holdline.im.v1.ClientFrame;
import dev.holdline.im.v1.Content;
import dev.holdline.im.v1.History;
import dev.holdline.im.v1.HistoryPage;
import dev.holdline.im.v1.InboxEvent;
import dev.holdline.im.v1.LoginToken;
import dev.holdline.im.v1.MarkRead;
import dev.holdline.im.v1.ServerFrame;
import dev.holdline.im.v1.TokenRequest;
import java.io.IOException;
import java.net.Socket;
import java.security.SecureRandom;
import java.util.ArrayList;
import java.util.Base64;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.IntFunction;
import java.util.function.LongConsumer;

/**
 * One device of an account: it sends messages, follows its inbox, and comes back when its connection
 * is lost.
 *
 * <p>All methods may be called from any thread. {@link ClientBuilder} makes one.
 */
public final class Client implements AutoCloseable {
    /** Of this library. */
    public static final String VERSION = "0.1.0";

    /** With more of them waiting, nothing is read from the server. */
    private static final int CALLBACKS_MAX = 1_024;

    /** Gets each message once. */
    @FunctionalInterface
    public interface MessageHandler {
        /**
         * The message is acknowledged when this returns. After an exception it comes again in a new
         * process. One message is handed out at a time, in the order of the inbox.
         */
        void handle(Message message) throws Exception;
    }

    /** Fetches the proof for a connection; it may ask a server of the application for a new one. */
    @FunctionalInterface
    public interface CredentialsSource {
        /** The proof of the account. */
        Credentials credentials() throws IOException;
    }

    private static final SecureRandom RANDOM = new SecureRandom();

    private final Options options;
    private final Clock clock;
    private final Dialer dialer;
    private final Turns events = new Turns("im-events", this::settle);
    private final CountDownLatch over = new CountDownLatch(1);
    // Of the lock of this object:
    private final Machine machine;
    private final Map<Integer, CompletableFuture<ServerFrame>> asked = new HashMap<>();
    private final List<String> handled = new ArrayList<>();
    /** Places that the application has, since the last turn. */
    private List<Long> places = new ArrayList<>();
    private Link link;
    private Dialer.Attempt attempt;
    private Exception fault; // of the last connection
    private State end;

    Client(Options options) throws IOException {
        this.options = options;
        clock = options.clock;
        dialer = new Dialer(options);
        machine = new Machine(options, new Outside(), Client::nonce);
        Memory.read(options.store.load(), options.account, options.device, machine);
        machine.restored();
    }

    /**
     * A builder with what every client needs: {@code host:port} of a server, the account
     * ({@code name} or {@code name@domain}), and the device's own name, the same each time.
     */
    public static ClientBuilder builder(String address, String account, String device) {
        return new ClientBuilder(address, account, device);
    }

    /** Connects, and stays connected until {@link #close} or a lasting refusal of the server. */
    public Client start() {
        turn(machine::start);
        return this;
    }

    /** Waits for the end; its state says why. */
    public State await() throws InterruptedException {
        over.await();
        events.await();
        return end;
    }

    /** Says goodbye. Messages that are not sent yet stay in the store. */
    @Override
    public void close() {
        turn(machine::close);
    }

    /** Drops everything without a word. */
    public synchronized void kill() {
        machine.kill();
        if (attempt != null) {
            attempt.cancel();
        }
        if (link != null) {
            link.abort();
        }
        asked.values().forEach(answer ->
            answer.completeExceptionally(new ImException("disconnected")));
        asked.clear();
        clock.wakeAt(0, null);
        ended(new State(State.Name.ENDED));
    }

    /**
     * Says that the network is there again or that the device woke up: a client that waits connects
     * at once, and a connection that seems to be there has to prove it.
     */
    public void nudge() {
        turn(machine::nudge);
    }

    /**
     * Says that the device is on another network now, in a word of the application's: the heartbeat
     * that a network lets live is remembered for each.
     */
    public void network(String name) {
        turn(now -> machine.onNetwork(now, name));
    }

    // ---- messages -----------------------------------------------------------------------------

    /**
     * Queues a text to an account or a group and returns its client id, which comes back in
     * {@link ClientBuilder#onSent} or {@link ClientBuilder#onFailed}. Connections and restarts do
     * not matter, if the store outlives them. Fails with {@code queue_full}.
     */
    public String send(String to, String text) throws ImException {
        String clientId = clientId();
        send(clientId, to, Content.newBuilder().setKind(1).setText(text).build());
        return clientId;
    }

    /**
     * As above with a client id of the application's (32 hexadecimal digits) and any content. One
     * that waits already is not queued again, so a call whose outcome is not known may be repeated.
     */
    public synchronized void send(String clientId, String to, Content content) throws ImException {
        machine.send(new Outbox.Queued(Memory.clientId(clientId), to, content));
        finishTurn();
    }

    /** A new client id. */
    public static String clientId() {
        byte[] id = new byte[16];
        RANDOM.nextBytes(id);
        return Memory.hex(ByteString.copyFrom(id));
    }

    /**
     * Acknowledges a message or event by its place ({@link ClientBuilder#manualAck}), when the
     * application has stored it; false if it was acknowledged before.
     */
    public synchronized boolean acknowledge(long place) {
        boolean isHeld = machine.inbox.release(clock.nowMs(), place);
        finishTurn();
        return isHeld;
    }

    // ---- requests -----------------------------------------------------------------------------

    /**
     * Asks the server something; {@code request} makes the frame with the number that it is given.
     * The future has the frame that answers it, or an {@link ImException} with the server's word.
     * Requests are not queued: without a connection it is {@code disconnected}.
     */
    public synchronized CompletableFuture<ServerFrame> request(IntFunction<ClientFrame> request) {
        CompletableFuture<ServerFrame> answer = new CompletableFuture<>();
        try {
            asked.put(machine.request(clock.nowMs(), request), answer);
        } catch (ImException refused) {
            answer.completeExceptionally(refused);
        }
        finishTurn();
        return answer;
    }

    /** Says something that has no answer, such as a Transient; nothing without a connection. */
    public void tell(ClientFrame frame) {
        turn(now -> machine.tell(now, frame));
    }

    /**
     * At most {@code count} messages of a conversation before this place (0: the end), the newest
     * first, and whether there are more.
     */
    public CompletableFuture<HistoryPage> history(String peer, int count, long before) {
        History.Builder ask = History.newBuilder().setWith(peer).setCount(count).setFrom(before)
            .setBackwards(true);
        return request(number ->
            ClientFrame.newBuilder().setHistory(ask.setNumber(number)).build())
            .thenApply(ServerFrame::getHistory);
    }

    /** Messages of a page, the oldest first. */
    public static List<ChatMessage> oldestFirst(HistoryPage page) {
        List<ChatMessage> messages = new ArrayList<>(page.getMessagesList());
        Collections.reverse(messages);
        return messages;
    }

    /** The account has read a conversation up to this place. */
    public CompletableFuture<Void> markRead(String peer, long upto) {
        MarkRead.Builder ask = MarkRead.newBuilder().setWith(peer).setUpto(upto);
        return request(number ->
            ClientFrame.newBuilder().setMarkRead(ask.setNumber(number)).build())
            .thenApply(done -> null);
    }

    /** A token by which this device logs in without the password. */
    public CompletableFuture<LoginToken> requestToken() {
        return request(number -> ClientFrame.newBuilder()
            .setToken(TokenRequest.newBuilder().setNumber(number)).build())
            .thenApply(ServerFrame::getToken);
    }

    /**
     * Waits until callbacks that are due have returned, and what was decided was handed to the
     * system. It must not be called from a callback.
     */
    public void flush() throws InterruptedException {
        drain();
        events.await();
        drain();
    }

    // ---- turns --------------------------------------------------------------------------------

    /** Lets the machine do something, and then stores, sends and tells what follows. */
    private synchronized void turn(LongConsumer what) {
        what.accept(clock.nowMs());
        finishTurn();
    }

    private void finishTurn() {
        while (machine.flush(clock.nowMs()) || machine.wakeAt() <= clock.nowMs()) {
            machine.tick(clock.nowMs());
        }
        if (options.onFrame != null) {
            for (String answer : handled) {
                events.add(() -> options.onFrame.accept(answer));
            }
        }
        handled.clear();
        long at = machine.wakeAt();
        if (at == Machine.NEVER) {
            clock.wakeAt(0, null);
        } else {
            clock.wakeAt(at, () -> turn(machine::tick));
        }
    }

    /** A callback has handled the entry; {@link #settle} follows when no more are due. */
    private synchronized void has(long place) {
        places.add(place);
    }

    /** Acknowledges together what callbacks have handled. */
    private synchronized void settle() {
        if (!places.isEmpty()) {
            places.forEach(place -> machine.inbox.release(clock.nowMs(), place));
            places.clear();
            finishTurn();
        }
    }

    /** The life of one connection, on a thread of its own. */
    private void live(Dialer.Attempt mine) {
        Link made;
        String why = "credentials_failed";
        try {
            Credentials proof = options.credentials.credentials();
            why = "unreachable";
            made = adopt(mine, mine.open(), proof);
        } catch (Dialer.PinMismatch wrong) {
            lost(mine, "pin_mismatch", wrong);
            return;
        } catch (IOException failed) {
            lost(mine, why, failed);
            return;
        }
        if (made == null) {
            return;
        }
        byte[] buffer = new byte[16 << 10];
        try {
            for (int count = made.read(buffer); count > 0; count = made.read(buffer)) {
                received(mine, buffer, count);
                events.awaitBelow(CALLBACKS_MAX);
            }
        } catch (IOException | InterruptedException broken) {
            // As an end.
        }
        made.abort();
        lost(mine, "disconnected", null);
    }

    private synchronized void received(Dialer.Attempt mine, byte[] bytes, int count) {
        if (mine == attempt) {
            turn(now -> machine.received(now, bytes, count));
        }
    }

    private synchronized void lost(Dialer.Attempt mine, String why, Exception failed) {
        if (mine == attempt) {
            fault = failed;
            turn(now -> machine.lost(now, why));
        }
    }

    /** A connection that is there; null if it is not wanted any more. */
    private synchronized Link adopt(Dialer.Attempt mine, Socket socket, Credentials proof)
            throws IOException {
        // Behind a proxy every address is of another machine.
        boolean isLocal = options.proxy == null && socket.getInetAddress().isLoopbackAddress();
        boolean isSafe = options.tls != null || isLocal;
        if (mine != attempt) {
            socket.close();
            return null;
        }
        if (proof.isToken() && !isSafe) {
            // A server that names another one cannot make it show its token to a network.
            socket.close();
            fault = new IOException("a token needs TLS");
            turn(now -> machine.lost(now, "insecure"));
            return null;
        }
        link = new Link(socket);
        machine.connected(clock.nowMs(), proof, isSafe);
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
        attempt = null;
        events.close();
        clock.close();
        over.countDown();
    }

    private static String nonce() {
        byte[] bytes = new byte[18];
        RANDOM.nextBytes(bytes);
        return Base64.getEncoder().encodeToString(bytes);
    }

    /** What the machine calls, with the lock held. */
    private final class Outside implements Machine.Port {
        @Override
        public void connect(String address) {
            Dialer.Attempt made = dialer.attempt(address);
            attempt = made;
            fault = null;
            Thread thread = new Thread(() -> live(made), "im-connection");
            thread.setDaemon(true);
            thread.start();
        }

        @Override
        public void disconnect() {
            attempt.cancel();
            attempt = null;
            if (link != null) {
                link.close();
            }
        }

        @Override
        public void write(byte[] bytes) {
            link.write(bytes);
        }

        @Override
        public void save(byte[] record) {
            try {
                options.store.save(record);
            } catch (IOException failed) {
                events.add(() -> options.onStoreError.accept(failed));
            }
        }

        @Override
        public void message(Message message) {
            events.add(() -> {
                try {
                    options.onMessage.handle(message);
                } catch (Exception failed) {
                    return;
                }
                if (!options.isManual) {
                    has(message.place());
                }
            });
        }

        @Override
        public void event(InboxEvent event) {
            events.add(() -> {
                if (options.onEvent != null) {
                    options.onEvent.accept(event);
                }
                if (options.onEvent == null || !options.isManual) {
                    has(event.getSeq());
                }
            });
        }

        @Override
        public void sent(Sent sent) {
            events.add(() -> options.onSent.accept(sent));
        }

        @Override
        public void failed(Failed failed) {
            events.add(() -> options.onFailed.accept(failed));
        }

        @Override
        public void answer(int number, ServerFrame frame, ImException error) {
            CompletableFuture<ServerFrame> answer = asked.remove(number);
            if (answer == null) {
                return;
            }
            events.add(() -> {
                if (error == null) {
                    answer.complete(frame);
                } else {
                    answer.completeExceptionally(error);
                }
            });
        }

        @Override
        public void told(ServerFrame frame) {
            events.add(() -> options.onTold.accept(frame));
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
        public void handled(String answer) {
            handled.add(answer);
        }
    }
}
