// The driver of clients/conformance for this library: JSON lines on standard input and output.

import Foundation
@testable import HoldlineMiop

typealias Json = [String: Any]

let output = NSLock()

func say(_ what: Json) {
    guard let line = try? JSONSerialization.data(withJSONObject: what) else {
        fatalError("not JSON: \(what)")
    }
    output.lock()
    FileHandle.standardOutput.write(line + Data([10]))
    output.unlock()
}

func hexText(_ bytes: [UInt8]) -> String {
    bytes.map { String(format: "%02x", $0) }.joined()
}

func fromHex(_ text: Any?) -> [UInt8] {
    let digits = Array(((text as? String) ?? "").utf8)
    return stride(from: 0, to: digits.count, by: 2).map {
        UInt8(String(decoding: digits[$0..<$0 + 2], as: UTF8.self), radix: 16)!
    }
}

let names: [Key: String] = [
    .deviceId: "device_id", .productKey: "product_key", .clientTs: "client_ts",
    .heartbeatWish: "heartbeat_wish", .heartbeat: "heartbeat", .clientNonce: "client_nonce",
    .serverNonce: "server_nonce", .authType: "auth_type", .keyId: "key_id", .mac: "mac",
    .token: "token", .resumeToken: "resume_token", .lastMsgId: "last_msg_id",
    .sessionEpoch: "session_epoch", .result: "result", .reason: "reason",
    .retryAfterMs: "retry_after_ms", .addrs: "addrs", .caps: "caps", .maxFrame: "max_frame",
    .maxInflight: "max_inflight", .ackTimeoutMs: "ack_timeout_ms", .offlineCount: "offline_count",
    .serverTime: "server_time", .tags: "tags", .count: "count", .reportSeq: "report_seq",
]

func json(of value: Value, _ key: Key) -> Any {
    switch value {
    case .number(let number): return key.form.width == 8 ? String(number) : number
    case .text(let text): return text
    case .bytes(let bytes): return hexText(bytes)
    case .wish(let wish): return wish
    case .texts(let texts): return texts
    }
}

func json(of record: PushRecord) -> Json {
    [
        "id": String(record.id), "app_id": record.appId, "silent": record.isSilent,
        "high": record.isHigh, "expire_at": record.expireAt, "collapse": hexText(record.collapse),
        "body": hexText(record.body),
    ]
}

func json(of frame: Frame) -> Json {
    if frame.isSkipped { return ["opcode": frame.opcode, "skipped": true] }
    var properties: Json = [:]
    for (key, value) in frame.properties { properties[names[key]!] = json(of: value, key) }
    var out: Json = ["opcode": frame.opcode, "properties": properties]
    if let records = frame.records {
        out["records"] = records.map { json(of: $0) }
    } else {
        out["payload"] = hexText(frame.payload)
    }
    if frame.isAckRequested { out["ack_req"] = true }
    if frame.isDup { out["dup"] = true }
    if let seq = frame.seq { out["seq"] = seq }
    return out
}

func value(of json: Any, _ key: Key) -> Value {
    switch key.form.kind {
    case .number:
        return .number((json as? String).flatMap { UInt64($0) } ?? (json as! NSNumber).uint64Value)
    case .text: return .text(json as! String)
    case .bytes: return .bytes(fromHex(json))
    case .wish: return .wish((json as! [NSNumber]).map { $0.uint16Value })
    case .texts: return .texts(json as! [String])
    }
}

func frame(of json: Json) -> Frame {
    var out = Frame(opcode: (json["opcode"] as! NSNumber).uint8Value)
    for (name, it) in json["properties"] as! Json {
        let key = names.first { $0.value == name }!.key
        out.properties[key] = value(of: it, key)
    }
    out.payload = fromHex(json["payload"])
    out.seq = (json["seq"] as? NSNumber)?.uint32Value
    return out
}

/// A store that can break.
final class BreakableStore: Store {
    struct Broken: Error {}

    let kept: MemoryStore
    var isBroken = false

    init(_ text: String?) {
        kept = MemoryStore(text)
    }

    func load() -> String? { kept.text }

    func save(_ text: String) throws {
        if isBroken { throw Broken() }
        kept.save(text)
    }
}

final class Driver {
    private var client: Client?
    private var clock = ManualClock()
    private var store = BreakableStore(nil)
    private var held: [UInt64: Push] = [:] // of the client's queue

