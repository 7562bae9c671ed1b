// All decisions of one device: a machine that knows no socket, clock, random source or disk.
//
//     idle ─start─► connecting ─► binding ─► bound ─close─► closing ─► ended
//                    ▲    │ fails    │ no      │ lost                    ▲
//                    │    ▼          ▼         ▼        permanent no     │
//                    └─ waiting ◄────┴─────────┴─────────────────────────┘
//
// It is told what happens, and `take` gives what to do, in order. A push is handed out once: its id
// is held until the application acknowledges it, then remembered. The rules are numbered in
// clients/conformance/README.md. Times are milliseconds of a clock that never goes back.

/// A device's proof (MIOP 6).
public enum Credentials {
    case none
    /// A secret of the product, and its number.
    case secret([UInt8], keyId: UInt32)
    /// A token of the API; sent only over TLS or to this machine.
    case token(String)
    /// The certificate of the connection.
    case certificate
}

/// What a client does now.
public enum State {
    case idle
    case connecting(address: String)
    case binding
    case bound(resumed: Bool, heartbeat: Int, offlineCount: Int)
    /// `why` is a word; `detail`, for people, what the system said.
    case waiting(until: Int64, why: String, detail: String)
    case closing
    /// The client does not come back by itself; `result` is the server's number (MIOP 9).
    case ended(why: String, result: Int?)
}

struct Settings {
    var addresses: [String]
    var product, device: String
    var tags: [String]?
    var maxInflight: UInt16?
    var pulls: Bool
    var heartbeat: HeartbeatRange
    var heartbeatWish: Int
    var backoffFirstMs, backoffLongestMs: Int64
    var frameBytesMax: Int
    var random: () -> Double
    var randomBytes: (Int) -> [UInt8]
}

/// What outlives the process.
struct Saved: Codable {
    struct Session: Codable {
        var token: [UInt8]
        var epoch: String
    }

    var v = 1
    var of: [String]
    var session: Session?
    var seen: [String]
    var nextReport: UInt32
    var reports: [Report]
    var networks: [Learned]
}

enum Action {
    case connect(String), send([UInt8]), disconnect, save(Saved), state(State), push(PushRecord)
    case stored(String), pulled(Int), handled(UInt8)
}

/// How a connection ended, as the server said it.
private struct End {
    var why: String
    var result: Int?
    var hintMs: Int64 = 0
    var addresses: [String] = []
    var serverTime: UInt64?

    init(_ why: String) {
        self.why = why
    }

    init(of frame: Frame, _ otherwise: Int) {
        let number = frame.number(.result).map { Int($0) } ?? otherwise
        why = word(ofResult: number)
        result = number
        hintMs = Int64(frame.number(.retryAfterMs) ?? 0)
        addresses = frame.texts(.addrs)
        serverTime = frame.number(.serverTime)
    }
}

final class Machine {
    private enum Phase {
        case idle, connecting, binding, bound, waiting, closing, ended
    }

    private static let connectMs: Int64 = 15_000, bindMs: Int64 = 15_000, pongMs: Int64 = 30_000
    private static let nudgeMs: Int64 = 10_000, closeMs: Int64 = 5_000
    /// A PING that is later than this tests no interval: the device slept.
    private static let lateMs: Int64 = 30_000
    /// Acknowledged ids that are remembered.
    private static let seenMax = 256
    /// Pushes that the application may hold; no server sends so many.
    private static let heldMax = 4_096
    /// Ends with addresses that are followed without a wait, between two sessions.
    private static let followsMax = 3
    /// Results after which a device does not come back by itself.
    private static let permanent: Set<Int> = [11, 20, 21, 22, 23, 24, 40, 41]

