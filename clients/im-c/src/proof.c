/* How a client proves who it is: SCRAM-SHA-256 (RFC 5802, RFC 7677) and login tokens (IM 3.5).
 * Names and passwords are taken as they are, without SASLprep. */
#include "parts.h"

#include "sha256.h"

#include <string.h>

enum {
    ITERATIONS_MAX = 1000000, /* a hostile server shall not keep the device busy for longer */
    SALT_BYTES_MAX = 128
};

static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

size_t im_base64(const uint8_t *bytes, size_t size, char *text) {
    size_t used = 0;
    for (size_t at = 0; at < size; at += 3) {
        uint32_t three = (uint32_t)bytes[at] << 16;
        if (at + 1 < size) three |= (uint32_t)bytes[at + 1] << 8;
        if (at + 2 < size) three |= bytes[at + 2];
        text[used++] = DIGITS[three >> 18];
        text[used++] = DIGITS[three >> 12 & 63];
        text[used++] = at + 1 < size ? DIGITS[three >> 6 & 63] : '=';
        text[used++] = at + 2 < size ? DIGITS[three & 63] : '=';
    }
    return used;
}

/* The bytes of a text; false if it is none, or too long. */
static bool unbase64(im_bytes text, uint8_t *to, size_t most, size_t *size) {
    uint32_t bits = 0;
    unsigned count = 0;
    size_t end = text.size;
    while (end > 0 && text.size - end < 2 && text.data[end - 1] == '=') end--;
    *size = 0;
    for (size_t at = 0; at < end; at++) {
        const char *digit = text.data[at] == 0 ? NULL : strchr(DIGITS, text.data[at]);
        if (digit == NULL) return false;
        bits = bits << 6 | (uint32_t)(digit - DIGITS);
        count += 6;
        if (count < 8) continue;
        count -= 8;
        if (*size == most) return false;
        to[(*size)++] = (uint8_t)(bits >> count);
    }
    return text.size % 4 == 0;
}

/* ---- HMAC with a key that is used often ---- */

static void mac(const im_hmac *key, im_bytes one, im_bytes two, uint8_t to[32]) {
    im_hmac sum = *key;
    im_sha256_add(&sum.inner, one.data, one.size);
    im_sha256_add(&sum.inner, two.data, two.size);
    im_hmac_end(&sum, to);
}

/* The first 32 bytes of PBKDF2 (RFC 8018). */
static void stretch(const char *password, im_bytes salt, uint32_t iterations, uint8_t sum[32]) {
    static const uint8_t first[] = {0, 0, 0, 1};
    uint8_t last[32];
    const im_bytes none = {last, 0}, block = {first, sizeof first}, again = {last, sizeof last};
    im_hmac key;
    im_hmac_begin(&key, password, strlen(password));
    mac(&key, salt, block, last);
    memcpy(sum, last, sizeof last);
    while (--iterations > 0) {
        mac(&key, again, none, last);
        for (unsigned at = 0; at < sizeof last; at++) sum[at] ^= last[at];
    }
}

static void keyed(const uint8_t key[32], const char *word, uint8_t to[32]) {
    im_hmac sum;
    im_hmac_begin(&sum, key, 32);
    im_sha256_add(&sum.inner, word, strlen(word));
    im_hmac_end(&sum, to);
}

void im_token_macs(const char *token, uint8_t first[32], uint8_t expected[32]) {
    const im_bytes none = {expected, 0};
    im_hmac key;
    im_hmac_begin(&key, token, strlen(token));
    mac(&key, im_text("Initiator"), none, first);
    mac(&key, im_text("Responder"), none, expected);
}

/* ---- SCRAM ---- */

/* A piece of what both sides sign; the pieces go into a message or into a sum. */
typedef struct sink {
    im_writer *writer;
    im_hmac *sum;
} sink;

static void add(sink to, im_bytes piece) {
    if (to.writer != NULL) im_write_raw(to.writer, piece);
    if (to.sum != NULL) im_sha256_add(&to.sum->inner, piece.data, piece.size);
}

