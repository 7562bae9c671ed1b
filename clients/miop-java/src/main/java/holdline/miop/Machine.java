package holdline.miop;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * The decisions of a client: what to send when, and what becomes of what arrives.
 *
 * <pre>
 * idle ─start─► connecting ─► binding ─► bound ─stop─► closing ─► ended
 *                  ▲    │         │        │
 *                  │    └─────────┴────────┴─► waiting, or ended with a final result
 *                  └──────────────────────────────┘
 * </pre>
 *
 * <p>It knows no socket, clock or thread: time is an argument in milliseconds, and what is to be
 * done is a call of its port. What a connection still says after its end is recognised by its
 * number, and ignored.
 */
final class Machine {
    static final long NEVER = Long.MAX_VALUE;
    /** How long the other side may take, milliseconds. */
    private static final long CONNECT_MS = 15_000;
    private static final long BIND_MS = 15_000;
    private static final long PONG_MS = 30_000;
    private static final long NUDGE_MS = 10_000;
    /** A PING that is later than this tests no interval. */
    private static final long LATE_MS = 30_000;
    private static final long CLOSE_MS = 5_000;
    /** A hint of the server counts as at most an hour. */
    private static final long HINT_MAX_MS = 3_600_000;
    /** A session of at least this length was a good one: the next wait is short again. */
    private static final long GOOD_SESSION_MS = 10_000;
    /** Pushes that the application may hold, whatever a server sends. */
    private static final int OUTSTANDING_MAX = 1_024;

    private static final int AUTH_HMAC = 1;
    private static final int AUTH_TOKEN = 2;
    private static final int AUTH_CERTIFICATE = 3;
    private static final int CAP_PULLS = 2;

    /** The outside of a machine. */
    interface Port {
        void connect(long conn, String address);

        void write(byte[] frame);

        /** Closes the connection once what was written is sent, or gives up making it. */
        void disconnect();

        void state(State state);

        void stored(String clientId);

        void pulled(long remaining);

        /** Stores the record, so that it survives a crash. */
        void save(byte[] record) throws IOException;

        long wallMs();

        byte[] nonce();
    }

    enum Phase { IDLE, WAITING, CONNECTING, BINDING, BOUND, CLOSING, ENDED }

    /** How a connection ends, as far as the server has said so. */
    private static final class Ending {
        int result;
        /** NEVER: without a hint. */
        long retryMs = NEVER;
        List<String> addresses = Collections.emptyList();
        /** The server's clock, 0: not said. */
        long timeMs;

        static Ending of(Frame frame) {
            Ending end = new Ending();
            Properties said = frame.properties;
            end.result = (int) said.number(Properties.RESULT);
            end.addresses = said.texts(Properties.ADDR);
            end.timeMs = said.number(Properties.SERVER_TIME);
            long hint = said.number(Properties.RETRY_AFTER_MS);
            if (hint > 0) {
                end.retryMs = Math.min(hint, HINT_MAX_MS);
            }
            return end;
        }
    }

    private final Options options;
    private final Port port;
    private final Memory memory;
    private final Reports reports;
    private final Addresses addresses;
    private final Heartbeat heartbeat;
    private final Backoff backoff;

    private Phase phase = Phase.IDLE;
    private long conn;
    /** Of a wait its end, of a connection the time at which it is given up. */
    private long deadline = NEVER;
    /** Attempts to connect since a session ended. */
    private int attempts;
    /** What the server's clock is ahead of ours, once it has refused ours. */
    private long clockMs;
    private boolean isClockCorrected;

    private Bytes in = new Bytes();
    private Frame.Claim claim;
    private boolean isChallenged;
    /** Of an ERROR, if the server closes after it. */
    private Ending notice = new Ending();
    private int frameMax = Frame.BYTES_DEFAULT;
    private long boundAt;
    private long saidAt;
    private long heardAt;
    private boolean awaitsPong;
    /** The silence before the PING that is not answered yet; 0: it tests nothing. */
    private int testedS;

    /** The application works on a push. */
    boolean isHandling;
    /** Handed to the application, which has not settled them. */
    private final Set<Long> outstanding = new HashSet<>();
    private final List<Long> toAck = new ArrayList<>();
    private boolean isDirty;

    Machine(Options options, Memory memory, Port port) {
        this.options = options;
        this.memory = memory;
        this.reports = memory.reports;
        this.port = port;
        addresses = new Addresses(options.addresses);
        backoff = new Backoff(options.backoffFirstMs, options.backoffLongestMs, options.random);
        heartbeat = new Heartbeat(options.shortestS, options.firstS, options.longestS);
        heartbeat.use(memory.network(options.network));
    }

