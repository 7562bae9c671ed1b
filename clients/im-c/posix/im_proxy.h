/* A connection through a proxy: SOCKS5 (RFC 1928, RFC 1929), where the proxy resolves the name, or
 * HTTP CONNECT (RFC 9110, 9.3.6). It never blocks. */
#ifndef IM_PROXY_H
#define IM_PROXY_H

#include "im.h"

typedef struct im_proxy {
    /* Set by the caller. */
    const char *address; /* host:port of the proxy */
    bool is_http;        /* else SOCKS5 */
    const char *user;    /* NULL: no login; user and password have at most 255 bytes */
    const char *password;
    /* Of a connection. */
    char target[IM_ADDRESS_BYTES];
    uint8_t step;
    uint8_t bytes[1152];
    size_t used, sent; /* of a request */
    size_t got, needed; /* of its answer */
} im_proxy;

/* Begins: the connection to the proxy is there, and the target is "host:port". */
void im_proxy_begin(im_proxy *proxy, const char *target);

/* Goes on: 1 when the target is connected, 0 to be called again when the socket is ready, -1 if the
 * proxy refused. */
int im_proxy_run(im_proxy *proxy, int socket);

#endif
