/* TLS by OpenSSL 1.1.1 or later, with pinned keys, on the sockets of miop_posix. OpenSSL allocates;
 * the rest does not. The program must ignore SIGPIPE. */
#ifndef MIOP_OPENSSL_H
#define MIOP_OPENSSL_H

#include "miop_posix.h"

#include <openssl/ssl.h>

typedef struct miop_openssl {
    miop_posix posix; /* first: it is also the context of its functions */
    SSL_CTX *context;
    SSL *tls;
    /* The server's certificate must be for this name, also where the server sends the device
     * elsewhere. */
    const char *name;
    /* sha256/BASE64 of public keys (SubjectPublicKeyInfo): one of the server's verified
     * certificates must have one of them. None: any. */
    const char *const *pins;
    size_t pin_count;
} miop_openssl;

/* The functions, with `tls` as their context. Its context, name and pins are set by the caller:
 * authorities, and the device's certificate if it has one, belong to the SSL_CTX. */
miop_io miop_openssl_io(miop_openssl *tls, const char *path);

#endif