    // ---- from the application -------------------------------------------------------------------

    void start(long now) {
        if (phase == Phase.IDLE) {
            connect(now);
        }
    }

    /** Says good-bye, if there is somebody to say it to. */
    void stop(long now) {
        if (phase == Phase.BOUND) {
            port.state(new State(State.Name.CLOSING));
            become(Phase.CLOSING, now + CLOSE_MS);
            flush(now);
            send(now, new Frame(Frame.UNBIND));
        } else if (phase != Phase.CLOSING && phase != Phase.ENDED) {
            finish("closed", 0);
        }
    }

    /** Drops everything, as the end of the process would. */
    void kill() {
        conn++;
        become(Phase.ENDED, NEVER);
        isDirty = false;
    }

    /** The application's answer to a push: it has it, or it wants it again. */
    boolean settle(long id, boolean has) {
        if (!outstanding.remove(id)) {
            return false;
        }
        if (has) {
            memory.see(id);
            toAck.add(id);
            isDirty = true;
        }
        return true;
    }

    void report(long now, byte[] body, String clientId) throws MiopException {
        if (!reports.queue(body, clientId, frameMax)) {
            return;
        }
        isDirty = true;
        if (!remember()) {
            reports.unqueue();
            throw new MiopException("not_stored");
        }
        sendReports(now);
    }

    void pull(long now, int count) throws MiopException {
        if (phase != Phase.BOUND) {
            throw new MiopException("not_bound");
        }
        Properties said = new Properties();
        if (count > 0) {
            said.add(Properties.COUNT, count);
        }
        send(now, new Frame(Frame.PULL, said));
    }

    /**
     * The network is there again, or the device woke up: a client that waits tries at once, and a
     * connection that seems to be there has to prove it.
     */
    void nudge(long now) {
        if (phase == Phase.WAITING) {
            connect(now);
        } else if (phase == Phase.BOUND) {
            if (!awaitsPong) {
                ping(now, 0);
            }
            deadline = Math.min(deadline, now + NUDGE_MS);
        }
    }

    void onNetwork(long now, String name) {
        heartbeat.use(memory.network(name));
        isDirty = true;
        testedS = 0;
        nudge(now);
    }

    // ---- the connection -------------------------------------------------------------------------

    private void connect(long now) {
        conn++;
        attempts++;
        become(Phase.CONNECTING, now + CONNECT_MS);
        State state = new State(State.Name.CONNECTING);
        state.address = addresses.take();
        port.state(state);
        port.connect(conn, state.address);
    }

    boolean isConnecting(long conn) {
        return conn == this.conn && phase == Phase.CONNECTING;
    }

    /** The connection is there. The token is the proof of a client with one. */
    void connected(long now, long conn, String token) {
        if (!isConnecting(conn)) {
            return;
        }
        in = new Bytes();
        toAck.clear();
        notice = new Ending();
        isChallenged = false;
        awaitsPong = false;
        testedS = 0;
        frameMax = Frame.BYTES_DEFAULT;
        heardAt = now;
        become(Phase.BINDING, now + BIND_MS);
        port.state(new State(State.Name.BINDING));
        send(now, bind(token));
    }

    /** The connection ended, or could not be made. */
    void closed(long now, long conn, String why) {
        if (conn != this.conn) {
            return;
        }
        if (phase == Phase.CLOSING) {
            finish("closed", 0);
        } else if (phase == Phase.CONNECTING || isOpen(conn)) {
            lost(now, why);
        }
    }

    /** Adds what has arrived, in pieces of any size. */
    void feed(long now, long conn, byte[] bytes) {
        if (!isOpen(conn)) {
            return;
        }
        in.add(bytes);
        heardAt = now;
        if (awaitsPong) {
            awaitsPong = false;
            deadline = NEVER;
        }
    }

    private boolean isOpen(long conn) {
        return conn == this.conn
            && (phase == Phase.BINDING || phase == Phase.BOUND || phase == Phase.CLOSING);
    }

    /** What became of one frame. */
    static final class Step {
        final int opcode;
        /** The pushes in it that are new. */
        List<Push> pushes = Collections.emptyList();

        Step(int opcode) {
            this.opcode = opcode;
        }
    }

