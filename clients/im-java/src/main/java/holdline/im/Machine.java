package holdline.im;

import com.google.protobuf.ByteString;
import dev.holdline.im.v1.Acknowledge;
import dev.holdline.im.v1.ChatMessage;
import dev.holdline.im.v1.ClientFrame;
import dev.holdline.im.v1.Failed;
import dev.holdline.im.v1.Goodbye;
import dev.holdline.im.v1.InboxEntry;
import dev.holdline.im.v1.InboxEvent;
import dev.holdline.im.v1.InboxPage;
import dev.holdline.im.v1.LoggedIn;
import dev.holdline.im.v1.Login;
import dev.holdline.im.v1.Ping;
import dev.holdline.im.v1.Proceed;
import dev.holdline.im.v1.Pull;
import dev.holdline.im.v1.Reason;
import dev.holdline.im.v1.Send;
import dev.holdline.im.v1.ServerFrame;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.IntFunction;
import java.util.function.Supplier;

/**
 * One device of an account: what happens and the time go in, actions come out. It knows no socket,
 * timer, disk or thread.
 *
 * <pre>
 * IDLE -> OPENING -> LOGIN -> ONLINE -> WAITING -> OPENING ...
 *                                    -> ENDED
 * </pre>
 */
final class Machine {
    static final long NEVER = Inbox.NEVER;
    /** For a connection and the login. */
    private static final long CONNECT_MS = 20_000;
    /** How long a server may take to say anything when it was asked. */
    private static final long ANSWER_MS = 30_000;
    /** The same after a nudge: the connection is likely to be dead. */
    private static final long PROBE_MS = 10_000;
    /** A Ping that is later than this tests no interval: the device slept. */
    private static final long LATE_MS = 30_000;
    /** Requests under way at once, if the server allows as many. */
    private static final int WINDOW_MAX = 64;
    /** Ends with the name of another server that are followed without a wait. */
    private static final int FOLLOWED_MAX = 3;
    /** Client ids of own messages that were told, and may still be pulled. */
    private static final int OWN_TOLD_MAX = 1_024;
    /** If the server names none. */
    private static final int SILENCE_S = 60;
    /** Of the interval between signs of life. */
    private static final int SHORTEST_S = 30;
    private static final int FIRST_S = 120;
    private static final int LONGEST_S = 1_800;
    /** The number of pulls; no other request has it. */
    private static final int PULL_NUMBER = -1;

    private enum Phase { IDLE, OPENING, LOGIN, ONLINE, WAITING, ENDED }

    /** Actions that a machine asks of the client, besides the reports State, Sent and Failed. */
    interface Port {
        void connect(String address);

        void disconnect();

        void write(byte[] bytes);

        void save(byte[] record);

        void message(Message message);

        void event(InboxEvent event);

        void sent(Sent sent);

        void failed(holdline.im.Failed failed);

        /** Of a request; one of the two is null. */
        void answer(int number, ServerFrame frame, ImException error);

        void told(ServerFrame frame);

        void state(State state);

        void handled(String answer);
    }

    private final Options options;
    private final Port port;
    private final Supplier<String> nonce;
    final Inbox inbox = new Inbox();
    final Outbox outbox = new Outbox();
    final Heartbeat heartbeat = new Heartbeat(SHORTEST_S, FIRST_S, LONGEST_S);
    private final Backoff backoff;
    /** What happened, and what is to be said then: the state is stored between the two. */
    private final List<Runnable> happened = new ArrayList<>();
    private final List<Runnable> said = new ArrayList<>();
    private final Set<Integer> asked = new HashSet<>();
    private final Set<ByteString> ownTold = new LinkedHashSet<>();
    private final Deque<String> named = new ArrayDeque<>();
    private Phase phase = Phase.IDLE;
    private byte[] data = new byte[0];
    private boolean showsPassword;
    private Scram scram;
    private byte[] expected;
    private boolean isSafe;
    private LoggedIn limits;
    private String domain = "";
    private long since;
    private long saidAt;
    private long heardAt;
    private int attempts;
    /** The silence before the Ping that is not answered yet; 0: it tests nothing. */
    private int testedS;
    private long due = NEVER;
    private long dead = NEVER;
    private long notBefore;
    private int number;
    private int turn;
    private int followed;
    private String address = "";
    private long savedDone = -1;
    private long savedVersion;
    private String savedHeartbeat = heartbeat.state();

