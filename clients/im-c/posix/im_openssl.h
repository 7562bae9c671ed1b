/* TLS by OpenSSL 1.1.1 or later, with pinned keys, on the sockets of im_posix. OpenSSL allocates;
 * the rest does not. The program must ignore SIGPIPE. */
#ifndef IM_OPENSSL_H
#define IM_OPENSSL_H

#include "im_posix.h"

#include <openssl/ssl.h>

typedef struct im_openssl {
    im_posix posix; /* first: it is also the context of its functions */
    SSL_CTX *context;
    SSL *tls;
    /* The server's certificate must be for this name, also where the server sends the device
     * elsewhere. */
    const char *name;
    /* sha256/BASE64 of public keys (SubjectPublicKeyInfo): one of the server's verified
     * certificates must have one of them. None: any. */
    const char *const *pins;
    size_t pin_count;
} im_openssl;

/* The functions, with `tls` as their context. Its context, name and pins are set by the caller:
 * authorities, and the device's certificate if it has one, belong to the SSL_CTX. */
im_io im_openssl_io(im_openssl *tls, const char *path);

#endif
