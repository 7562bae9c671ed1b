#include "sha256.h"

#include <string.h>

static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t word, unsigned by) { return word >> by | word << (32 - by); }

static void mix(uint32_t state[8], const uint8_t block[64]) {
    uint32_t w[64], s[8];
    for (unsigned at = 0; at < 16; at++) {
        w[at] = (uint32_t)block[4 * at] << 24 | (uint32_t)block[4 * at + 1] << 16
            | (uint32_t)block[4 * at + 2] << 8 | block[4 * at + 3];
    }
    for (unsigned at = 16; at < 64; at++) {
        uint32_t a = w[at - 15], b = w[at - 2];
        w[at] = w[at - 16] + w[at - 7] + (turn(a, 7) ^ turn(a, 18) ^ a >> 3)
            + (turn(b, 17) ^ turn(b, 19) ^ b >> 10);
    }
    memcpy(s, state, sizeof s);
    for (unsigned at = 0; at < 64; at++) {
        uint32_t one = s[7] + (turn(s[4], 6) ^ turn(s[4], 11) ^ turn(s[4], 25))
            + ((s[4] & s[5]) ^ (~s[4] & s[6])) + ROUND[at] + w[at];
        uint32_t two = (turn(s[0], 2) ^ turn(s[0], 13) ^ turn(s[0], 22))
            + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += one;
        s[0] = one + two;
    }
    for (unsigned at = 0; at < 8; at++) state[at] += s[at];
}

void im_sha256_begin(im_sha256 *sum) {
    static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sum->state, first, sizeof first);
    sum->bytes = 0;
}

void im_sha256_add(im_sha256 *sum, const void *bytes, size_t size) {
    const uint8_t *from = bytes;
    for (size_t at = 0; at < size; at++) {
        sum->block[sum->bytes++ % 64] = from[at];
        if (sum->bytes % 64 == 0) mix(sum->state, sum->block);
    }
}

void im_sha256_end(im_sha256 *sum, uint8_t digest[32]) {
    uint64_t bits = sum->bytes * 8;
    uint8_t length[8];
    im_sha256_add(sum, "\x80", 1);
    while (sum->bytes % 64 != 56) im_sha256_add(sum, "", 1);
    for (unsigned at = 0; at < 8; at++) length[at] = (uint8_t)(bits >> (56 - 8 * at));
    im_sha256_add(sum, length, sizeof length);
    for (unsigned at = 0; at < 32; at++) {
        digest[at] = (uint8_t)(sum->state[at / 4] >> (24 - 8 * (at % 4)));
    }
}

static void begin_with(im_sha256 *sum, const uint8_t key[64], uint8_t pad) {
    uint8_t block[64];
    for (unsigned at = 0; at < 64; at++) block[at] = key[at] ^ pad;
    im_sha256_begin(sum);
    im_sha256_add(sum, block, sizeof block);
}

void im_hmac_begin(im_hmac *mac, const void *key, size_t size) {
    memset(mac->key, 0, sizeof mac->key);
    if (size > sizeof mac->key) {
        im_sha256_begin(&mac->inner);
        im_sha256_add(&mac->inner, key, size);
        im_sha256_end(&mac->inner, mac->key);
    } else {
        memcpy(mac->key, key, size);
    }
    begin_with(&mac->inner, mac->key, 0x36);
}

void im_hmac_end(im_hmac *mac, uint8_t digest[32]) {
    uint8_t inner[32];
    im_sha256_end(&mac->inner, inner);
    begin_with(&mac->inner, mac->key, 0x5c);
    im_sha256_add(&mac->inner, inner, sizeof inner);
    im_sha256_end(&mac->inner, digest);
}
