//! SHA-256 (FIPS 180-4), HMAC (RFC 2104) and PBKDF2 (RFC 8018): what a login needs, so that the
//! library has no dependency for it. Checked by the vectors of clients/conformance and those below.

const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

const START: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

const BLOCK: usize = 64;

/// The hash of `message`.
pub(crate) fn sha256(message: &[u8]) -> [u8; 32] {
    finish(START, 0, message)
}

/// Goes on with a hash of which `before` bytes, whole blocks, are done.
fn finish(mut hash: [u32; 8], before: usize, message: &[u8]) -> [u8; 32] {
    let blocks = message.chunks_exact(BLOCK);
    let rest = blocks.remainder();
    blocks.for_each(|block| mix(&mut hash, block));
    let mut padded = [0; 2 * BLOCK];
    padded[..rest.len()].copy_from_slice(rest);
    padded[rest.len()] = 0x80;
    let end = (rest.len() + 9).next_multiple_of(BLOCK);
    let bits = (before + message.len()) as u64 * 8;
    padded[end - 8..end].copy_from_slice(&bits.to_be_bytes());
    padded[..end].chunks_exact(BLOCK).for_each(|block| mix(&mut hash, block));
    let mut out = [0; 32];
    for (four, word) in out.chunks_exact_mut(4).zip(hash) {
        four.copy_from_slice(&word.to_be_bytes());
    }
    out
}

fn mix(hash: &mut [u32; 8], block: &[u8]) {
    let mut w = [0u32; 64];
    for (word, four) in w.iter_mut().zip(block.chunks_exact(4)) {
        *word = u32::from_be_bytes([four[0], four[1], four[2], four[3]]);
    }
    for i in 16..64 {
        let (x, y) = (w[i - 15], w[i - 2]);
        let s0 = x.rotate_right(7) ^ x.rotate_right(18) ^ (x >> 3);
        let s1 = y.rotate_right(17) ^ y.rotate_right(19) ^ (y >> 10);
        w[i] = w[i - 16].wrapping_add(s0).wrapping_add(w[i - 7]).wrapping_add(s1);
    }
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *hash;
    for (k, w) in K.iter().zip(w) {
        let s1 = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let choice = (e & f) ^ (!e & g);
        let t1 = h.wrapping_add(s1).wrapping_add(choice).wrapping_add(*k).wrapping_add(w);
        let s0 = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let t2 = s0.wrapping_add((a & b) ^ (a & c) ^ (b & c));
        (h, g, f, e) = (g, f, e, d.wrapping_add(t1));
        (d, c, b, a) = (c, b, a, t1.wrapping_add(t2));
    }
    for (word, more) in hash.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(more);
    }
}

/// HMAC-SHA256 with a key, whose two blocks are hashed once.
pub(crate) struct Hmac {
    inner: [u32; 8],
    outer: [u32; 8],
}

impl Hmac {
    pub fn new(key: &[u8]) -> Hmac {
        let mut block = [0; BLOCK];
        match key.len() > BLOCK {
            true => block[..32].copy_from_slice(&sha256(key)),
            false => block[..key.len()].copy_from_slice(key),
        }
        let keyed = |byte: u8| {
            let mut hash = START;
            mix(&mut hash, &block.map(|it| it ^ byte));
            hash
        };
        Hmac { inner: keyed(0x36), outer: keyed(0x5c) }
    }

    pub fn of(&self, message: &[u8]) -> [u8; 32] {
        finish(self.outer, BLOCK, &finish(self.inner, BLOCK, message))
    }
}

/// The first 32 bytes of PBKDF2 with HMAC-SHA256.
pub(crate) fn pbkdf2(password: &[u8], salt: &[u8], iterations: u32) -> [u8; 32] {
    let mac = Hmac::new(password);
    let mut last = mac.of(&[salt, &[0, 0, 0, 1]].concat());
    let mut sum = last;
    for _ in 1..iterations {
        last = mac.of(&last);
        sum.iter_mut().zip(last).for_each(|(sum, byte)| *sum ^= byte);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::hex;

    #[test]
    fn the_hashes_are_those_of_the_standards() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let long = "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1";
        assert_eq!(hex(&sha256(b"")), empty);
        let text = b"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
        assert_eq!(hex(&sha256(text)), long);
        // RFC 4231, cases 1 and 6.
        let mac = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
        assert_eq!(hex(&Hmac::new(&[0x0b; 20]).of(b"Hi There")), mac);
        let mac = "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54";
        let text = b"Test Using Larger Than Block-Size Key - Hash Key First";
        assert_eq!(hex(&Hmac::new(&[0xaa; 131]).of(text)), mac);
    }
}
