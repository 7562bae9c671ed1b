/* What a client needs, on a POSIX system: TCP without TLS, the system's clocks, /dev/urandom, and a
 * file for the state. Names are resolved by getaddrinfo, which may block. */
#ifndef IM_POSIX_H
#define IM_POSIX_H

#include "im.h"
#include "im_proxy.h"

#include <stdio.h>

typedef struct im_posix {
    int socket; /* -1: none */
    const char *path;
    FILE *file;
    bool is_loading;
    im_proxy *proxy; /* set after im_posix_io; NULL: none */
    short wants; /* of TLS and proxies: what they wait for; 0: what the client wants */
} im_posix;

/* The functions, with this as their context. NULL as path: nothing is stored. */
im_io im_posix_io(im_posix *posix, const char *path);

/* Its functions for connections, for those that put TLS on top. */
int im_posix_connect(im_posix *posix, const char *address);
int im_posix_connecting(im_posix *posix);
void im_posix_disconnect(im_posix *posix);

/* Waits until the socket is ready for what the client wants, or until a time of now_ms. A byte that
 * can be read from `other` ends the wait, too; -1: no other. */
void im_posix_wait(const im_posix *posix, const im_client *client, int64_t until_ms,
                     int other);

/* For `on_state` of a first program: prints the state, as a line that begins with #. */
void im_posix_show(void *app, const im_state *state);

#endif
