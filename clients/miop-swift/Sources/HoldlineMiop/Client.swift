import Dispatch
import Foundation

/// A push. Acknowledge it when you have it; until then the server keeps it.
public struct Push {
    public let record: PushRecord
    fileprivate weak var client: Client?

    public var id: UInt64 { record.id }
    public var body: [UInt8] { record.body }
    public var text: String { String(decoding: record.body, as: UTF8.self) }

    /// You have it. A second call does nothing.
    public func acknowledge() {
        client?.settle(record.id, isGood: true)
    }

    /// You could not handle it: the server sends it again later.
    public func reject() {
        client?.settle(record.id, isGood: false)
    }
}

/// Options that cannot work.
public struct OptionsError: Error, CustomStringConvertible {
    public let description: String
}

/// Of a client: begin with `init` and change what you need.
public struct Options {
    /// `host:port`, tried in turn.
    public var addresses: [String]
    public var product: String
    public var device: String
    /// The proof, asked before each connection, so that it may fetch a new token.
    public var credentials: (@escaping (Result<Credentials, Error>) -> Void) -> Void = {
        $0(.success(.none))
    }
    public var store: Store = MemoryStore()
    public var connector: Connector = SocketConnector()
    /// nil leaves the device's tags, an empty list removes them, others replace them.
    public var tags: [String]?
    /// Pushes that the server may send before it waits for an acknowledgement.
    public var maxInflight: UInt16?
    /// Stored pushes are sent after `pull` alone.
    public var pulls = false
    public var heartbeat = HeartbeatRange()
    /// The heartbeat that is asked for, seconds; 0: the product's default. PINGs are never further
    /// apart than what is agreed.
    public var heartbeatWish: UInt16 = 0
    public var backoffFirstMs: Int64 = 1_000
    public var backoffLongestMs: Int64 = 60_000
    public var frameBytesMax = 1 << 20
    /// Gets each push once. Unless `isManual`, the push is acknowledged when this returns, and
    /// comes again when it throws.
    public var onPush: (Push) throws -> Void = { _ in }
    /// Pushes are acknowledged by `Push.acknowledge` alone.
    public var isManual = false
    public var onState: (State) -> Void = { _ in }
    /// The server has taken the Report with this client id.
    public var onStored: (String) -> Void = { _ in }
    /// After `pull`: so many stored pushes remain.
    public var onPulled: (Int) -> Void = { _ in }
    /// The state could not be stored. What was to be acknowledged is not, and comes again.
    public var onStoreFailed: (Error) -> Void = { _ in }
    /// Of tests: a frame with this opcode was received and handled.
    public var onFrame: (UInt8) -> Void = { _ in }
    public var clock: Clock = SystemClock()
    /// A number from 0 up to 1, for the back-off.
    public var random: () -> Double = { Double.random(in: 0..<1) }

    public init(_ address: String, product: String, device: String) {
        (addresses, self.product, self.device) = ([address], product, device)
    }

    fileprivate func check() throws {
        func checkName(_ what: String, _ name: String, _ bytesMax: Int) throws {
            let good = Set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+:/=")
            if 1...bytesMax ~= name.utf8.count && name.allSatisfy(good.contains) { return }
            let allowed = "1 to \(bytesMax) letters, digits and . _ - + : / ="
            throw OptionsError(description: "\(what) is \(allowed), not \"\(name)\"")
        }
        if addresses.isEmpty { throw OptionsError(description: "a client needs an address") }
        try checkName("product", product, 32)
        try checkName("device", device, 64)
        for tag in tags ?? [] { try checkName("a tag", tag, 64) }
        if !heartbeat.isValid {
            throw OptionsError(
                description: "a heartbeat has 1 <= shortest <= first <= longest <= 65535")
        }
    }
}

/// A device. All methods may be called from any thread; handlers run on the client's queue.
public final class Client {
    private let options: Options
    /// Of everything below.
    public let queue = DispatchQueue(label: "holdline-miop")
    private let machine: Machine
    private var connection: Connection?
    /// The connection that counts: what others still say is ignored.
    private var attempt = 0
    private var fault = ""
    private var isWorking = false
    private var isStopped = false
    private var isUnsaved = false
    private var handled: [UInt8] = []

    public init(_ options: Options) throws {
        try options.check()
        self.options = options
        // A state that cannot be read begins anew.
        let stored = try options.store.load().flatMap {
            try? JSONDecoder().decode(Saved.self, from: Data($0.utf8))
        }
        machine = Machine(
            Settings(
                addresses: options.addresses, product: options.product, device: options.device,
                tags: options.tags, maxInflight: options.maxInflight, pulls: options.pulls,
                heartbeat: options.heartbeat, heartbeatWish: Int(options.heartbeatWish),
                backoffFirstMs: options.backoffFirstMs, backoffLongestMs: options.backoffLongestMs,
                frameBytesMax: options.frameBytesMax, random: options.random,
                randomBytes: { count in
                    var system = SystemRandomNumberGenerator()
                    return (0..<count).map { _ in UInt8.random(in: 0...255, using: &system) }
                }),
            stored?.v == 1 ? stored : nil)
    }

    /// Begins to connect, and stays connected until `close` or a refusal that lasts.
    public func start() {
        run { $0.start($1) }
    }

    /// Says goodbye to the server; the state `ended` follows, after five seconds at most. The
    /// session, the pushes that the server holds and the Reports stay for the next start.
    public func close() {
        run { $0.close($1) }
    }

    /// Drops the connection without a word, as the end of the process does. Call it on the queue.
    public func abandon() {
        isStopped = true
        options.clock.wake(at: nil, on: queue) {}
        disconnect()
    }

    /// Call it when the network changed or the device woke up.
    public func nudge() {
        run { $0.nudge($1) }
    }

