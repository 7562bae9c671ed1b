/* An idle phone by the library for C: ADDRESS PRODUCT DEVICE FIRST_S. */
#include "miop_posix.h"

#include <stdlib.h>

static miop_client client;
static uint8_t in[4096], out[2048];

static miop_verdict on_push(void *app, const miop_push *push) {
    (void)app;
    printf("%.*s\n", (int)push->body_bytes, (const char *)push->body);
    fflush(stdout);
    return MIOP_TAKEN;
}

int main(int count, char **words) {
    const char *addresses[1];
    miop_posix posix;
    if (count != 5) return 2;
    addresses[0] = words[1];
    miop_config config = {
        .addresses = addresses, .address_count = 1, .product = words[2], .device = words[3],
        .heartbeat_first_s = (uint16_t)atoi(words[4]), .in = in, .in_bytes = sizeof in,
        .out = out, .out_bytes = sizeof out, .on_push = on_push, .on_state = miop_posix_show,
    };
    config.io = miop_posix_io(&posix, NULL);
    if (miop_open(&client, &config) != MIOP_OK) return 1;
    miop_start(&client);
    while (client.phase != MIOP_ENDED) miop_posix_wait(&posix, &client, miop_run(&client), -1);
    return 1;
}
