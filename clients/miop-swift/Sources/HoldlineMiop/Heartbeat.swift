// How long a connection may be silent: what a network allows is found and remembered.
//
// NATs and proxies forget silent connections sooner than servers do. The interval grows while PINGs
// are answered, and is searched for between the longest that worked and the shortest that failed.
// All numbers are seconds.

/// Shortest, first and longest interval between PINGs, seconds.
public struct HeartbeatRange {
    public var shortest, first, longest: Int

    public init(shortest: Int = 30, first: Int = 120, longest: Int = 1_800) {
        (self.shortest, self.first, self.longest) = (shortest, first, longest)
    }

    var isValid: Bool {
        1 <= shortest && shortest <= first && first <= longest && longest <= 65_535
    }
}

/// What is known about a network; 0: nothing worked, nothing failed.
struct Learned: Codable, Equatable {
    var network: String
    var interval: Int
    var worked = 0
    var failed = 0
}

struct Heartbeat {
    /// Answered PINGs at an interval before a longer one is tried.
    private static let growAfter = 2
    /// Answered PINGs after which an upper bound is forgotten, because networks change.
    private static let forgetAfter = 50
    private static let networksMax = 16

    let range: HeartbeatRange
    /// The network that is used is the last one.
    private(set) var learned: [Learned] = []
    private var answered = 0
    private var sinceSettled = 0

    init(_ range: HeartbeatRange, _ stored: [Learned]) {
        self.range = range
        learned = stored.suffix(Heartbeat.networksMax).map { stored in
            var it = stored
            it.interval = min(max(it.interval, range.shortest), range.longest)
            return it
        }
        use("", keepsCount: true)
    }

    /// The device is in this network now.
    mutating func use(_ network: String) {
        if learned.last?.network != network { use(network, keepsCount: false) }
    }

    private mutating func use(_ network: String, keepsCount: Bool) {
        let at = learned.firstIndex { $0.network == network }
        let found = at.map { learned.remove(at: $0) }
        learned.append(found ?? Learned(network: network, interval: range.first))
        if learned.count > Heartbeat.networksMax { learned.removeFirst() }
        if !keepsCount { (answered, sinceSettled) = (0, 0) }
    }

    private var it: Learned {
        get { learned[learned.count - 1] }
        set { learned[learned.count - 1] = newValue }
    }

    /// The agreed heartbeat is never exceeded.
    func interval(agreed: Int) -> Int {
        max(1, min(it.interval, agreed))
    }

    /// A PING after so much silence was answered. True if something was learned.
    mutating func survived(_ silenceMs: Int64, agreed: Int) -> Bool {
        let before = it, tried = min(it.interval, agreed)
        if silenceMs < Int64(tried) * 1_000 { return false }
        answered += 1
        it.worked = max(it.worked, tried)
        if it.failed > 0 && it.failed - it.worked <= max(10, it.worked / 8) {
            sinceSettled += 1
            if sinceSettled >= Heartbeat.forgetAfter {
                it.failed = 0
                (answered, sinceSettled) = (0, 0)
            }
        } else if answered >= Heartbeat.growAfter {
            let longer = it.failed > 0 ? (it.worked + it.failed) / 2 : it.interval * 3 / 2
            it.interval = max(it.interval, min(longer, agreed, range.longest))
            answered = 0
        }
        return it != before
    }

    /// A connection died of so much silence. True if something was learned.
    mutating func failed(_ silenceMs: Int64, agreed: Int) -> Bool {
        let interval = min(it.interval, agreed)
        if silenceMs < Int64(interval) * 1_000 { return false }
        if it.worked >= interval { it.worked = 0 } // it worked once: the network has changed
        it.failed = interval
        it.interval = max(range.shortest, it.worked > 0 ? it.worked : interval / 2)
        (answered, sinceSettled) = (0, 0)
        return true
    }
}