    private let settings: Settings
    private var backoff: Backoff
    private var heartbeat: Heartbeat
    private var reports: Reports
    private var session: Saved.Session?
    private var seen: [UInt64] = []
    private var held: Set<UInt64> = []
    private var acks: [UInt64] = []
    private var actions: [Action] = []
    private var isDirty = false
    private var phase = Phase.idle
    private var due_: Int64?
    private var buffer: [UInt8] = []
    // Addresses: those that the server named, where it was bound last, those configured.
    private var named: [String] = []
    private var lastBound: String?
    private var turn = 0
    private var address = ""
    private var follows = 0
    // Of one connection.
    private var claim: Claim?
    private var secret: [UInt8] = []
    private var isChallenged = false
    private var error: End?
    private var boundAt: Int64 = 0
    private var agreed = 0
    private var sentAt: Int64 = 0
    private var heardAt: Int64 = 0
    private var pongDue: Int64?
    private var pongSilenceMs: Int64 = 0
    /// A silence that may have killed the connection before: the next BIND decides.
    private var suspect: (silenceMs: Int64, agreed: Int)?
    /// The server is about to go: leave when the pushes of this turn are acknowledged.
    private var away: End?
    private var wallMs: Int64 = 0
    private var clockOffset: Int64 = 0
    private var isClockCorrected = false

    init(_ settings: Settings, _ saved: Saved?) {
        self.settings = settings
        backoff = Backoff(firstMs: settings.backoffFirstMs, longestMs: settings.backoffLongestMs)
        heartbeat = Heartbeat(settings.heartbeat, saved?.networks ?? [])
        reports = Reports()
        // Of another device only what was learned about networks is of use.
        guard let saved = saved, saved.of == [settings.product, settings.device] else { return }
        session = saved.session
        seen = saved.seen.compactMap { UInt64($0) }
        reports = Reports(queue: saved.reports, nextSeq: saved.nextReport)
    }

    var reportsWaiting: Int { reports.queue.count }

    // MARK: What the application wants

    /// Connects, unless it does already.
    func start(_ now: Int64) {
        if phase == .idle || phase == .ended {
            isClockCorrected = false
            connect(now)
        }
    }

    /// Says goodbye if it can, and ends.
    func close(_ now: Int64) {
        switch phase {
        case .bound:
            flushAcks(now)
            send(now, Frame(opcode: Opcode.unbind))
            become(.closing, now + Machine.closeMs)
            actions.append(.state(.closing))
        case .connecting, .binding: shut("closed")
        case .idle, .waiting: end("closed", nil)
        case .closing, .ended: break
        }
    }

    /// The network changed or the device woke up: finds out at once whether it is connected.
    func nudge(_ now: Int64) {
        if phase == .waiting {
            connect(now)
        } else if phase == .bound {
            if pongDue == nil { ping(now) }
            pongDue = min(pongDue ?? .max, now + Machine.nudgeMs)
        }
    }

    /// The device is in this network now; its heartbeat is what was learned there.
    func network(_ now: Int64, _ name: String) {
        heartbeat.use(name)
        (suspect, pongSilenceMs) = (nil, 0)
        nudge(now)
    }

    /// The application has this push. Its id is stored before the server hears of it.
    func acknowledge(_ id: UInt64) {
        guard held.remove(id) != nil else { return }
        seen.append(id)
        if seen.count > Machine.seenMax { seen.removeFirst() }
        isDirty = true
        acks.append(id)
    }

    /// The application could not handle it: it may come again.
    func reject(_ id: UInt64) {
        held.remove(id)
    }

    /// Queues a Report; its client id.
    func report(_ now: Int64, _ payload: [UInt8], _ clientId: String?) throws -> String {
        let name = clientId ?? hex(settings.randomBytes(16))
        if try reports.add(name, payload) {
            isDirty = true
            sendReports(now)
        }
        return name
    }

    /// Asks for stored pushes; false without a session.
    func pull(_ now: Int64, _ count: UInt16) -> Bool {
        guard phase == .bound else { return false }
        send(now, Frame(opcode: Opcode.pull, properties: [.count: .number(UInt64(count))]))
        return true
    }

    // MARK: What happens

    /// The connection that was asked for is open; `proof` is what the device shows.
    func connected(_ now: Int64, wall: Int64, _ proof: Credentials) {
        guard phase == .connecting else { return }
        buffer = []
        (isChallenged, error, away) = (false, nil, nil)
        become(.binding, now + Machine.bindMs)
        actions.append(.state(.binding))
        send(now, bind(wall, proof))
    }

