import Foundation

/// A place for the state of a device, a text of a few KiB. It contains the session's token: keep it
/// as secret as the device's other secrets. A push is acknowledged after `save` has returned.
public protocol Store: AnyObject {
    /// What `save` was given last; nil if nothing was.
    func load() throws -> String?
    func save(_ text: String) throws
}

/// Keeps the state until the process ends.
public final class MemoryStore: Store {
    public private(set) var text: String?

    public init(_ text: String? = nil) {
        self.text = text
    }

    public func load() -> String? { text }

    public func save(_ text: String) { self.text = text }
}

/// Keeps the state in a file of its owner alone. A crash leaves the old state or the new one.
public final class FileStore: Store {
    private let path: String

    public init(_ path: String) {
        self.path = path
    }

    public func load() throws -> String? {
        guard FileManager.default.fileExists(atPath: path) else { return nil }
        return try String(contentsOfFile: path, encoding: .utf8)
    }

    public func save(_ text: String) throws {
        let next = path + ".new"
        let file = open(next, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        guard file >= 0 else { throw SystemError(next) }
        let bytes = Array(text.utf8)
        let isWritten = write(file, bytes, bytes.count) == bytes.count && fsync(file) == 0
        let failure = SystemError(next)
        Foundation.close(file)
        guard isWritten else { throw failure }
        guard rename(next, path) == 0 else { throw SystemError(path) }
    }
}

/// The last error of the system, about a file or an address.
struct SystemError: Error, CustomStringConvertible {
    let description: String

    init(_ about: String, _ number: Int32 = errno) {
        description = "\(about): \(String(cString: strerror(number)))"
    }
}
