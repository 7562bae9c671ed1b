import Foundation

// Frames of MIOP 7 (docs/wire/miop.md): bytes to values and back. It knows no state: which frame is
// allowed when, the machine decides. A fault has its name of MIOP 9.

enum Opcode {
    static let ping: UInt8 = 0, pong: UInt8 = 1, bind: UInt8 = 2, msg: UInt8 = 3, msgAck: UInt8 = 4
    static let unbind: UInt8 = 5, bindAck: UInt8 = 6, unbindAck: UInt8 = 7, report: UInt8 = 8
    static let reportAck: UInt8 = 9, kick: UInt8 = 10, redirect: UInt8 = 11, challenge: UInt8 = 12
    static let auth: UInt8 = 13, config: UInt8 = 14, pull: UInt8 = 15, goAway: UInt8 = 16
    static let error: UInt8 = 17
}

private enum Flag {
    static let body: UInt8 = 1, seq: UInt8 = 2, ackReq: UInt8 = 4, compressed: UInt8 = 8
    static let more: UInt8 = 0x10, dup: UInt8 = 0x20, mustUnderstand: UInt8 = 0x80
}

/// The device fetches stored pushes with PULL.
let capPulls: UInt64 = 2
private let propertiesBytesMax = 8_192
private let valueBytesMax = 512
private let addressesMax = 4
private let addressBytesMax = 64
private let tagsMax = 64

/// The server sent what it must not; the name is one of MIOP 9.
struct Fault: Error {
    let name: String

    init(_ name: String) {
        self.name = name
    }
}

/// A push as it is in a MSG (MIOP 5.5).
public struct PushRecord {
    /// Unique; the same if the push comes again.
    public let id: UInt64
    public let appId: UInt32
    /// Show nothing.
    public let isSilent: Bool
    /// It may have overtaken others.
    public let isHigh: Bool
    /// Unix second after which the push means nothing; 0: deliver now or never.
    public let expireAt: UInt32
    public let collapse: [UInt8]
    public let body: [UInt8]
}

enum Kind {
    case number, text, bytes, wish, texts
}

/// Properties (MIOP 5.4), in the order in which they are written.
enum Key: UInt8, CaseIterable {
    case deviceId = 1, productKey, clientTs, heartbeatWish, heartbeat, clientNonce, serverNonce
    case authType, keyId, mac, token, resumeToken, lastMsgId, sessionEpoch, result, reason
    case retryAfterMs, addrs = 19, caps, maxFrame, maxInflight, ackTimeoutMs, offlineCount = 27
    case serverTime, tags = 30, count, reportSeq = 33

    /// What its value is, and of how many bytes; 0: any.
    var form: (kind: Kind, width: Int) {
        switch self {
        case .deviceId, .productKey, .reason: return (.text, 0)
        case .clientTs, .lastMsgId, .sessionEpoch, .serverTime: return (.number, 8)
        case .keyId, .retryAfterMs, .caps, .maxFrame, .ackTimeoutMs, .offlineCount, .reportSeq:
            return (.number, 4)
        case .heartbeat, .maxInflight, .count: return (.number, 2)
        case .authType, .result: return (.number, 1)
        case .heartbeatWish: return (.wish, 6)
        case .clientNonce, .serverNonce: return (.bytes, 16)
        case .mac, .resumeToken: return (.bytes, 32)
        case .token: return (.bytes, 0)
        case .addrs, .tags: return (.texts, 0)
        }
    }
}

enum Value {
    case number(UInt64), text(String), bytes([UInt8]), wish([UInt16]), texts([String])
}

/// Of a MSG the payload is in `records`; an unknown opcode is skipped unread.
struct Frame {
    var opcode: UInt8
    var properties: [Key: Value] = [:]
    var payload: [UInt8] = []
    var seq: UInt32?
    var isAckRequested = false
    var isDup = false
    var records: [PushRecord]?
    var isSkipped = false

    func number(_ key: Key) -> UInt64? {
        if case .number(let number)? = properties[key] { return number }
        return nil
    }

    func bytes(_ key: Key) -> [UInt8]? {
        if case .bytes(let bytes)? = properties[key] { return bytes }
        return nil
    }

    func text(_ key: Key) -> String? {
        if case .text(let text)? = properties[key] { return text }
        return nil
    }

    func texts(_ key: Key) -> [String] {
        if case .texts(let texts)? = properties[key] { return texts }
        return []
    }
}

