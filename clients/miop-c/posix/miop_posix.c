#define _POSIX_C_SOURCE 200809L
#include "miop_posix.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

void miop_posix_disconnect(miop_posix *posix) {
    if (posix->socket >= 0) close(posix->socket);
    posix->socket = -1;
    posix->wants = 0;
}

static int begin(miop_posix *posix, const struct addrinfo *found) {
    const int yes = 1;
    posix->socket = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
    if (posix->socket < 0) return -1;
    if (fcntl(posix->socket, F_SETFL, O_NONBLOCK) != 0) return -1;
    (void)fcntl(posix->socket, F_SETFD, FD_CLOEXEC);
    (void)setsockopt(posix->socket, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    if (connect(posix->socket, found->ai_addr, found->ai_addrlen) == 0) return 1;
    return errno == EINPROGRESS ? 0 : -1;
}

/* The connection is there, to the server or to the proxy. */
static int through(miop_posix *posix) {
    if (posix->proxy == NULL) return 1;
    int outcome = miop_proxy_run(posix->proxy, posix->socket);
    posix->wants = outcome != 0 ? 0
        : posix->proxy->sent < posix->proxy->used ? POLLOUT : POLLIN;
    if (outcome < 0) miop_posix_disconnect(posix);
    return outcome;
}

/* host:port, where a host of IPv6 may be in brackets. */
int miop_posix_connect(miop_posix *posix, const char *address) {
    struct addrinfo wanted, *found;
    char text[MIOP_ADDRESS_BYTES], *host = text, *port;
    if (posix->proxy != NULL) {
        miop_proxy_begin(posix->proxy, address);
        address = posix->proxy->address;
    }
    if (strlen(address) >= sizeof text) return -1;
    strcpy(text, address);
    port = strrchr(text, ':');
    if (port == NULL) return -1;
    *port++ = 0;
    if (*host == '[' && port - host > 2) {
        host++;
        port[-2] = 0;
    }
    memset(&wanted, 0, sizeof wanted);
    wanted.ai_socktype = SOCK_STREAM;
    if (getaddrinfo(host, port, &wanted, &found) != 0) return -1;
    int outcome = begin(posix, found);
    freeaddrinfo(found);
    if (outcome < 0) miop_posix_disconnect(posix);
    return outcome > 0 ? through(posix) : outcome;
}

int miop_posix_connecting(miop_posix *posix) {
    struct pollfd wait = {posix->socket, POLLOUT, 0};
    int error = 0;
    socklen_t size = sizeof error;
    if (posix->wants == 0 && poll(&wait, 1, 0) == 0) return 0;
    if (getsockopt(posix->socket, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0) {
        return -1;
    }
    return through(posix);
}

static int dial(void *context, const char *address) { return miop_posix_connect(context, address); }

static int dialing(void *context) { return miop_posix_connecting(context); }

static void hang_up(void *context) { miop_posix_disconnect(context); }

/* The server is on this machine. Behind a proxy no address is, whatever it looks like. */
static bool is_local(void *context) {
    miop_posix *posix = context;
    struct sockaddr_storage peer;
    socklen_t size = sizeof peer;
    memset(&peer, 0, sizeof peer);
    if (posix->proxy != NULL || getpeername(posix->socket, (struct sockaddr *)&peer, &size) != 0) {
        return false;
    }
    if (peer.ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&peer;
        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    }
    const struct sockaddr_in *four = (const struct sockaddr_in *)&peer;
    return peer.ss_family == AF_INET && ntohl(four->sin_addr.s_addr) >> 24 == 127;
}

static bool is_later(void) { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

static long send_some(void *context, const void *bytes, size_t size) {
    miop_posix *posix = context;
    ssize_t count = send(posix->socket, bytes, size, MSG_NOSIGNAL);
    if (count < 0) return is_later() ? 0 : -1;
    return (long)count;
}

static long receive_some(void *context, void *bytes, size_t size) {
    miop_posix *posix = context;
    if (size == 0) return 0;
    ssize_t count = recv(posix->socket, bytes, size, 0);
    if (count < 0) return is_later() ? 0 : -1;
    return count == 0 ? -1 : (long)count;
}

static int64_t read_clock(clockid_t which) {
    struct timespec now;
    clock_gettime(which, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static int64_t now_ms(void *context) {
    (void)context;
    return read_clock(CLOCK_MONOTONIC);
}

static int64_t wall_ms(void *context) {
    (void)context;
    return read_clock(CLOCK_REALTIME);
}

static void random_bytes(void *context, void *bytes, size_t size) {
    (void)context;
    FILE *source = fopen("/dev/urandom", "rb");
    if (source == NULL || fread(bytes, 1, size, source) != size) {
        abort(); /* without randomness nothing can be proved */
    }
    fclose(source);
}

/* ---- the state: a file beside it, which then takes its place ---- */

static int next_path(const miop_posix *posix, char path[PATH_MAX]) {
    return snprintf(path, PATH_MAX, "%s.new", posix->path) < PATH_MAX ? 0 : -1;
}

static int save_begin(void *context) {
    miop_posix *posix = context;
    char path[PATH_MAX];
    if (next_path(posix, path) != 0) return -1;
    if (posix->file != NULL) fclose(posix->file); /* of a record that was not finished */
    posix->file = NULL;
    (void)unlink(path);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    if (file < 0) return -1;
    posix->file = fdopen(file, "wb");
    if (posix->file == NULL) close(file);
    return posix->file == NULL ? -1 : 0;
}

static int save(void *context, const void *bytes, size_t size) {
    miop_posix *posix = context;
    return fwrite(bytes, 1, size, posix->file) == size ? 0 : -1;
}

static int save_end(void *context) {
    miop_posix *posix = context;
    char path[PATH_MAX];
    bool is_whole = fflush(posix->file) == 0 && fsync(fileno(posix->file)) == 0;
    is_whole = fclose(posix->file) == 0 && is_whole;
    posix->file = NULL;
    if (!is_whole || next_path(posix, path) != 0) return -1;
    return rename(path, posix->path);
}

static long load(void *context, void *bytes, size_t size) {
    miop_posix *posix = context;
    if (!posix->is_loading) {
        posix->file = fopen(posix->path, "rb");
        posix->is_loading = true;
    }
    if (posix->file == NULL) return errno == ENOENT ? 0 : -1;
    return (long)fread(bytes, 1, size, posix->file);
}

miop_io miop_posix_io(miop_posix *posix, const char *path) {
    memset(posix, 0, sizeof *posix);
    posix->socket = -1;
    posix->path = path;
    miop_io io;
    memset(&io, 0, sizeof io);
    io.context = posix;
    io.connect = dial;
    io.connecting = dialing;
    io.is_safe = is_local;
    io.send = send_some;
    io.receive = receive_some;
    io.disconnect = hang_up;
    io.now_ms = now_ms;
    io.wall_ms = wall_ms;
    io.random = random_bytes;
    if (path != NULL) {
        io.save_begin = save_begin;
        io.save = save;
        io.save_end = save_end;
        io.load = load;
    }
    return io;
}

void miop_posix_wait(const miop_posix *posix, const miop_client *client, int64_t until_ms,
                     int other) {
    short wanted = miop_wants_write(client) ? POLLIN | POLLOUT : POLLIN;
    if (posix->wants != 0) wanted = posix->wants;
    struct pollfd waits[2] = {{posix->socket, wanted, 0}, {other, POLLIN, 0}};
    int64_t left = until_ms == MIOP_NEVER ? -1 : until_ms - now_ms(NULL);
    if (until_ms != MIOP_NEVER && left < 0) left = 0;
    (void)poll(waits, 2, left > INT_MAX ? INT_MAX : (int)left);
}

void miop_posix_show(void *app, const miop_state *state) {
    static const char *const names[] = {"idle", "waiting", "connecting", "binding", "bound",
                                        "closing", "ended"};
    (void)app;
    printf("# %s %s\n", names[state->phase], state->why == NULL ? "" : state->why);
    fflush(stdout);
}