    func answer(_ command: Json) throws -> Json {
        let number = { (name: String) in (command[name] as? NSNumber)?.int64Value }
        let text = { (name: String) in command[name] as? String }
        switch text("do")! {
        case "hello":
            return ["library": "miop-swift", "version": miopVersion, "features": ["detail", "break_store"]]
        case "decode":
            let limit = Int(number("frame_bytes_max") ?? 65_536)
            do {
                let found = try Frame.decode(fromHex(command["bytes"]), bytesMax: limit)
                return found.map { ["frame": json(of: $0.frame), "length": $0.length] } ?? ["more": true]
            } catch {
                return ["fault": (error as! Fault).name]
            }
        case "encode":
            return ["bytes": hexText(frame(of: command["frame"] as! Json).encoded())]
        case "mac":
            let claim = Claim(
                product: text("product")!, device: text("device")!,
                clientTs: UInt64(text("client_ts")!)!, clientNonce: fromHex(text("client_nonce")),
                caps: UInt64(number("caps")!))
            let mac = claim.mac(
                secret: fromHex(text("secret")), serverNonce: fromHex(text("server_nonce")))
            return ["mac": hexText(mac)]
        case "open": try open(command)
        case "time":
            let next = client!.queue.sync { clock.advance(number("ms")!) }
            return ["next": next ?? NSNull()]
        case "acknowledge", "reject":
            let push = client!.queue.sync { held.removeValue(forKey: UInt64(text("id")!)!)! }
            text("do") == "acknowledge" ? push.acknowledge() : push.reject()
        case "report":
            do {
                let payload = fromHex(command["payload"])
                return ["client_id": try client!.report(payload, clientId: text("client_id"))]
            } catch ReportError.queueFull {
                return ["error": "queue_full"]
            }
        case "opened", "dismissed":
            let id = UInt64(text("id")!)!, isOpened = text("do") == "opened"
            let name = try isOpened ? client!.opened(id) : client!.dismissed(id)
            return ["client_id": name]
        case "pull": client!.pull(UInt16(number("count")!))
        case "break_store": client!.queue.sync { store.isBroken = command["broken"] as! Bool }
        case "nudge": client!.nudge()
        case "network": client!.network(text("name")!)
        case "close": client!.close()
        case "kill":
            client!.queue.sync { client!.abandon() }
            client = nil
            return ["state": store.kept.text ?? NSNull()]
        default: return ["error": "unknown command"]
        }
        client?.queue.sync {} // all that follows is done
        return [:]
    }

    private func open(_ command: Json) throws {
        let product = command["product"] as! String, device = command["device"] as! String
        var options = Options("", product: product, device: device)
        options.addresses = command["addresses"] as! [String]
        let number = { (name: String) in (command[name] as? NSNumber)?.int64Value }
        var proof = Credentials.none
        if let secret = command["secret"] {
            proof = .secret(fromHex(secret), keyId: UInt32(number("key_id") ?? 0))
        } else if let token = command["token"] as? String {
            proof = .token(token)
        }
        options.credentials = { $0(.success(proof)) }
        clock = ManualClock(wall: number("wall_ms") ?? 1_700_000_000_000)
        store = BreakableStore(command["state"] as? String)
        (options.clock, options.store) = (clock, store)
        options.tags = command["tags"] as? [String]
        options.maxInflight = number("max_inflight").map { UInt16($0) }
        options.pulls = command["pulls"] as? Bool ?? false
        options.heartbeatWish = UInt16(number("heartbeat_wish") ?? 0)
        if let range = command["heartbeat"] as? [String: NSNumber] {
            options.heartbeat = HeartbeatRange(
                shortest: range["shortest"]!.intValue, first: range["first"]!.intValue,
                longest: range["longest"]!.intValue)
        }
        let random = (command["random"] as? NSNumber)?.doubleValue ?? 0.5
        options.random = { random }
        options.isManual = command["acknowledge"] as? String == "manual"
        held = [:]
        options.onPush = { [unowned self] push in
            self.held[push.id] = push
            say(json(of: push.record).merging(["event": "push"]) { $1 })
        }
        options.onState = { say(event(of: $0)) }
        options.onStored = { say(["event": "stored", "client_id": $0]) }
        options.onPulled = { say(["event": "pulled", "remaining": $0]) }
        options.onFrame = { say(["event": "frame", "opcode": $0]) }
        let made = try Client(options)
        client = made
        made.start()
    }
}

func event(of state: State) -> Json {
    var out: Json = ["event": "state"]
    switch state {
    case .idle: out["state"] = "idle"
    case .connecting(let address): out.merge(["state": "connecting", "address": address]) { $1 }
    case .binding: out["state"] = "binding"
    case .bound(let resumed, let heartbeat, let offlineCount):
        let more: Json = [
            "state": "bound", "resumed": resumed, "heartbeat": heartbeat,
            "offline_count": offlineCount,
        ]
        out.merge(more) { $1 }
    case .waiting(let until, let why, let detail):
        out.merge(["state": "waiting", "until": until, "why": why, "detail": detail]) { $1 }
    case .closing: out["state"] = "closing"
    case .ended(let why, let result):
        out.merge(["state": "ended", "why": why]) { $1 }
        if let result = result { out["result"] = result }
    }
    return out
}

let driver = Driver()
while let line = readLine() {
    guard let command = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? Json else {
        fatalError("not a command: \(line)")
    }
    var answer: Json
    do {
        answer = try driver.answer(command)
    } catch {
        answer = ["error": String(describing: error)]
    }
    answer["n"] = command["n"]
    say(answer)
}