    /** Handles one frame of those that have arrived whole; null: none has. */
    Step step(long now, long conn) {
        if (!isOpen(conn)) {
            return null;
        }
        Step step = new Step(0);
        try {
            Frame frame = Frame.read(in.reader(), frameMax);
            if (frame == null) {
                return null;
            }
            in.drop(frame.length);
            step = new Step(frame.opcode);
            if (phase == Phase.BINDING) {
                answer(now, frame);
            } else {
                frame(now, frame, step);
            }
        } catch (Fault fault) {
            port.disconnect();
            lost(now, fault.getMessage());
        }
        return step;
    }

    /** Whether the next frame is there and brings pushes, too. */
    boolean isPushNext() {
        try {
            Frame frame = Frame.read(in.reader(), frameMax);
            return frame != null && frame.opcode == Frame.MSG;
        } catch (Fault fault) {
            return false;
        }
    }

    /** Before the session only these frames mean something. */
    private void answer(long now, Frame frame) throws Fault {
        switch (frame.opcode) {
            case Frame.BIND_ACK:
                bindAck(now, frame);
                break;
            case Frame.CHALLENGE:
                if (options.secret == null || isChallenged) {
                    throw new Fault(Fault.OUT_OF_ORDER);
                }
                isChallenged = true;
                byte[] nonce = frame.properties.bytes(Properties.SERVER_NONCE);
                Properties proof = new Properties();
                proof.add(Properties.MAC, claim.mac(options.secret, nonce));
                send(now, new Frame(Frame.AUTH, proof));
                break;
            case Frame.KICK:
            case Frame.REDIRECT:
            case Frame.GO_AWAY:
                dismissed(now, frame);
                break;
            case Frame.ERROR:
                error(now, frame);
                break;
            default:
                outOfOrder(frame);
        }
    }

    private static void outOfOrder(Frame frame) throws Fault {
        if (frame.isKnown()) {
            throw new Fault(Fault.OUT_OF_ORDER);
        }
    }

    private void bindAck(long now, Frame frame) throws Fault {
        Properties said = frame.properties;
        int result = (int) said.number(Properties.RESULT);
        if (result > Result.RESUMED) {
            dismissed(now, frame);
            return;
        }
        if (!said.has(Properties.SESSION_EPOCH) || !said.has(Properties.RESUME_TOKEN)
            || !said.has(Properties.HEARTBEAT)) {
            throw new Fault(Fault.MISSING_PROPERTY);
        }
        memory.epoch = said.number(Properties.SESSION_EPOCH);
        memory.token = said.bytes(Properties.RESUME_TOKEN);
        isDirty = true;
        terms(said);
        heartbeat.bound(attempts == 1);
        become(Phase.BOUND, NEVER);
        boundAt = now;
        attempts = 0;
        isClockCorrected = false;
        addresses.bound();
        State state = new State(State.Name.BOUND);
        state.isResumed = result == Result.RESUMED;
        state.heartbeatS = heartbeat.agreed;
        state.offlineCount = (int) said.number(Properties.OFFLINE_COUNT);
        port.state(state);
        reports.connected();
        sendReports(now);
    }

    /** Of a session, in BIND_ACK and CONFIG. */
    private void terms(Properties said) {
        if (said.has(Properties.HEARTBEAT)) {
            heartbeat.agreed = (int) Math.max(said.number(Properties.HEARTBEAT), 1);
        }
        if (said.has(Properties.MAX_FRAME)) {
            long most = Math.max(said.number(Properties.MAX_FRAME), Frame.BYTES_UNBOUND);
            frameMax = (int) Math.min(most, Frame.BYTES_MOST);
        }
    }

    /** Handles one frame of a session. */
    private void frame(long now, Frame frame, Step step) throws Fault {
        Properties said = frame.properties;
        switch (frame.opcode) {
            case Frame.MSG:
                step.pushes = message(frame);
                break;
            case Frame.PONG:
                pong();
                break;
            case Frame.REPORT_ACK:
                int upTo = (int) said.number(Properties.REPORT_SEQ);
                isDirty |= reports.taken(upTo, port::stored);
                sendReports(now);
                break;
            case Frame.CONFIG:
                terms(said);
                break;
            case Frame.PULL:
                port.pulled(said.number(Properties.OFFLINE_COUNT));
                break;
            case Frame.KICK:
            case Frame.REDIRECT:
            case Frame.GO_AWAY:
                dismissed(now, frame);
                break;
            case Frame.ERROR:
                error(now, frame);
                break;
            case Frame.UNBIND_ACK:
                if (phase != Phase.CLOSING) {
                    throw new Fault(Fault.OUT_OF_ORDER);
                }
                port.disconnect();
                finish("closed", 0);
                break;
            default:
                outOfOrder(frame);
        }
    }