    Machine(Options options, Port port, Supplier<String> nonce) {
        this.options = options;
        this.port = port;
        this.nonce = nonce;
        backoff = new Backoff(options.random);
    }

    /** What was restored is stored. */
    void restored() {
        savedDone = inbox.done;
        savedVersion = outbox.version;
        savedHeartbeat = heartbeat.state();
    }

    // ---- orders -------------------------------------------------------------------------------

    void start(long now) {
        if (phase == Phase.IDLE) {
            open(now);
        }
    }

    void close(long now) {
        if (phase == Phase.ENDED) {
            return;
        }
        if (phase == Phase.ONLINE) {
            say(now, ClientFrame.newBuilder().setGoodbye(Goodbye.getDefaultInstance()).build(),
                false);
        }
        end("closed");
    }

    /** As the end of the process. */
    void kill() {
        phase = Phase.ENDED;
        due = NEVER;
        happened.clear();
        said.clear();
    }

    void nudge(long now) {
        if (phase == Phase.WAITING && now >= notBefore) {
            open(now);
        } else if (phase == Phase.ONLINE) {
            ping(now);
            dead = Math.min(dead, now + PROBE_MS);
        }
    }

    /** The device is on another network now. */
    void onNetwork(long now, String name) {
        heartbeat.use(name);
        testedS = 0;
        nudge(now);
    }

    void send(Outbox.Queued message) throws ImException {
        outbox.add(message);
        giveUpLarge();
    }

    /** Asks something; the answer has the number that is returned. */
    int request(long now, IntFunction<ClientFrame> request) throws ImException {
        if (phase != Phase.ONLINE) {
            throw new ImException("disconnected");
        }
        if (asked.size() >= window()) {
            throw new ImException("queue_full");
        }
        int mine = takeNumber();
        ClientFrame frame = request.apply(mine);
        asked.add(mine);
        say(now, frame, true);
        return mine;
    }

    void tell(long now, ClientFrame frame) {
        if (phase == Phase.ONLINE) {
            say(now, frame, false);
        }
    }

    // ---- the connection -----------------------------------------------------------------------

    void connected(long now, Credentials with, boolean isSafe) {
        phase = Phase.LOGIN;
        this.isSafe = isSafe;
        scram = null;
        expected = null;
        String name = options.account.split("@", 2)[0];
        Login.Builder login = Login.newBuilder().setName(options.account)
            .setDevice(options.device).setSilenceS(options.silenceS);
        if (with.loginToken != null) {
            Scram.Proof proof = Scram.hashedToken(name, with.loginToken);
            expected = proof.expected;
            login.setMethod(Scram.TOKEN_METHOD).setData(ByteString.copyFrom(proof.data));
        } else if (with.token != null) {
            login.setPassword(ByteString.copyFromUtf8(with.token));
        } else if (with.password != null && showsPassword) {
            login.setPassword(ByteString.copyFromUtf8(with.password));
        } else if (with.password != null) {
            scram = new Scram(name, with.password, nonce.get());
            login.setMethod(Scram.METHOD).setData(ByteString.copyFrom(scram.first()));
        }
        said.add(() -> port.write(Wire.PREFACE));
        say(now, ClientFrame.newBuilder().setLogin(login).build(), false);
    }

    void received(long now, byte[] bytes, int count) {
        int before = data.length;
        data = Arrays.copyOf(data, before + count);
        System.arraycopy(bytes, 0, data, before, count);
        dead = NEVER;
        heardAt = now;
        if (testedS > 0) {
            heartbeat.lived(testedS);
            testedS = 0;
        }
        int bytesMax = Wire.FRAME_BYTES_MAX;
        if (limits != null) {
            int content = limits.getTextBytesMax() + limits.getExtraBytesMax();
            bytesMax = Math.max(bytesMax, content + Wire.BESIDE_CONTENT_BYTES);
        }
        int at = 0;
        try {
            while (phase == Phase.LOGIN || phase == Phase.ONLINE) {
                Wire.Found found = Wire.decode(data, at, bytesMax);
                if (found == null) {
                    break;
                }
                at = found.end;
                ServerFrame.AnswerCase answer = found.frame.getAnswerCase();
                if (answer != ServerFrame.AnswerCase.ANSWER_NOT_SET) {
                    take(now, found.frame);
                    String name = answer.name().toLowerCase(Locale.ROOT);
                    happened.add(() -> port.handled(name));
                }
            }
        } catch (Wire.Fault fault) {
            lose(now, "server_malformed", 0);
            return;
        }
        // A new connection has begun without any.
        if (at <= data.length) {
            data = Arrays.copyOfRange(data, at, data.length);
        }
    }

