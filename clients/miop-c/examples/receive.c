/* Keeps pushes in a file of its own before it acknowledges them, reports what it has done, and says
 * good-bye when it is interrupted.
 *
 *     receive HOST:PORT PRODUCT DEVICE FILE
 */
#define _POSIX_C_SOURCE 200809L
#include "miop_posix.h"

#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static miop_client client;
static uint8_t in[4096], out[2048], reports[4096];
static int interrupts[2]; /* a pipe, so that a signal before the wait ends it, too */

/* Writes the push to the disk, and only then has it acknowledged. */
static miop_verdict on_push(void *app, const miop_push *push) {
    FILE *file = app;
    char id[24];
    snprintf(id, sizeof id, "%" PRIu64, push->id);
    fprintf(file, "%s %.*s\n", id, (int)push->body_bytes, (const char *)push->body);
    if (fflush(file) != 0 || fsync(fileno(file)) != 0) return MIOP_REJECTED;
    /* The id of the push is that of the Report, so it is not reported twice. */
    if (miop_report(&client, id, "stored", 6, NULL) != MIOP_OK) fprintf(stderr, "no Report\n");
    return MIOP_TAKEN;
}

static void interrupt(int number) {
    const char byte = (char)number;
    if (write(interrupts[1], &byte, 1) != 1) _exit(1);
}

int main(int count, char **words) {
    static const char *addresses[1];
    static char path[512];
    miop_posix posix;
    miop_config config;
    if (count != 5 || snprintf(path, sizeof path, "%s.state", words[4]) >= (int)sizeof path) {
        fprintf(stderr, "usage: receive HOST:PORT PRODUCT DEVICE FILE\n");
        return 2;
    }
    memset(&config, 0, sizeof config);
    addresses[0] = words[1];
    config.addresses = addresses;
    config.address_count = 1;
    config.product = words[2];
    config.device = words[3];
    config.in = in;
    config.in_bytes = sizeof in;
    config.out = out;
    config.out_bytes = sizeof out;
    config.reports = reports;
    config.reports_bytes = sizeof reports;
    config.app = fopen(words[4], "a");
    config.on_push = on_push;
    config.on_state = miop_posix_show;
    config.io = miop_posix_io(&posix, path);
    if (config.app == NULL || miop_open(&client, &config) != MIOP_OK) return 1;
    struct sigaction action;
    if (pipe(interrupts) != 0) return 1;
    memset(&action, 0, sizeof action);
    action.sa_handler = interrupt;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    miop_start(&client);
    for (;;) {
        struct pollfd interrupted = {interrupts[0], POLLIN, 0};
        if (poll(&interrupted, 1, 0) > 0) miop_close(&client);
        int64_t until = miop_run(&client);
        if (client.phase == MIOP_ENDED) return 0;
        miop_posix_wait(&posix, &client, until,
                        client.phase == MIOP_CLOSING ? -1 : interrupts[0]);
    }
}
