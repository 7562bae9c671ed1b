#ifndef IM_SHA256_H
#define IM_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* SHA-256 (FIPS 180-4) and HMAC (RFC 2104) in portable C. A platform with its own may replace
 * sha256.c by the same five functions. */
typedef struct im_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} im_sha256;

void im_sha256_begin(im_sha256 *sum);
void im_sha256_add(im_sha256 *sum, const void *bytes, size_t size);
void im_sha256_end(im_sha256 *sum, uint8_t digest[32]);

typedef struct im_hmac {
    im_sha256 inner;
    uint8_t key[64];
} im_hmac;

void im_hmac_begin(im_hmac *mac, const void *key, size_t size);
void im_hmac_end(im_hmac *mac, uint8_t digest[32]);

#endif