static void add_bare(sink to, im_bytes name, const char *nonce) {
    add(to, im_text("n="));
    for (size_t at = 0; at < name.size; at++) {
        const im_bytes letter = {name.data + at, 1};
        add(to, name.data[at] == '=' ? im_text("=3D")
            : name.data[at] == ',' ? im_text("=2C") : letter);
    }
    add(to, im_text(",r="));
    add(to, im_text(nonce));
}

void im_scram_first(im_writer *w, uint32_t field, im_bytes name, const char *nonce) {
    const sink to = {w, NULL};
    size_t begin = im_write_begin(w, field);
    im_write_raw(w, im_text("n,,"));
    add_bare(to, name, nonce);
    im_write_end(w, begin);
}

/* The value of a field of a challenge; none has no data. */
static im_bytes value(im_bytes challenge, char name) {
    im_bytes none = {NULL, 0};
    for (size_t at = 0; at < challenge.size;) {
        const uint8_t *begin = challenge.data + at;
        const uint8_t *comma = memchr(begin, ',', challenge.size - at);
        size_t size = comma == NULL ? challenge.size - at : (size_t)(comma - begin);
        if (size >= 2 && begin[0] == (uint8_t)name && begin[1] == '=') {
            im_bytes found = {begin + 2, size - 2};
            return found;
        }
        at += size + 1;
    }
    return none;
}

static uint32_t iterations_of(im_bytes digits) {
    uint32_t number = 0;
    for (size_t at = 0; at < digits.size; at++) {
        if (digits.data[at] < '0' || digits.data[at] > '9') return 0;
        number = number * 10 + digits.data[at] - '0';
        if (number > ITERATIONS_MAX) return 0;
    }
    return number;
}

/* What both sides sign: the first message, the challenge, and the answer without its proof. */
static void sign(const uint8_t key[32], im_bytes name, const char *our_nonce, im_bytes challenge,
                 im_bytes answer, uint8_t to[32]) {
    im_hmac sum;
    const sink into = {NULL, &sum};
    im_hmac_begin(&sum, key, 32);
    add_bare(into, name, our_nonce);
    add(into, im_text(","));
    add(into, challenge);
    add(into, im_text(","));
    add(into, answer);
    im_hmac_end(&sum, to);
}

bool im_scram_answer(im_bytes name, const char *password, const char *nonce, im_bytes challenge,
                     im_writer *answer, uint8_t expected[46]) {
    uint8_t salt[SALT_BYTES_MAX], salted[32], key[32], stored[32], signature[32];
    char text[44];
    size_t salt_bytes, ours = strlen(nonce), begin = answer->used;
    const im_bytes whole = value(challenge, 'r');
    const uint32_t iterations = iterations_of(value(challenge, 'i'));
    if (whole.size <= ours || memcmp(whole.data, nonce, ours) != 0 || iterations == 0
        || !unbase64(value(challenge, 's'), salt, sizeof salt, &salt_bytes)) {
        return false;
    }
    im_write_raw(answer, im_text("c=biws,r="));
    im_write_raw(answer, whole);
    const im_bytes unproved = {answer->bytes + begin, answer->used - begin};
    const im_bytes salt_of_it = {salt, salt_bytes};
    stretch(password, salt_of_it, iterations, salted);
    keyed(salted, "Client Key", key);
    im_sha256 sum;
    im_sha256_begin(&sum);
    im_sha256_add(&sum, key, sizeof key);
    im_sha256_end(&sum, stored);
    sign(stored, name, nonce, challenge, unproved, signature);
    for (unsigned at = 0; at < sizeof key; at++) key[at] ^= signature[at];
    keyed(salted, "Server Key", stored);
    sign(stored, name, nonce, challenge, unproved, signature);
    memcpy(expected, "v=", 2);
    (void)im_base64(signature, sizeof signature, text);
    memcpy(expected + 2, text, sizeof text);
    const im_bytes proof = {(const uint8_t *)text, im_base64(key, sizeof key, text)};
    im_write_raw(answer, im_text(",p="));
    im_write_raw(answer, proof);
    return !answer->is_full;
}
