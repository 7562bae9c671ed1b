#include "miop_openssl.h"

#include "sha256.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <string.h>

static const unsigned char ALPN[] = "\x06miop/7";

/* ---- pins ---- */

static bool is_pinned(const miop_openssl *tls, X509 *certificate) {
    unsigned char *key = NULL, text[64] = "sha256/";
    uint8_t digest[32];
    miop_sha256 sum;
    int size = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &key);
    if (size <= 0) return false;
    miop_sha256_begin(&sum);
    miop_sha256_add(&sum, key, (size_t)size);
    miop_sha256_end(&sum, digest);
    OPENSSL_free(key);
    EVP_EncodeBlock(text + 7, digest, sizeof digest);
    for (size_t at = 0; at < tls->pin_count; at++) {
        if (strcmp(tls->pins[at], (const char *)text) == 0) return true;
    }
    return false;
}

static bool has_pin(const miop_openssl *tls) {
    STACK_OF(X509) *chain = SSL_get0_verified_chain(tls->tls);
    if (tls->pin_count == 0) return true;
    for (int at = 0; chain != NULL && at < sk_X509_num(chain); at++) {
        if (is_pinned(tls, sk_X509_value(chain, at))) return true;
    }
    return false;
}

/* ---- the connection ---- */

static void hang_up(void *context) {
    miop_openssl *tls = context;
    if (tls->tls != NULL) {
        (void)SSL_shutdown(tls->tls); /* says so, and does not wait for the answer */
        SSL_free(tls->tls);
        tls->tls = NULL;
    }
    miop_posix_disconnect(&tls->posix);
    ERR_clear_error();
}

static bool begin(miop_openssl *tls) {
    tls->tls = SSL_new(tls->context);
    if (tls->tls == NULL) return false;
    SSL_set_verify(tls->tls, SSL_VERIFY_PEER, NULL);
    SSL_set_mode(tls->tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_set_hostflags(tls->tls, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_fd(tls->tls, tls->posix.socket) == 1 && SSL_set1_host(tls->tls, tls->name) == 1
        && SSL_set_tlsext_host_name(tls->tls, tls->name) == 1
        && SSL_set_alpn_protos(tls->tls, ALPN, sizeof ALPN - 1) == 0;
}

/* What a call has to wait for: 0, or -1 if the connection is over. */
static int later(miop_openssl *tls, int outcome) {
    int error = SSL_get_error(tls->tls, outcome);
    ERR_clear_error();
    tls->posix.wants = error == SSL_ERROR_WANT_WRITE ? POLLOUT : POLLIN;
    return error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE ? 0 : -1;
}

static int shake_hands(miop_openssl *tls) {
    if (tls->tls == NULL && !begin(tls)) {
        hang_up(tls);
        return -1;
    }
    int outcome = SSL_connect(tls->tls);
    if (outcome == 1) {
        tls->posix.wants = 0;
        if (has_pin(tls)) return 1;
        hang_up(tls);
        return MIOP_PIN_MISMATCH;
    }
    if (later(tls, outcome) == 0) return 0;
    hang_up(tls);
    return -1;
}

static int dialing(void *context) {
    miop_openssl *tls = context;
    int outcome = tls->tls != NULL ? 1 : miop_posix_connecting(&tls->posix);
    return outcome > 0 ? shake_hands(tls) : outcome;
}

static int dial(void *context, const char *address) {
    miop_openssl *tls = context;
    int outcome = miop_posix_connect(&tls->posix, address);
    return outcome > 0 ? shake_hands(tls) : outcome;
}

static long send_some(void *context, const void *bytes, size_t size) {
    miop_openssl *tls = context;
    int count = SSL_write(tls->tls, bytes, size > 16384 ? 16384 : (int)size);
    return count > 0 ? count : later(tls, count);
}

static long receive_some(void *context, void *bytes, size_t size) {
    miop_openssl *tls = context;
    if (size == 0) return 0;
    int count = SSL_read(tls->tls, bytes, size > 16384 ? 16384 : (int)size);
    return count > 0 ? count : later(tls, count);
}

static bool is_encrypted(void *context) {
    (void)context;
    return true;
}

miop_io miop_openssl_io(miop_openssl *tls, const char *path) {
    miop_io io = miop_posix_io(&tls->posix, path);
    tls->tls = NULL;
    io.context = tls;
    io.connect = dial;
    io.connecting = dialing;
    io.is_safe = is_encrypted;
    io.send = send_some;
    io.receive = receive_some;
    io.disconnect = hang_up;
    return io;
}
