// SHA-256 (FIPS 180-4) and HMAC (RFC 2104): CryptoKit is on Apple's systems alone.

private let rounds: [UInt32] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
]

func sha256(_ message: [UInt8]) -> [UInt8] {
    var state: [UInt32] = [
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    ]
    var data = message + [0x80]
    data += [UInt8](repeating: 0, count: (120 - data.count % 64) % 64)
    data += bigEndian(UInt64(message.count) * 8, 8)
    for start in stride(from: 0, to: data.count, by: 64) {
        add(data[start..<start + 64], to: &state)
    }
    return state.flatMap { bigEndian(UInt64($0), 4) }
}

private func add(_ block: ArraySlice<UInt8>, to state: inout [UInt32]) {
    func turned(_ word: UInt32, _ by: UInt32) -> UInt32 { word >> by | word << (32 - by) }
    var words = [UInt32](repeating: 0, count: 64)
    for at in 0..<16 {
        let from = block.startIndex + 4 * at
        words[at] = block[from..<from + 4].reduce(0) { $0 << 8 | UInt32($1) }
    }
    for at in 16..<64 {
        let early = words[at - 15], late = words[at - 2]
        let one = turned(early, 7) ^ turned(early, 18) ^ early >> 3
        let two = turned(late, 17) ^ turned(late, 19) ^ late >> 10
        words[at] = words[at - 16] &+ one &+ words[at - 7] &+ two
    }
    var it = state
    for at in 0..<64 {
        let one = turned(it[4], 6) ^ turned(it[4], 11) ^ turned(it[4], 25)
        let choice = it[4] & it[5] ^ ~it[4] & it[6]
        let first = it[7] &+ one &+ choice &+ rounds[at] &+ words[at]
        let two = turned(it[0], 2) ^ turned(it[0], 13) ^ turned(it[0], 22)
        let majority = it[0] & it[1] ^ it[0] & it[2] ^ it[1] & it[2]
        it = [first &+ two &+ majority, it[0], it[1], it[2], it[3] &+ first, it[4], it[5], it[6]]
    }
    for at in 0..<8 { state[at] = state[at] &+ it[at] }
}

func hmacSha256(key: [UInt8], _ message: [UInt8]) -> [UInt8] {
    var block = key.count > 64 ? sha256(key) : key
    block += [UInt8](repeating: 0, count: 64 - block.count)
    return sha256(block.map { $0 ^ 0x5c } + sha256(block.map { $0 ^ 0x36 } + message))
}
