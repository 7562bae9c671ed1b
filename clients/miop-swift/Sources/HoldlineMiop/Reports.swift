// Reports that wait for the server: in order, each under one number until it was taken.

/// Why a Report was not queued.
public enum ReportError: Error {
    /// 256 Reports, or 1 MiB, wait already.
    case queueFull
}

struct Report: Codable {
    let seq: UInt32
    let clientId: String
    let payload: [UInt8]
    var isSent = false

    private enum CodingKeys: String, CodingKey { case seq, clientId, payload }
}

struct Reports {
    private static let countMax = 256
    private static let bytesMax = 1 << 20
    private static let inFlightMax = 16
    private static let pauseFirstMs = 5_000.0
    private static let pauseLongestMs = 300_000.0

    private(set) var queue: [Report]
    private(set) var nextSeq: UInt32
    private var pauseMs = Reports.pauseFirstMs
    /// No Report is sent before this time; nil: no pause.
    private(set) var pausedUntil: Int64?

    init(queue: [Report] = [], nextSeq: UInt32 = 1) {
        (self.queue, self.nextSeq) = (queue, nextSeq)
    }

    /// Queues one; false if its client id is queued already.
    mutating func add(_ clientId: String, _ payload: [UInt8]) throws -> Bool {
        if queue.contains(where: { $0.clientId == clientId }) { return false }
        let bytes = queue.reduce(0) { $0 + $1.payload.count }
        if queue.count >= Reports.countMax || bytes + payload.count > Reports.bytesMax {
            throw ReportError.queueFull
        }
        queue.append(Report(seq: nextSeq, clientId: clientId, payload: payload))
        nextSeq = nextSeq == .max ? 1 : nextSeq + 1
        return true
    }

    /// A new session: what was in flight is sent again.
    mutating func bound() {
        for at in queue.indices { queue[at].isSent = false }
    }

    /// Those that may be sent now; they count as sent.
    mutating func toSend(_ now: Int64) -> [Report] {
        if let until = pausedUntil {
            if now < until { return [] }
            pausedUntil = nil
        }
        var room = Reports.inFlightMax - queue.filter(\.isSent).count, found: [Report] = []
        for at in queue.indices where !queue[at].isSent && room > 0 {
            queue[at].isSent = true
            found.append(queue[at])
            room -= 1
        }
        return found
    }

    /// The server has all that are in flight up to this number.
    mutating func taken(_ seq: UInt32) -> [Report] {
        let isTaken = { (it: Report) in it.isSent && seq &- it.seq < 1 << 31 }
        let gone = queue.filter(isTaken)
        queue.removeAll(where: isTaken)
        if !gone.isEmpty { pauseMs = Reports.pauseFirstMs }
        return gone
    }

    /// The server did not take this one: all wait for a while.
    mutating func refused(_ now: Int64, _ seq: UInt32, _ random: () -> Double) {
        guard let at = queue.firstIndex(where: { $0.seq == seq && $0.isSent }) else { return }
        queue[at].isSent = false
        pausedUntil = now + Int64(pauseMs / 2 + random() * pauseMs / 2)
        pauseMs = min(pauseMs * 2, Reports.pauseLongestMs)
    }
}
