#ifndef MIOP_SHA256_H
#define MIOP_SHA256_H

#include <stddef.h>
#include <stdint.h>

/* SHA-256 (FIPS 180-4) and HMAC (RFC 2104) in portable C. A platform with its own may replace
 * sha256.c by the same five functions. */
typedef struct miop_sha256 {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} miop_sha256;

void miop_sha256_begin(miop_sha256 *sum);
void miop_sha256_add(miop_sha256 *sum, const void *bytes, size_t size);
void miop_sha256_end(miop_sha256 *sum, uint8_t digest[32]);

typedef struct miop_hmac {
    miop_sha256 inner;
    uint8_t key[64];
} miop_hmac;

void miop_hmac_begin(miop_hmac *mac, const void *key, size_t size);
void miop_hmac_end(miop_hmac *mac, uint8_t digest[32]);

#endif