    void lost(long now, String why) {
        if (phase == Phase.OPENING || phase == Phase.LOGIN || phase == Phase.ONLINE) {
            lose(now, why, 0);
        }
    }

    // ---- time ---------------------------------------------------------------------------------

    long wakeAt() {
        if (phase != Phase.ONLINE) {
            return due;
        }
        return Math.min(Math.min(dead, pingAt()), Math.min(inbox.due(), outbox.due()));
    }

    void tick(long now) {
        if (phase != Phase.ONLINE) {
            if (now >= due && phase == Phase.WAITING) {
                open(now);
            } else if (now >= due) {
                lose(now, "timed_out", 0);
            }
        } else if (now >= dead) {
            lose(now, "timed_out", 0);
        } else if (now >= pingAt()) {
            int silence = (int) ((now - Math.max(saidAt, heardAt)) / 1_000);
            boolean tests = silence >= heartbeat.interval() && now < pingAt() + LATE_MS;
            ping(now);
            testedS = tests ? silence : 0;
        }
    }

    /** After silence, and in any case before the server has heard nothing for its time. */
    private long pingAt() {
        long silent = Math.max(saidAt, heardAt) + heartbeat.interval() * 1_000L;
        return Math.min(silent, saidAt + heartbeat.agreed * 1_000L);
    }

    /** Tells what happened, stores the state, and says what follows from both; true if any. */
    boolean flush(long now) {
        if (phase == Phase.ONLINE) {
            pump(now);
        }
        boolean isAny = !happened.isEmpty() || !said.isEmpty();
        if (inbox.done != savedDone || outbox.version != savedVersion
            || !heartbeat.state().equals(savedHeartbeat)) {
            restored();
            port.save(Memory.write(options.account, options.device, this));
        }
        List<Runnable> all = new ArrayList<>(happened);
        all.addAll(said);
        happened.clear();
        said.clear();
        all.forEach(Runnable::run);
        return isAny;
    }

    // ---- frames -------------------------------------------------------------------------------

    private void take(long now, ServerFrame frame) throws Wire.Fault {
        if (frame.hasEnd()) {
            farewell(now, frame.getEnd().getReason(), frame.getEnd().getServer(),
                frame.getEnd().getRetryAfterMs());
            return;
        }
        if (phase == Phase.LOGIN) {
            takeInLogin(now, frame);
            return;
        }
        int mine = Numbers.of(frame);
        switch (frame.getAnswerCase()) {
            case LOGGED_IN:
            case CHALLENGE:
            case REFUSED:
                throw new Wire.Fault("out_of_order");
            case MESSAGE:
                if (inbox.comes(frame.getMessage().getSeq())) {
                    handOut(frame.getMessage());
                }
                break;
            case EVENT:
                if (inbox.comes(frame.getEvent().getSeq())) {
                    handOut(frame.getEvent());
                }
                break;
            case NOTIFY:
                inbox.notify(frame.getNotify().getHead());
                break;
            case PONG:
                break;
            default:
                takeAnswer(now, mine, frame);
        }
        inbox.advance(now);
    }

    private void takeAnswer(long now, int mine, ServerFrame frame) {
        if (frame.hasPage() && mine == PULL_NUMBER) {
            takePage(frame.getPage());
        } else if (asked.remove(mine)) {
            Failed failed = frame.getFailed();
            ImException error = frame.hasFailed()
                ? new ImException(Words.of(failed.getFault()), failed.getReason()) : null;
            happened.add(() -> port.answer(mine, error == null ? frame : null, error));
        } else if (frame.hasSent()) {
            stored(mine, frame.getSent());
        } else if (frame.hasFailed()) {
            failed(now, frame.getFailed());
        } else {
            happened.add(() -> port.told(frame));
        }
    }

    private void takeInLogin(long now, ServerFrame frame) throws Wire.Fault {
        switch (frame.getAnswerCase()) {
            case LOGGED_IN:
                loggedIn(now, frame.getLoggedIn());
                break;
            case CHALLENGE:
                byte[] challenge = frame.getChallenge().getData().toByteArray();
                Scram.Proof proof = scram == null ? null : scram.answer(challenge);
                if (proof == null) {
                    end("server_not_proved");
                    return;
                }
                expected = proof.expected;
                Proceed proceed =
                    Proceed.newBuilder().setData(ByteString.copyFrom(proof.data)).build();
                say(now, ClientFrame.newBuilder().setProceed(proceed).build(), false);
                break;
            case REFUSED:
                farewell(now, frame.getRefused().getReason(), frame.getRefused().getServer(),
                    frame.getRefused().getRetryAfterMs());
                break;
            default:
                throw new Wire.Fault("out_of_order");
        }
    }