    /// Bytes of the server.
    func received(_ now: Int64, _ data: [UInt8]) {
        guard isOpen else { return }
        heard(now)
        buffer += data
        do {
            while isOpen && away == nil,
                let (frame, length) = try Frame.decode(buffer, bytesMax: settings.frameBytesMax) {
                buffer.removeFirst(length)
                try handle(now, frame)
                actions.append(.handled(frame.opcode))
            }
        } catch {
            leave(now, End((error as? Fault)?.name ?? "malformed"))
        }
    }

    private var isOpen: Bool { phase == .binding || phase == .bound || phase == .closing }

    /// The connection could not be opened, or was closed by the other side.
    func lost(_ now: Int64, _ why: String = "lost") {
        switch phase {
        case .connecting, .binding, .bound:
            if pongDue != nil { suspect = (pongSilenceMs, agreed) }
            after(now, away ?? error ?? End(why))
        case .closing: end("closed", nil)
        case .idle, .waiting, .ended: break
        }
    }

    /// Time has gone by.
    func tick(_ now: Int64) {
        if phase == .bound && away == nil { return tickBound(now) }
        guard let due = due_, now >= due else { return }
        switch phase {
        case .waiting: connect(now)
        case .connecting: leave(now, End("connect_timeout"))
        case .binding: leave(now, End("bind_timeout"))
        case .closing: shut("closed")
        case .bound: leave(now, away ?? End("lost"))
        case .idle, .ended: break
        }
    }

    /// When `tick` is needed next.
    func due() -> Int64? {
        guard phase == .bound && away == nil else { return due_ }
        return min(pongDue ?? pingDue, reports.pausedUntil ?? .max)
    }

    /// What to do, in order. Acknowledgements of one turn share a frame; what was learned and
    /// promised is stored before it is said.
    func take(_ now: Int64) -> [Action] {
        if phase == .bound { flushAcks(now) }
        acks = [] // without a connection: they follow when the pushes come again
        defer { (actions, isDirty) = ([], false) }
        return isDirty ? [.save(saved)] + actions : actions
    }

    /// The last `save` failed: the next turn says it again.
    func notSaved() {
        isDirty = true
    }

    private var saved: Saved {
        Saved(
            of: [settings.product, settings.device], session: session, seen: seen.map { String($0) },
            nextReport: reports.nextSeq, reports: reports.queue, networks: heartbeat.learned)
    }

    // MARK: Connecting

    private func become(_ phase: Phase, _ due: Int64?) {
        (self.phase, due_) = (phase, due)
        if phase != .bound { pongDue = nil }
    }

    private func connect(_ now: Int64) {
        if !named.isEmpty {
            address = named.removeFirst()
        } else if let last = lastBound {
            (address, lastBound) = (last, nil)
        } else {
            address = settings.addresses[turn % settings.addresses.count]
            turn += 1
        }
        become(.connecting, now + Machine.connectMs)
        actions.append(.state(.connecting(address: address)))
        actions.append(.connect(address))
    }

    private func bind(_ wall: Int64, _ proof: Credentials) -> Frame {
        let caps = settings.pulls ? capPulls : 0, range = settings.heartbeat
        var it: [Key: Value] = [
            .deviceId: .text(settings.device), .productKey: .text(settings.product),
            .heartbeatWish: .wish(
                [settings.heartbeatWish, range.shortest, range.longest].map { UInt16($0) }),
        ]
        if caps != 0 { it[.caps] = .number(caps) }
        if let most = settings.maxInflight { it[.maxInflight] = .number(UInt64(most)) }
        if let tags = settings.tags { it[.tags] = .texts(tags.isEmpty ? [""] : tags) }
        if let session = session, let epoch = UInt64(session.epoch) {
            it[.resumeToken] = .bytes(session.token)
            it[.sessionEpoch] = .number(epoch)
        }
        claim = nil
        wallMs = wall
        switch proof {
        case .none: break
        case .secret(let secret, let keyId):
            let made = Claim(
                product: settings.product, device: settings.device,
                clientTs: UInt64(max(0, wall + clockOffset)),
                clientNonce: settings.randomBytes(16), caps: caps)
            (claim, self.secret) = (made, secret)
            it[.authType] = .number(1)
            it[.keyId] = .number(UInt64(keyId))
            it[.clientTs] = .number(made.clientTs)
            it[.clientNonce] = .bytes(made.clientNonce)
            it[.mac] = .bytes(made.mac(secret: secret))
        case .token(let token):
            it[.authType] = .number(2)
            it[.token] = .bytes(Array(token.utf8))
        case .certificate: it[.authType] = .number(3)
        }
        return Frame(opcode: Opcode.bind, properties: it)
    }

