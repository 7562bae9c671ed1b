/* What a client needs, on a POSIX system: TCP without TLS, the system's clocks, /dev/urandom, and a
 * file for the state. Names are resolved by getaddrinfo, which may block. */
#ifndef MIOP_POSIX_H
#define MIOP_POSIX_H

#include "miop.h"
#include "miop_proxy.h"

#include <stdio.h>

typedef struct miop_posix {
    int socket; /* -1: none */
    const char *path;
    FILE *file;
    bool is_loading;
    miop_proxy *proxy; /* set after miop_posix_io; NULL: none */
    short wants; /* of TLS and proxies: what they wait for; 0: what the client wants */
} miop_posix;

/* The functions, with this as their context. NULL as path: nothing is stored. */
miop_io miop_posix_io(miop_posix *posix, const char *path);

/* Its functions for connections, for those that put TLS on top. */
int miop_posix_connect(miop_posix *posix, const char *address);
int miop_posix_connecting(miop_posix *posix);
void miop_posix_disconnect(miop_posix *posix);

/* Waits until the socket is ready for what the client wants, or until a time of now_ms. A byte that
 * can be read from `other` ends the wait, too; -1: no other. */
void miop_posix_wait(const miop_posix *posix, const miop_client *client, int64_t until_ms,
                     int other);

/* For `on_state` of a first program: prints the state, as a line that begins with #. */
void miop_posix_show(void *app, const miop_state *state);

#endif