    private void loggedIn(long now, LoggedIn terms) {
        boolean mustProve = scram != null || expected != null;
        if (mustProve && (expected == null
            || !Arrays.equals(expected, terms.getData().toByteArray()))) {
            end("server_not_proved");
            return;
        }
        phase = Phase.ONLINE;
        since = now;
        limits = terms;
        due = NEVER;
        followed = 0;
        named.clear();
        heardAt = now;
        heartbeat.agreed = terms.getSilenceS() == 0 ? SILENCE_S : terms.getSilenceS();
        heartbeat.bound(attempts == 1);
        attempts = 0;
        domain = terms.getAccount().substring(terms.getAccount().indexOf('@') + 1);
        inbox.begin(terms.getCursor(), terms.getHead());
        State state = new State(State.Name.ONLINE);
        state.account = terms.getAccount();
        happened.add(() -> port.state(state));
        giveUpLarge();
    }

    private void takePage(InboxPage page) {
        TreeMap<Long, Runnable> all = new TreeMap<>();
        page.getEntriesList().forEach(it -> all.put(it.getSeq(), () -> handOut(it)));
        page.getEventsList().forEach(it -> all.put(it.getSeq(), () -> handOut(it)));
        all.tailMap(inbox.last, false).values().forEach(Runnable::run);
        inbox.page(page.getUpto(), page.getHead());
    }

    private void handOut(InboxEntry entry) {
        if (!isOwn(entry.getMessage())) {
            inbox.hold(entry.getSeq());
            Message message = new Message(entry, limits.getAccount());
            happened.add(() -> port.message(message));
        }
    }

    private void handOut(InboxEvent event) {
        inbox.hold(event.getSeq());
        happened.add(() -> port.event(event));
    }

    /** This device sent it, and it was told when it was stored, or is now. */
    private boolean isOwn(ChatMessage message) {
        if (!message.getFrom().equals(limits.getAccount())) {
            return false;
        }
        if (ownTold.contains(message.getClientId())) {
            return true;
        }
        Outbox.Queued it = outbox.take(message.getClientId());
        if (it != null) {
            tellSent(it, message.getId(), message.getSeq(), message.getAtMs());
        }
        return it != null;
    }

    private void stored(int mine, dev.holdline.im.v1.Sent sent) {
        Outbox.Queued it = outbox.answered(mine);
        if (it == null) {
            return;
        }
        // A chatroom's messages are in no inbox.
        if (!sent.getAgain() && !it.to.contains("@live.")) {
            inbox.sentOwn();
        }
        tellSent(it, sent.getId(), sent.getSeq(), sent.getAtMs());
    }

    private void tellSent(Outbox.Queued it, long id, long seq, long atMs) {
        ownTold.add(it.clientId);
        if (ownTold.size() > OWN_TOLD_MAX) {
            ownTold.remove(ownTold.iterator().next());
        }
        Sent told = new Sent(Memory.hex(it.clientId), it.to, id, seq, atMs);
        happened.add(() -> port.sent(told));
    }

    private void failed(long now, Failed it) {
        String code = Words.of(it.getFault());
        if (it.getNumber() == PULL_NUMBER) {
            inbox.pullFailed(now);
        } else if (Words.PASSING.contains(code)) {
            outbox.refused(now, it.getNumber(), Integer.toUnsignedLong(it.getRetryAfterMs()));
        } else {
            giveUp(outbox.answered(it.getNumber()), new ImException(code, it.getReason()));
        }
    }

    private void giveUp(Outbox.Queued it, ImException error) {
        if (it != null) {
            holdline.im.Failed told = new holdline.im.Failed(Memory.hex(it.clientId), it.to, error);
            happened.add(() -> port.failed(told));
        }
    }

    /** Gives up what is larger than the server takes. */
    private void giveUpLarge() {
        if (limits == null) {
            return;
        }
        for (Outbox.Queued it : new ArrayList<>(outbox.queue)) {
            if (it.textBytes > limits.getTextBytesMax()
                || it.content.getExtra().size() > limits.getExtraBytesMax()) {
                giveUp(outbox.take(it.clientId), new ImException("too_large"));
            }
        }
    }