/// The word of a result (MIOP 9).
func word(ofResult result: Int) -> String {
    let words = [
        0: "bound", 1: "resumed", 10: "malformed", 11: "version", 12: "too_large", 20: "auth_failed",
        21: "clock_skew", 22: "replay", 23: "unknown_product", 24: "device_blocked", 30: "busy",
        31: "quota", 32: "draining", 33: "redirect", 40: "replaced", 41: "kicked",
        42: "heartbeat_timeout", 43: "slow_consumer", 44: "bind_timeout", 50: "internal",
    ]
    return words[result] ?? "result_\(result)"
}

// MARK: - Writing

/// A number in so many bytes, the most significant first.
func bigEndian(_ number: UInt64, _ width: Int) -> [UInt8] {
    (0..<width).map { UInt8(truncatingIfNeeded: number >> UInt64(8 * (width - 1 - $0))) }
}

private func varint(_ value: Int) -> [UInt8] {
    var out: [UInt8] = [], number = value
    while number > 0x7f {
        out.append(UInt8(number & 0x7f) | 0x80)
        number >>= 7
    }
    return out + [UInt8(number)]
}

extension Frame {
    /// The bytes of a device's frame.
    func encoded() -> [UInt8] {
        var block: [UInt8] = []
        for key in Key.allCases {
            for value in encodedValues(key) {
                block += [key.rawValue] + varint(value.count) + value
            }
        }
        if seq == nil && block.isEmpty && payload.isEmpty {
            return [0, 7, 0, opcode]
        }
        let number = seq.map { bigEndian(UInt64($0), 4) } ?? []
        let body = number + varint(block.count) + block + payload
        let flags = Flag.body | (seq == nil ? 0 : Flag.seq)
        return [0, 7, flags, opcode] + bigEndian(UInt64(body.count), 4) + body
    }

    private func encodedValues(_ key: Key) -> [[UInt8]] {
        switch properties[key] {
        case nil: return []
        case .number(let number)?: return [bigEndian(number, key.form.width)]
        case .text(let text)?: return [Array(text.utf8)]
        case .bytes(let bytes)?: return [bytes]
        case .wish(let wish)?: return [wish.flatMap { bigEndian(UInt64($0), 2) }]
        case .texts(let texts)?: return texts.map { Array($0.utf8) }
        }
    }
}

/// What a device signs in a BIND, or in its answer to a challenge (MIOP 6.1).
struct Claim {
    var product = "", device = ""
    var clientTs: UInt64 = 0
    var clientNonce: [UInt8] = []
    var caps: UInt64 = 0

    func mac(secret: [UInt8], serverNonce: [UInt8] = []) -> [UInt8] {
        let parts = [
            Array("MIOP7-BIND".utf8), Array(product.utf8), Array(device.utf8),
            bigEndian(clientTs, 8), clientNonce, bigEndian(caps, 4), [], serverNonce,
        ]
        return hmacSha256(key: secret, parts.flatMap { bigEndian(UInt64($0.count), 2) + $0 })
    }
}

// MARK: - Reading

/// Reads bytes from the front. What is cut off is a fault.
private struct Reader {
    let data: ArraySlice<UInt8>
    var at: Int

    init(_ data: ArraySlice<UInt8>) {
        self.data = data
        at = data.startIndex
    }

    var isAtEnd: Bool { at == data.endIndex }
    var rest: [UInt8] { Array(data[at...]) }

    mutating func take(_ count: Int) throws -> ArraySlice<UInt8> {
        guard count <= data.endIndex - at else { throw Fault("bad_length") }
        defer { at += count }
        return data[at..<at + count]
    }

    mutating func number(_ width: Int) throws -> UInt64 {
        try take(width).reduce(0) { $0 << 8 | UInt64($1) }
    }

    mutating func varint() throws -> Int {
        var number: UInt64 = 0
        for width in 0..<5 {
            let byte = UInt8(try self.number(1))
            if (width > 0 && byte == 0) || (width == 4 && byte > 0x0f) { throw Fault("bad_length") }
            number |= UInt64(byte & 0x7f) << UInt64(7 * width)
            if byte < 0x80 { return Int(number) }
        }
        throw Fault("bad_length")
    }

    mutating func block() throws -> ArraySlice<UInt8> {
        try take(try varint())
    }
}

