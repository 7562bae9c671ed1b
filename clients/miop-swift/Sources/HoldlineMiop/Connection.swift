import Dispatch
import Foundation

/// A connection, or the attempt to make one.
public protocol Connection: AnyObject {
    func send(_ bytes: [UInt8])
    /// Ends it when what was sent has left. Nothing is told any more.
    func close()
}

/// What a connection tells, on the client's queue.
public struct ConnectionEvents {
    public let queue: DispatchQueue
    /// It is open; `isSafe`: nobody else can read it, because it has TLS or leads to this machine.
    public let opened: (_ isSafe: Bool) -> Void
    public let received: ([UInt8]) -> Void
    /// It could not be opened (`connect_failed`, `pin_mismatch`), or has ended (`lost`); and what the
    /// system said.
    public let closed: (_ why: String, _ detail: String) -> Void
}

/// Makes connections to `host:port`.
public protocol Connector {
    func connect(_ address: String, _ events: ConnectionEvents) -> Connection
}

/// TCP by the system's sockets, without TLS.
public struct SocketConnector: Connector {
    public init() {}

    public func connect(_ address: String, _ events: ConnectionEvents) -> Connection {
        SocketConnection(address, events)
    }
}

/// A thread connects and reads; the client's queue writes.
private final class SocketConnection: Connection {
    private static let connectMs: Int32 = 15_000
    private static let sendS = 10

    private let events: ConnectionEvents
    private var socket: Int32 = -1 // of the client's queue
    private var isClosed = false // of the client's queue

    init(_ address: String, _ events: ConnectionEvents) {
        self.events = events
        let thread = Thread { self.run(address) }
        thread.name = "holdline-miop"
        thread.start()
    }

    func send(_ bytes: [UInt8]) {
        var at = 0
        while socket >= 0 && at < bytes.count {
            #if os(Linux)
                let flags = Int32(MSG_NOSIGNAL)
            #else
                let flags: Int32 = 0 // SO_NOSIGPIPE
            #endif
            let count = bytes[at...].withUnsafeBytes {
                Foundation.send(socket, $0.baseAddress, $0.count, flags)
            }
            if count <= 0 && errno != EINTR {
                shutdown(socket, Int32(SHUT_RDWR.value)) // the reader sees the end
                return
            }
            at += max(0, count)
        }
    }

    func close() {
        isClosed = true
        if socket >= 0 { shutdown(socket, Int32(SHUT_RDWR.value)) }
        socket = -1
    }

    private func run(_ address: String) {
        let made: Int32
        do {
            made = try open(address)
        } catch {
            return tell { $0.closed("connect_failed", String(describing: error)) }
        }
        let isSafe = isLoopback(made)
        events.queue.async {
            if self.isClosed {
                shutdown(made, Int32(SHUT_RDWR.value))
            } else {
                self.socket = made
                self.events.opened(isSafe)
            }
        }
        var buffer = [UInt8](repeating: 0, count: 16_384)
        while true {
            let count = recv(made, &buffer, buffer.count, 0)
            if count < 0 && errno == EINTR { continue }
            if count <= 0 { break }
            let bytes = Array(buffer[..<count])
            tell { $0.received(bytes) }
        }
        events.queue.async {
            self.socket = -1
            Foundation.close(made)
        }
        tell { $0.closed("lost", "") }
    }

    private func tell(_ what: @escaping (ConnectionEvents) -> Void) {
        events.queue.async {
            if !self.isClosed { what(self.events) }
        }
    }

    /// Tries the addresses of a host one after the other.
    private func open(_ address: String) throws -> Int32 {
        guard let colon = address.lastIndex(of: ":") else {
            throw SystemError(address, EINVAL)
        }
        let host = address[..<colon].trimmingCharacters(in: CharacterSet(charactersIn: "[]"))
        var hints = addrinfo(), found: UnsafeMutablePointer<addrinfo>?
        hints.ai_socktype = Int32(SOCK_STREAM.value)
        let code = getaddrinfo(host, String(address[address.index(after: colon)...]), &hints, &found)
        guard code == 0 else {
            throw NameError(description: "\(host): \(String(cString: gai_strerror(code)))")
        }
        defer { freeaddrinfo(found) }
        var failure = SystemError(address, EADDRNOTAVAIL)
        var next = found
        while let it = next {
            let made = Foundation.socket(it.pointee.ai_family, it.pointee.ai_socktype, 0)
            if made >= 0 {
                if isConnected(made, it.pointee.ai_addr, it.pointee.ai_addrlen) { return made }
                failure = SystemError(address)
                Foundation.close(made)
            }
            next = it.pointee.ai_next
        }
        throw failure
    }

    private func isConnected(_ made: Int32, _ to: UnsafeMutablePointer<sockaddr>?, _ size: socklen_t)
        -> Bool {
        var yes: Int32 = 1, patience = timeval(tv_sec: SocketConnection.sendS, tv_usec: 0)
        setsockopt(made, Int32(IPPROTO_TCP), TCP_NODELAY, &yes, socklen_t(MemoryLayout<Int32>.size))
        setsockopt(made, SOL_SOCKET, SO_SNDTIMEO, &patience, socklen_t(MemoryLayout<timeval>.size))
        #if !os(Linux)
            setsockopt(made, SOL_SOCKET, SO_NOSIGPIPE, &yes, socklen_t(MemoryLayout<Int32>.size))
        #endif
        let flags = fcntl(made, F_GETFL)
        _ = fcntl(made, F_SETFL, flags | O_NONBLOCK)
        if Foundation.connect(made, to, size) != 0 {
            guard errno == EINPROGRESS else { return false }
            var wait = pollfd(fd: made, events: Int16(POLLOUT), revents: 0)
            guard poll(&wait, 1, SocketConnection.connectMs) > 0 else {
                errno = ETIMEDOUT
                return false
            }
            var code: Int32 = 0, size = socklen_t(MemoryLayout<Int32>.size)
            getsockopt(made, SOL_SOCKET, SO_ERROR, &code, &size)
            guard code == 0 else {
                errno = code
                return false
            }
        }
        _ = fcntl(made, F_SETFL, flags)
        return true
    }
}

private struct NameError: Error, CustomStringConvertible {
    let description: String
}

private func isLoopback(_ socket: Int32) -> Bool {
    var peer = sockaddr_storage(), size = socklen_t(MemoryLayout<sockaddr_storage>.size)
    var name = [CChar](repeating: 0, count: 256)
    let code = withUnsafeMutablePointer(to: &peer) {
        $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { (it: UnsafeMutablePointer<sockaddr>) -> Int32 in
            if getpeername(socket, it, &size) != 0 { return -1 }
            return getnameinfo(it, size, &name, socklen_t(name.count), nil, 0, NI_NUMERICHOST)
        }
    }
    let text = String(cString: name)
    return code == 0 && (text.hasPrefix("127.") || text == "::1")
}

#if os(Linux)
    private extension Int {
        var value: Int { self }
    }

    private extension __socket_type {
        var value: UInt32 { rawValue }
    }
#else
    private extension Int32 {
        var value: Int32 { self }
    }
#endif
