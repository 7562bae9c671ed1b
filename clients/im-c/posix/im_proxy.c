#define _POSIX_C_SOURCE 200809L
#include "im_proxy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

enum { GREET, LOG_IN, ASK, READ_ADDRESS, CONNECTED, TUNNEL };
enum { NO_LOGIN = 0, PASSWORD = 2 };

static void put(im_proxy *p, const void *bytes, size_t size) {
    if (size > sizeof p->bytes - p->used) size = 0; /* lengths were checked */
    memcpy(p->bytes + p->used, bytes, size);
    p->used += size;
}

static void octet(im_proxy *p, size_t value) {
    uint8_t byte = (uint8_t)value;
    put(p, &byte, 1);
}

static void text(im_proxy *p, const char *words) { put(p, words, strlen(words)); }

/* The next request; its answer has so many bytes. */
static void request(im_proxy *p, uint8_t step, size_t needed) {
    p->step = step;
    p->used = p->sent = p->got = 0;
    p->needed = needed;
}

static void base64(im_proxy *p, const uint8_t *bytes, size_t size) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t at = 0; at < size; at += 3) {
        uint32_t three = (uint32_t)bytes[at] << 16;
        if (at + 1 < size) three |= (uint32_t)bytes[at + 1] << 8;
        if (at + 2 < size) three |= bytes[at + 2];
        octet(p, (size_t)digits[three >> 18]);
        octet(p, (size_t)digits[three >> 12 & 63]);
        octet(p, at + 1 < size ? (size_t)digits[three >> 6 & 63] : '=');
        octet(p, at + 2 < size ? (size_t)digits[three & 63] : '=');
    }
}

static void ask_http(im_proxy *p) {
    char login[512];
    request(p, TUNNEL, 1);
    text(p, "CONNECT ");
    text(p, p->target);
    text(p, " HTTP/1.1\r\nHost: ");
    text(p, p->target);
    if (p->user != NULL) {
        snprintf(login, sizeof login, "%s:%s", p->user, p->password);
        text(p, "\r\nProxy-Authorization: Basic ");
        base64(p, (const uint8_t *)login, strlen(login));
    }
    text(p, "\r\n\r\n");
}

static void ask_socks(im_proxy *p) {
    const char *colon = strrchr(p->target, ':');
    size_t size = (size_t)(colon - p->target);
    const char *host = p->target;
    unsigned long port = strtoul(colon + 1, NULL, 10);
    if (*host == '[' && size > 2) {
        host++;
        size -= 2;
    }
    request(p, ASK, 5);
    put(p, "\x05\x01\x00\x03", 4);
    octet(p, size);
    put(p, host, size);
    octet(p, port >> 8 & 255);
    octet(p, port & 255);
}

void im_proxy_begin(im_proxy *p, const char *target) {
    snprintf(p->target, sizeof p->target, "%s", target);
    if (p->is_http) {
        ask_http(p);
        return;
    }
    request(p, GREET, 2);
    put(p, "\x05\x01", 2);
    octet(p, p->user == NULL ? NO_LOGIN : PASSWORD);
}

/* An answer has arrived: whether it says yes. The next request is ready then. */
static bool go_on(im_proxy *p) {
    const uint8_t *answer = p->bytes;
    switch (p->step) {
    case GREET:
        if (answer[0] != 5 || answer[1] != (p->user == NULL ? NO_LOGIN : PASSWORD)) return false;
        if (p->user == NULL) {
            ask_socks(p);
            return true;
        }
        request(p, LOG_IN, 2);
        octet(p, 1);
        octet(p, strlen(p->user));
        text(p, p->user);
        octet(p, strlen(p->password));
        text(p, p->password);
        return true;
    case LOG_IN:
        if (answer[1] != 0) return false;
        ask_socks(p);
        return true;
    case ASK: {
        /* The address that follows is of no interest; one byte of it was read already. */
        size_t rest = answer[3] == 1 ? 3 : answer[3] == 4 ? 15 : answer[4];
        if (answer[1] != 0) return false;
        request(p, READ_ADDRESS, rest + 2);
        return true;
    }
    case READ_ADDRESS:
        p->step = CONNECTED;
        return true;
    default: /* the head of a response, read by single bytes: what follows is of the server */
        if (p->got >= 4 && memcmp(answer + p->got - 4, "\r\n\r\n", 4) == 0) {
            p->step = CONNECTED;
            return memcmp(answer, "HTTP/1.", 7) == 0 && answer[9] == '2';
        }
        p->needed++;
        return p->needed <= sizeof p->bytes;
    }
}

static int later(void) {
    return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
}

int im_proxy_run(im_proxy *p, int socket) {
    while (p->step != CONNECTED) {
        if (p->sent < p->used) {
            ssize_t count = send(socket, p->bytes + p->sent, p->used - p->sent, MSG_NOSIGNAL);
            if (count < 0) return later();
            p->sent += (size_t)count;
        } else if (p->got < p->needed) {
            ssize_t count = recv(socket, p->bytes + p->got, p->needed - p->got, 0);
            if (count < 0) return later();
            if (count == 0) return -1;
            p->got += (size_t)count;
        } else if (!go_on(p)) {
            return -1;
        }
    }
    return 1;
}