    // MARK: Frames

    private func handle(_ now: Int64, _ frame: Frame) throws {
        if frame.isSkipped { return }
        switch (frame.opcode, phase) {
        case (Opcode.error, _): takeError(now, frame)
        case (Opcode.kick, _): leave(now, End(of: frame, 0))
        case (Opcode.redirect, _): leave(now, End(of: frame, 33))
        case (Opcode.goAway, .bound):
            // What the server sent before may be acknowledged yet, in this turn.
            (away, due_) = (End(of: frame, 32), now)
        case (Opcode.goAway, _): leave(now, End(of: frame, 32))
        case (Opcode.bindAck, .binding): try takeBindAck(now, frame)
        case (Opcode.challenge, .binding): try takeChallenge(now, frame)
        case (Opcode.unbindAck, .closing): shut("closed")
        case (_, .closing): break
        case (_, .bound): try takeBound(now, frame)
        default: throw Fault("out_of_order")
        }
    }

    private func takeBound(_ now: Int64, _ frame: Frame) throws {
        switch frame.opcode {
        case Opcode.msg: try takeMsg(frame.records ?? [])
        case Opcode.pong: break // all bytes answer a PING: see `heard`
        case Opcode.pull: actions.append(.pulled(Int(frame.number(.offlineCount) ?? 0)))
        case Opcode.config: agreed = max(1, frame.number(.heartbeat).map { Int($0) } ?? agreed)
        case Opcode.reportAck:
            for report in reports.taken(UInt32(frame.number(.reportSeq) ?? 0)) {
                isDirty = true
                actions.append(.stored(report.clientId))
            }
            sendReports(now)
        default: throw Fault("out_of_order")
        }
    }

    private func takeBindAck(_ now: Int64, _ frame: Frame) throws {
        let result = frame.number(.result) ?? 0
        if result > 1 { return leave(now, End(of: frame, 0)) }
        guard let heartbeat = frame.number(.heartbeat) else { throw Fault("missing_property") }
        if let token = frame.bytes(.resumeToken), let epoch = frame.number(.sessionEpoch) {
            session = Saved.Session(token: token, epoch: String(epoch))
            isDirty = true
        }
        (named, follows, lastBound, isClockCorrected) = ([], 0, address, false)
        agreed = max(1, Int(heartbeat))
        become(.bound, nil)
        boundAt = now
        if let (silenceMs, agreed) = suspect {
            // The network was there: it had forgotten the silent connection.
            if self.heartbeat.failed(silenceMs, agreed: agreed) { isDirty = true }
            suspect = nil
        }
        reports.bound()
        actions.append(.state(.bound(
            resumed: result == 1, heartbeat: agreed,
            offlineCount: Int(frame.number(.offlineCount) ?? 0))))
        sendReports(now)
    }

    private func takeChallenge(_ now: Int64, _ frame: Frame) throws {
        guard let claim = claim, !isChallenged else { throw Fault("out_of_order") }
        isChallenged = true
        let mac = claim.mac(secret: secret, serverNonce: frame.bytes(.serverNonce) ?? [])
        send(now, Frame(opcode: Opcode.auth, properties: [.mac: .bytes(mac)]))
    }