    /**
     * Takes out what is new. What was acknowledged before is acknowledged again, since the server
     * has not read that; what the application holds waits for the application.
     */
    private List<Push> message(Frame frame) throws Fault {
        List<Push> pushes = new ArrayList<>();
        for (Push push : frame.records()) {
            if (memory.hasSeen(push.id())) {
                toAck.add(push.id());
            } else if (outstanding.size() < OUTSTANDING_MAX && outstanding.add(push.id())) {
                pushes.add(push);
            }
        }
        return pushes;
    }

    /**
     * Stores what happened, and then acknowledges it: with the ids of the pushes, since
     * last_msg_id covers others that the application may still hold.
     */
    void flush(long now) {
        if (!remember()) {
            return; // nothing is acknowledged that is not stored; the next flush tries again
        }
        if (toAck.isEmpty() || (phase != Phase.BOUND && phase != Phase.CLOSING)) {
            return;
        }
        Bytes ids = new Bytes();
        toAck.forEach(id -> ids.number(id, 8));
        toAck.clear();
        Frame ack = new Frame(Frame.MSG_ACK);
        ack.payload = ids.toArray();
        send(now, ack);
    }

    private boolean remember() {
        if (isDirty) {
            try {
                port.save(memory.write(options.identity()));
                isDirty = false;
            } catch (IOException notStored) {
                return false;
            }
        }
        return true;
    }

    /** Sends what there is room for. */
    private void sendReports(long now) {
        if (phase != Phase.BOUND) {
            return;
        }
        for (Reports.Report next = reports.next(now, frameMax); next != null;
            next = reports.next(now, frameMax)) {
            Frame frame = new Frame(Frame.REPORT);
            frame.seq = next.seq;
            frame.payload = next.body;
            send(now, frame);
        }
    }

    private void send(long now, Frame frame) {
        saidAt = now;
        port.write(frame.write());
    }

    private void become(Phase next, long until) {
        phase = next;
        deadline = until;
    }

    /**
     * The BIND of a new connection. The proof comes along with the session's token, so that an
     * expired session costs no second round trip.
     */
    private Frame bind(String token) {
        claim = new Frame.Claim();
        claim.product = options.product;
        claim.device = options.device;
        claim.caps = options.pulls ? CAP_PULLS : 0;
        Properties said = new Properties();
        said.add(Properties.DEVICE_ID, options.device);
        said.add(Properties.PRODUCT_KEY, options.product);
        if (options.secret != null) {
            claim.clientTs = Math.max(port.wallMs() + clockMs, 0);
            claim.clientNonce = port.nonce();
            said.add(Properties.CLIENT_TS, claim.clientTs);
        }
        byte[] wish = new Bytes().number(options.wishS, 2).number(heartbeat.shortest, 2)
            .number(heartbeat.longest, 2).toArray();
        said.add(Properties.HEARTBEAT_WISH, wish);
        addProof(said, token);
        if (memory.token != null) {
            said.add(Properties.RESUME_TOKEN, memory.token);
            said.add(Properties.SESSION_EPOCH, memory.epoch);
        }
        if (claim.caps != 0) {
            said.add(Properties.CAPS, claim.caps);
        }
        if (options.window != 0) {
            said.add(Properties.MAX_INFLIGHT, options.window);
        }
        if (options.tags != null) {
            options.tags.forEach(tag -> said.add(Properties.TAG, tag));
            if (options.tags.isEmpty()) {
                said.add(Properties.TAG, "");
            }
        }
        return new Frame(Frame.BIND, said);
    }

    private void addProof(Properties said, String token) {
        if (options.secret != null) {
            said.add(Properties.CLIENT_NONCE, claim.clientNonce);
            said.add(Properties.AUTH_TYPE, AUTH_HMAC);
            if (options.keyId != 0) {
                said.add(Properties.KEY_ID, options.keyId);
            }
            said.add(Properties.MAC, claim.mac(options.secret, new byte[0]));
        } else if (token != null) {
            said.add(Properties.AUTH_TYPE, AUTH_TOKEN).add(Properties.TOKEN, token);
        } else if (options.hasCertificate) {
            said.add(Properties.AUTH_TYPE, AUTH_CERTIFICATE);
        }
    }

    // ---- ends -----------------------------------------------------------------------------------

    /** An ERROR refuses a Report, or says why the server will close. */
    private void error(long now, Frame frame) {
        if (frame.properties.has(Properties.REPORT_SEQ)) {
            reports.refused(now, (int) frame.properties.number(Properties.REPORT_SEQ));
            return;
        }
        notice = Ending.of(frame);
        if (notice.result == Result.VERSION) {
            port.disconnect();
            finish(Result.word(notice.result), notice.result);
        }
    }