    /// The device is in this network now, say `wifi:home`: its heartbeat is remembered by it.
    public func network(_ name: String) {
        run { $0.network($1, name) }
    }

    /// With `pulls`: asks for stored pushes. Does nothing without a session.
    public func pull(_ count: UInt16) {
        run { _ = $0.pull($1, count) }
    }

    /// Queues a Report and returns its client id; `onStored` is called with that when the server
    /// has taken it. A client id that is still queued is not queued twice. Not to be called on the
    /// queue.
    @discardableResult
    public func report(_ payload: [UInt8], clientId: String? = nil) throws -> String {
        try queue.sync { try reportOnQueue(payload, clientId: clientId) }
    }

    /// The same for handlers, which run on the queue.
    @discardableResult
    public func reportOnQueue(_ payload: [UInt8], clientId: String? = nil) throws -> String {
        defer { work() }
        return try machine.report(options.clock.now(), payload, clientId)
    }

    /// Reports that the user opened a push: a Report with a client id of its own, so that it is
    /// queued once. Returns the client id. Not to be called on the queue.
    @discardableResult
    public func opened(_ id: UInt64) throws -> String {
        try reportPush(1, "opened", id)
    }

    /// Reports that the user dismissed a push, likewise.
    @discardableResult
    public func dismissed(_ id: UInt64) throws -> String {
        try reportPush(2, "dismissed", id)
    }

    /// The form of MIOP 5.10.
    private func reportPush(_ what: UInt8, _ word: String, _ id: UInt64) throws -> String {
        let head: [UInt8] = [0, 0x6d, 0x69, 0x6f, 0x70, 0, what]
        return try report(head + bigEndian(id, 8), clientId: "\(word)-\(id)")
    }

    fileprivate func settle(_ id: UInt64, isGood: Bool) {
        run { machine, _ in isGood ? machine.acknowledge(id) : machine.reject(id) }
    }

    private func run(_ what: @escaping (Machine, Int64) -> Void) {
        queue.async { [weak self] in
            guard let self = self, !self.isStopped else { return }
            what(self.machine, self.options.clock.now())
            self.work()
        }
    }

    // MARK: The machine's actions

    /// Does what the machine says, until it says nothing more.
    private func work() {
        if isWorking || isStopped { return }
        isWorking = true
        while !isStopped {
            let now = options.clock.now(), actions = machine.take(now)
            if actions.isEmpty {
                guard let due = machine.due(), due <= now else { break }
                machine.tick(now)
            }
            for action in actions where !isStopped { act(action) }
        }
        isWorking = false
        if isStopped { return }
        if isUnsaved { machine.notSaved() }
        let frames = handled
        handled = []
        frames.forEach(options.onFrame)
        options.clock.wake(at: machine.due(), on: queue) { [weak self] in
            guard let self = self, !self.isStopped else { return }
            self.machine.tick(self.options.clock.now())
            self.work()
        }
    }

    private func act(_ action: Action) {
        switch action {
        case .send(let bytes):
            // An acknowledgement says that the id was stored.
            if !isUnsaved || bytes[3] != Opcode.msgAck { connection?.send(bytes) }
        case .save(let saved):
            do {
                let text = try JSONEncoder().encode(saved)
                try options.store.save(String(decoding: text, as: UTF8.self))
                isUnsaved = false
            } catch {
                isUnsaved = true
                options.onStoreFailed(error)
            }
        case .push(let record): handOut(Push(record: record, client: self))
        case .connect(let address): connect(address)
        case .disconnect: disconnect()
        case .state(var state):
            if case .waiting(let until, let why, _) = state {
                state = .waiting(until: until, why: why, detail: fault)
                fault = ""
            }
            options.onState(state)
        case .stored(let clientId): options.onStored(clientId)
        case .pulled(let remaining): options.onPulled(remaining)
        case .handled(let opcode): handled.append(opcode)
        }
    }

    private func handOut(_ push: Push) {
        do {
            try options.onPush(push)
            if !options.isManual { machine.acknowledge(push.id) }
        } catch {
            machine.reject(push.id)
        }
    }

    // MARK: Connections

    private func disconnect() {
        attempt += 1
        connection?.close()
        connection = nil
    }

    private func connect(_ address: String) {
        disconnect()
        let current = attempt
        options.credentials { [weak self] result in
            guard let client = self else { return }
            client.queue.async {
                guard !client.isStopped, current == client.attempt else { return }
                switch result {
                case .failure(let failure):
                    client.lost(current, "credentials_failed", String(describing: failure))
                case .success(let proof): client.dial(address, proof, current)
                }
            }
        }
    }

    private func dial(_ address: String, _ proof: Credentials, _ current: Int) {
        connection = options.connector.connect(address, ConnectionEvents(
            queue: queue,
            opened: { [weak self] isSafe in
                guard let self = self, !self.isStopped, current == self.attempt else { return }
                if case .token = proof, !isSafe {
                    // A server that names another one cannot make the client show its token.
                    return self.lost(current, "insecure", "a token is sent only over TLS")
                }
                let clock = self.options.clock
                self.machine.connected(clock.now(), wall: clock.wall(), proof)
                self.work()
            },
            received: { [weak self] bytes in
                guard let self = self, !self.isStopped, current == self.attempt else { return }
                self.machine.received(self.options.clock.now(), bytes)
                self.work()
            },
            closed: { [weak self] why, detail in self?.lost(current, why, detail) }))
    }

    /// A connection could not be made, or is gone.
    private func lost(_ current: Int, _ why: String, _ detail: String) {
        guard !isStopped, current == attempt else { return }
        disconnect()
        fault = detail
        machine.lost(options.clock.now(), why)
        work()
    }
}