    private func takeError(_ now: Int64, _ frame: Frame) {
        if let seq = frame.number(.reportSeq) {
            reports.refused(now, UInt32(seq), settings.random)
        } else if frame.text(.reason) != "unknown_opcode" {
            error = End(of: frame, 50)
        }
    }

    private func takeMsg(_ records: [PushRecord]) throws {
        for record in records where !held.contains(record.id) {
            if seen.contains(record.id) {
                if !acks.contains(record.id) { acks.append(record.id) }
                continue
            }
            if held.count >= Machine.heldMax { throw Fault("too_large") }
            held.insert(record.id)
            actions.append(.push(record))
        }
    }

    // MARK: Sending

    private func send(_ now: Int64, _ frame: Frame) {
        sentAt = now
        actions.append(.send(frame.encoded()))
    }

    private func flushAcks(_ now: Int64) {
        if acks.isEmpty { return }
        let payload = acks.flatMap { bigEndian($0, 8) }
        acks = []
        send(now, Frame(opcode: Opcode.msgAck, payload: payload))
    }

    private func sendReports(_ now: Int64) {
        guard phase == .bound else { return }
        for report in reports.toSend(now) {
            send(now, Frame(opcode: Opcode.report, payload: report.payload, seq: report.seq))
        }
    }

    // MARK: Heartbeat

    private var pingDue: Int64 {
        let silent = max(sentAt, heardAt) + Int64(heartbeat.interval(agreed: agreed)) * 1_000
        return min(silent, sentAt + Int64(agreed) * 1_000)
    }

    private func ping(_ now: Int64) {
        let isLate = now >= pingDue + Machine.lateMs
        pongSilenceMs = isLate ? 0 : now - max(sentAt, heardAt)
        send(now, Frame(opcode: Opcode.ping))
        pongDue = now + Machine.pongMs
    }

    private func heard(_ now: Int64) {
        heardAt = now
        if pongDue == nil { return }
        pongDue = nil
        if heartbeat.survived(pongSilenceMs, agreed: agreed) { isDirty = true }
    }

    private func tickBound(_ now: Int64) {
        if let due = pongDue, now >= due {
            suspect = (pongSilenceMs, agreed)
            return leave(now, End("no_pong"))
        }
        if pongDue == nil && now >= pingDue { ping(now) }
        sendReports(now)
    }

    // MARK: Ends

    /// Closes the connection, and goes on as `end` says.
    private func leave(_ now: Int64, _ end: End) {
        actions.append(.disconnect)
        after(now, end)
    }

    private func after(_ now: Int64, _ end: End) {
        if phase == .closing { return self.end("closed", nil) }
        if phase == .bound {
            backoff.lasted(now - boundAt)
        } else {
            suspect = nil // the network or the server was away
        }
        if !end.addresses.isEmpty { named = end.addresses }
        if correctsClock(end) { return connect(now) }
        if let result = end.result, Machine.permanent.contains(result), end.hintMs == 0 {
            return self.end(end.why, result)
        }
        if !end.addresses.isEmpty && end.hintMs == 0 && follows < Machine.followsMax {
            follows += 1
            return connect(now)
        }
        let until = now + backoff.next(settings.random(), hintMs: end.hintMs)
        become(.waiting, until)
        actions.append(.state(.waiting(until: until, why: end.why, detail: "")))
    }

    private func correctsClock(_ end: End) -> Bool {
        guard end.result == 21, let time = end.serverTime, !isClockCorrected else { return false }
        isClockCorrected = true
        clockOffset = Int64(clamping: time) - wallMs
        return true
    }

    private func shut(_ why: String) {
        actions.append(.disconnect)
        end(why, nil)
    }

    private func end(_ why: String, _ result: Int?) {
        become(.ended, nil)
        actions.append(.state(.ended(why: why, result: result)))
    }
}

func hex(_ bytes: [UInt8]) -> String {
    let digits = Array("0123456789abcdef")
    return String(bytes.flatMap { [digits[Int($0 >> 4)], digits[Int($0 & 15)]] })
}