    /** The server ended the session, or did not begin one. */
    private void dismissed(long now, Frame frame) {
        Ending end = Ending.of(frame);
        if (frame.opcode == Frame.GO_AWAY && end.result == 0) {
            end.result = Result.DRAINING;
        }
        flush(now);
        port.disconnect();
        over(now, end, Result.word(end.result));
    }

    /** The connection is gone, or was never there. */
    private void lost(long now, String why) {
        if (phase == Phase.BOUND && testedS > 0) {
            heartbeat.suspect(testedS);
        }
        if (why.equals("lost") && notice.result != 0) {
            over(now, notice, Result.word(notice.result));
        } else {
            over(now, new Ending(), why);
        }
    }

    /** Decides what follows the end of a connection. */
    private void over(long now, Ending end, String why) {
        if (phase == Phase.CLOSING) {
            finish("closed", 0);
            return;
        }
        boolean wasBound = phase == Phase.BOUND;
        if (wasBound && now - boundAt >= GOOD_SESSION_MS) {
            backoff.reset();
        }
        addresses.lost(wasBound, end.addresses);
        boolean hasHint = end.retryMs != NEVER;
        if (end.result == Result.CLOCK_SKEW && end.timeMs != 0 && !isClockCorrected) {
            clockMs = end.timeMs - port.wallMs();
            isClockCorrected = true;
            addresses.again();
            connect(now);
        } else if (Result.isFinal(end.result) && !hasHint) {
            finish(why, end.result);
        } else if (!hasHint && addresses.follow(end.addresses)) {
            connect(now);
        } else {
            conn++; // what the old connection still says is ignored
            become(Phase.WAITING, now + backoff.next(hasHint ? end.retryMs : 0));
            State state = new State(State.Name.WAITING);
            state.untilMs = deadline;
            state.why = why;
            port.state(state);
        }
    }

    private void finish(String why, int result) {
        if (phase == Phase.CONNECTING || phase == Phase.BINDING) {
            port.disconnect();
        }
        if (Result.isFinal(result) && result != Result.REPLACED) {
            memory.token = null; // nobody may go on with that session
            isDirty = true;
        }
        conn++;
        become(Phase.ENDED, NEVER);
        remember(); // what cannot be stored now is found out again
        State state = new State(State.Name.ENDED);
        state.why = why;
        state.result = result;
        port.state(state);
    }

    // ---- time -----------------------------------------------------------------------------------

    /** When {@link #tick} has something to do. */
    long wakeAt() {
        if (phase != Phase.BOUND) {
            return deadline;
        }
        long at = awaitsPong ? deadline : Math.min(deadline, pingAt());
        return Math.min(at, reports.wakeAt());
    }

    /** The end of a silence in both directions, or of the server's patience with ours. */
    private long pingAt() {
        long silent = Math.max(saidAt, heardAt) + heartbeat.interval() * 1_000L;
        return Math.min(silent, saidAt + heartbeat.agreed * 1_000L);
    }

    void tick(long now) {
        if (now >= deadline) {
            expired(now);
        } else if (phase == Phase.BOUND) {
            if (!awaitsPong && now >= pingAt()) {
                int silence = heartbeat.interval();
                // If the server was heard meanwhile, or the device slept for longer, the interval is
                // not tested.
                boolean tests = now - heardAt >= silence * 1_000L && now < pingAt() + LATE_MS;
                ping(now, tests ? silence : 0);
            }
            sendReports(now);
        }
    }

    /** The deadline of the phase has passed. */
    private void expired(long now) {
        switch (phase) {
            case WAITING:
                connect(now);
                break;
            case CONNECTING:
                port.disconnect();
                lost(now, "connect_timeout");
                break;
            case BINDING:
                port.disconnect();
                lost(now, "bind_timeout");
                break;
            case BOUND:
                if (isHandling) { // the answer is not read while the application works
                    deadline = now + PONG_MS;
                    break;
                }
                port.disconnect();
                lost(now, "no_pong");
                break;
            case CLOSING:
                port.disconnect();
                finish("closed", 0);
                break;
            default:
        }
    }

    private void ping(long now, int silenceS) {
        awaitsPong = true;
        testedS = silenceS;
        deadline = now + PONG_MS;
        send(now, new Frame(Frame.PING));
    }

    private void pong() {
        if (testedS > 0) {
            heartbeat.lived(testedS);
            testedS = 0;
            isDirty = true;
        }
    }
}
