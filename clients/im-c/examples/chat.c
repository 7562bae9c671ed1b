/* Sends lines of the standard input to somebody, and prints what comes. The password is in the
 * environment, PASSWORD.
 *
 *     chat HOST:PORT ACCOUNT TO
 */
#define _POSIX_C_SOURCE 200809L
#include "im_posix.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static im_client client;
static uint8_t in[8192], out[8192], queue[16384];

static im_verdict on_message(void *app, const im_message *it) {
    (void)app;
    printf("%.*s: %.*s%s\n", (int)it->from.size, (const char *)it->from.data, (int)it->text.size,
           (const char *)it->text.data, it->is_cut ? " ..." : "");
    fflush(stdout);
    return IM_TAKEN;
}

static void on_outcome(void *app, const im_outcome *it) {
    (void)app;
    if (it->error != NULL) fprintf(stderr, "not sent: %s\n", it->error);
}

/* A line of the input, if there is one; false at its end. */
static bool read_line(const char *to) {
    static char line[1024];
    struct pollfd ready = {0, POLLIN, 0};
    if (poll(&ready, 1, 0) <= 0) return true;
    if (fgets(line, sizeof line, stdin) == NULL) return false;
    line[strcspn(line, "\n")] = 0;
    if (line[0] != 0 && im_send(&client, to, line, NULL) != IM_OK) fprintf(stderr, "queue full\n");
    return true;
}

int main(int count, char **words) {
    static const char *addresses[1];
    static char path[512];
    im_posix posix;
    im_config config;
    if (count != 4 || snprintf(path, sizeof path, "%s.state", words[2]) >= (int)sizeof path) {
        fprintf(stderr, "usage: chat HOST:PORT ACCOUNT TO\n");
        return 2;
    }
    memset(&config, 0, sizeof config);
    setvbuf(stdin, NULL, _IONBF, 0); /* poll sees what is left */
    addresses[0] = words[1];
    config.addresses = addresses;
    config.address_count = 1;
    config.account = words[2];
    config.device = "terminal";
    config.credentials.password = getenv("PASSWORD");
    config.in = in;
    config.in_bytes = sizeof in;
    config.out = out;
    config.out_bytes = sizeof out;
    config.queue = queue;
    config.queue_bytes = sizeof queue;
    config.on_message = on_message;
    config.on_outcome = on_outcome;
    config.on_state = im_posix_show;
    config.io = im_posix_io(&posix, path);
    if (im_open(&client, &config) != IM_OK) return 1;
    im_start(&client);
    for (;;) {
        if (!read_line(words[3])) im_close(&client);
        int64_t until = im_run(&client);
        if (client.phase == IM_ENDED) return 0;
        im_posix_wait(&posix, &client, until, 0);
    }
}
