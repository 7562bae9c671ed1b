import Dispatch
import Foundation

/// The time of a client, milliseconds.
public protocol Clock: AnyObject {
    /// A clock that never goes back. It should go on while the device sleeps, so that the client
    /// knows how long it was silent.
    func now() -> Int64
    /// Unix time.
    func wall() -> Int64
    /// Calls `what` on the queue at a time of `now`, instead of the call that was arranged before;
    /// nil: arranges for none.
    func wake(at: Int64?, on queue: DispatchQueue, _ what: @escaping () -> Void)
}

/// The system's.
public final class SystemClock: Clock {
    private var next: (at: Int64, call: DispatchWorkItem)?

    public init() {}

    public func now() -> Int64 {
        var time = timespec()
        #if os(Linux)
            clock_gettime(CLOCK_BOOTTIME, &time)
        #else
            clock_gettime(CLOCK_MONOTONIC, &time) // goes on during sleep on Apple's systems
        #endif
        return Int64(time.tv_sec) * 1_000 + Int64(time.tv_nsec) / 1_000_000
    }

    public func wall() -> Int64 {
        Int64(Date().timeIntervalSince1970 * 1_000)
    }

    public func wake(at: Int64?, on queue: DispatchQueue, _ what: @escaping () -> Void) {
        if let next = next, next.at == at, !next.call.isCancelled { return }
        next?.call.cancel()
        next = nil
        guard let at = at else { return }
        let call = DispatchWorkItem { [weak self] in
            self?.next = nil
            what()
        }
        next = (at, call)
        // Not of the wall clock, which may be set back by a year. This one stands still while the
        // device sleeps: `nudge` on waking up.
        queue.asyncAfter(deadline: .now() + .milliseconds(Int(max(0, at - now()))), execute: call)
    }
}

/// Stands still until `advance` moves it: for tests.
public final class ManualClock: Clock {
    private var time: Int64 = 0
    private let wallAtZero: Int64
    private var next: (at: Int64, what: () -> Void)?

    public init(wall: Int64 = 1_700_000_000_000) {
        wallAtZero = wall
    }

    public func now() -> Int64 { time }

    public func wall() -> Int64 { wallAtZero + time }

    public func wake(at: Int64?, on queue: DispatchQueue, _ what: @escaping () -> Void) {
        next = at.map { ($0, what) }
    }

    /// Sets the time and runs what is due; when something is due next. Call it on the client's queue.
    public func advance(_ now: Int64) -> Int64? {
        time = now
        while let (at, what) = next, at <= now {
            next = nil
            what()
        }
        return next?.at
    }
}