    // ---- what is to be said -------------------------------------------------------------------

    private int window() {
        // One of them is the pull's.
        return Math.max(1, Math.min(WINDOW_MAX, limits.getRequestsMax() - 1));
    }

    private void pump(long now) {
        long upto = inbox.acknowledgement(now);
        if (upto >= 0) {
            Acknowledge it = Acknowledge.newBuilder().setUpto(upto).build();
            say(now, ClientFrame.newBuilder().setAcknowledge(it).build(), false);
        }
        long after = inbox.pull(now);
        if (after >= 0) {
            Pull it = Pull.newBuilder().setNumber(PULL_NUMBER).setAfter(after)
                .setCount(Math.max(1, limits.getPageMessagesMax())).build();
            say(now, ClientFrame.newBuilder().setPull(it).build(), true);
        }
        int window = Math.max(1, window() - asked.size());
        for (Outbox.Queued it = outbox.next(now, domain, window); it != null;
            it = outbox.next(now, domain, window)) {
            int mine = takeNumber();
            outbox.sent(mine, it);
            Send send = Send.newBuilder().setNumber(mine).setTo(it.to).setClientId(it.clientId)
                .setContent(it.content).build();
            say(now, ClientFrame.newBuilder().setSend(send).build(), true);
        }
    }

    private void ping(long now) {
        say(now, ClientFrame.newBuilder().setPing(Ping.getDefaultInstance()).build(), true);
    }

    private void say(long now, ClientFrame frame, boolean asks) {
        saidAt = now;
        if (asks) {
            dead = Math.min(dead, now + ANSWER_MS);
        }
        byte[] bytes = Wire.encode(frame);
        said.add(() -> port.write(bytes));
    }

    private int takeNumber() {
        number = number % Integer.MAX_VALUE + 1;
        return number;
    }

    // ---- connections --------------------------------------------------------------------------

    private void open(long now) {
        address = named.isEmpty()
            ? options.addresses.get(turn++ % options.addresses.size()) : named.poll();
        attempts++;
        phase = Phase.OPENING;
        due = now + CONNECT_MS;
        data = new byte[0];
        State state = new State(State.Name.CONNECTING);
        state.address = address;
        String to = address;
        said.add(() -> port.state(state));
        said.add(() -> port.connect(to));
    }

    private void farewell(long now, Reason reason, String server, int retryAfterMs) {
        String why = Words.of(reason);
        long hintMs = Integer.toUnsignedLong(retryAfterMs);
        if (why.equals("bad_method") && scram != null && isSafe) {
            // The server knows no SCRAM: the password is shown over TLS, or to this machine.
            showsPassword = true;
            leave(Phase.WAITING);
            named.addFirst(address);
            open(now);
        } else if (why.equals("expired") && options.renews) {
            lose(now, why, hintMs);
        } else if (Words.LASTING.contains(why)) {
            end(why);
        } else if ((why.equals("use_another") || why.equals("moved")) && !server.isEmpty()) {
            named.add(server);
            if (hintMs == 0 && followed < FOLLOWED_MAX) {
                followed++;
                leave(Phase.WAITING);
                open(now);
            } else {
                lose(now, why, hintMs);
            }
        } else {
            lose(now, why, hintMs);
        }
    }

    private void lose(long now, String why, long hint) {
        if (phase == Phase.ONLINE) {
            heartbeat.suspect(testedS);
            testedS = 0;
            if (now - since >= Backoff.GOOD_SESSION_MS) {
                backoff.reset();
            }
        }
        long hintMs = Math.min(hint, Backoff.HINT_MS_MAX);
        leave(Phase.WAITING);
        due = now + backoff.next(hintMs);
        notBefore = now + hintMs;
        State state = new State(State.Name.WAITING);
        state.untilMs = due;
        state.why = why;
        said.add(() -> port.state(state));
    }

    private void end(String why) {
        leave(Phase.ENDED);
        State state = new State(State.Name.ENDED);
        state.why = why;
        said.add(() -> port.state(state));
    }

    private void leave(Phase to) {
        if (phase == Phase.ONLINE) {
            outbox.lost();
            for (int mine : asked) {
                said.add(() -> port.answer(mine, null, new ImException("disconnected")));
            }
            asked.clear();
        }
        if (phase == Phase.OPENING || phase == Phase.LOGIN || phase == Phase.ONLINE) {
            said.add(port::disconnect);
        }
        phase = to;
        due = NEVER;
        dead = NEVER;
        limits = null;
    }
}