extension Frame {
    /// The frame at the front and its length; nil if more bytes are needed.
    static func decode(_ data: [UInt8], bytesMax: Int) throws -> (frame: Frame, length: Int)? {
        try checkVersion(data)
        guard data.count >= 4 else { return nil }
        let flags = data[2]
        if flags & Flag.mustUnderstand != 0 { throw Fault("must_understand") }
        if flags & (Flag.compressed | Flag.more) != 0 || flags & (Flag.seq | Flag.body) == Flag.seq {
            throw Fault("bad_flags")
        }
        var frame = Frame(opcode: data[3])
        frame.isAckRequested = flags & Flag.ackReq != 0
        frame.isDup = flags & Flag.dup != 0
        frame.isSkipped = frame.opcode > Opcode.error
        var end = 4
        if flags & Flag.body != 0 {
            guard data.count >= 8 else { return nil }
            var length = Reader(data[4..<8])
            end = 8 + Int(try length.number(4))
            if end > bytesMax { throw Fault("too_large") }
            guard data.count >= end else { return nil }
            if !frame.isSkipped { try frame.readBody(data[8..<end], flags & Flag.seq != 0) }
        }
        if !frame.isSkipped { try frame.checkContent() }
        return (frame, end)
    }

    private static func checkVersion(_ data: [UInt8]) throws {
        if let first = data.first, first != 0 { throw Fault("unknown_version") }
        guard data.count >= 2, data[1] != 7 else { return }
        let isOlder = data[1] == 5 || data[1] == 6
        throw Fault(data[1] > 7 ? "newer_version" : isOlder ? "version_changed" : "unknown_version")
    }

    private mutating func readBody(_ body: ArraySlice<UInt8>, _ hasSeq: Bool) throws {
        var reader = Reader(body)
        if hasSeq { seq = UInt32(try reader.number(4)) }
        let block = try reader.block()
        if block.count > propertiesBytesMax { throw Fault("too_large") }
        var properties = Reader(block)
        while !properties.isAtEnd {
            let key = UInt8(try properties.number(1))
            try readProperty(key, try properties.block())
        }
        payload = reader.rest
    }

    private mutating func readProperty(_ number: UInt8, _ value: ArraySlice<UInt8>) throws {
        if value.count > valueBytesMax { throw Fault("bad_property") }
        guard let key = Key(rawValue: number) else {
            if number >= 128 { throw Fault("critical_property") }
            return
        }
        let (kind, width) = key.form
        if kind == .texts {
            properties[key] = .texts(try texts(key) + [Frame.listed(key, value, texts(key).count)])
            return
        }
        if properties[key] != nil || (width > 0 && value.count != width) {
            throw Fault("bad_property")
        }
        var reader = Reader(value)
        switch kind {
        case .number: properties[key] = .number(try reader.number(width))
        case .wish:
            properties[key] = .wish(try (0..<3).map { _ in UInt16(try reader.number(2)) })
        case .bytes: properties[key] = .bytes(Array(value))
        default: properties[key] = .text(String(decoding: value, as: UTF8.self))
        }
    }

    private static func listed(_ key: Key, _ value: ArraySlice<UInt8>, _ count: Int) throws -> String {
        if key == .tags && count == tagsMax { throw Fault("too_large") }
        let isAddress = 1...addressBytesMax ~= value.count && count < addressesMax
        guard key == .tags || isAddress, let text = String(bytes: value, encoding: .utf8) else {
            throw Fault("bad_property")
        }
        return text
    }

    /// Checks of the specification on frames that a device reads. What else a BIND_ACK that lets in
    /// must have, the machine checks.
    private mutating func checkContent() throws {
        let needed: [UInt8: Key] = [
            Opcode.bindAck: .result, Opcode.challenge: .serverNonce, Opcode.reportAck: .reportSeq,
        ]
        if let key = needed[opcode], properties[key] == nil { throw Fault("missing_property") }
        if opcode == Opcode.msg {
            records = try Frame.readRecords(payload)
            payload = []
        }
    }

    private static func readRecords(_ payload: [UInt8]) throws -> [PushRecord] {
        var reader = Reader(payload[...]), records: [PushRecord] = []
        while !reader.isAtEnd {
            do {
                let id = try reader.number(8), appId = try reader.number(4)
                let flags = try reader.number(1), expireAt = try reader.number(4)
                let collapse = try reader.block(), body = try reader.block()
                if flags & 8 != 0 { throw Fault("bad_record") }
                records.append(PushRecord(
                    id: id, appId: UInt32(appId), isSilent: flags & 2 != 0, isHigh: flags & 4 != 0,
                    expireAt: UInt32(expireAt), collapse: Array(collapse), body: Array(body)))
            } catch {
                throw Fault("bad_record")
            }
        }
        if records.isEmpty { throw Fault("empty_block") }
        return records
    }
}
