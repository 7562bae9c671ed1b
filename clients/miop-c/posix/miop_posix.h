/* What a client needs, on a POSIX system: TCP without TLS, the system's clocks, /dev/urandom, and a
 * file for the state. Names are resolved by getaddrinfo, which may block. */
#ifndef MIOP_POSIX_H
#define MIOP_POSIX_H

#include "miop.h"

#include <stdio.h>

typedef struct miop_posix {
    int socket; /* -1: none */
    const char *path;
    FILE *file;
    bool is_loading;
} miop_posix;

/* The functions, with this as their context. NULL as path: nothing is stored. */
miop_io miop_posix_io(miop_posix *posix, const char *path);

/* Waits until the socket is ready for what the client wants, or until a time of now_ms. A byte that
 * can be read from `other` ends the wait, too; -1: no other. */
void miop_posix_wait(const miop_posix *posix, const miop_client *client, int64_t until_ms,
                     int other);

#endif
