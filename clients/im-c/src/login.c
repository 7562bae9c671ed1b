/* The proof in a Login (IM 3), and whether the server has proved what it must. */
#include "parts.h"

#include <string.h>

/* The name without its domain. */
static im_bytes local_name(const im_client *c) {
    im_bytes name = {(const uint8_t *)c->config.account, strcspn(c->config.account, "@")};
    return name;
}

void im_login_proof(im_client *c, im_writer *w) {
    const im_credentials *it = &c->credentials;
    c->expected_bytes = 0;
    c->uses_scram = false;
    if (it->login_token != NULL) {
        uint8_t mac[32];
        const im_bytes zero = {(const uint8_t *)"", 1}, proof = {mac, sizeof mac};
        im_token_macs(it->login_token, mac, c->expected);
        c->expected_bytes = 32;
        im_write_text(w, 4, "HT-SHA-256-NONE");
        size_t data = im_write_begin(w, 5);
        im_write_raw(w, local_name(c));
        im_write_raw(w, zero);
        im_write_raw(w, proof);
        im_write_end(w, data);
    } else if (it->token != NULL) {
        im_write_text(w, 3, it->token);
    } else if (it->password != NULL && c->shows_password) {
        im_write_text(w, 3, it->password);
    } else if (it->password != NULL) {
        uint8_t random[18];
        static const char digits[] = "0123456789abcdef";
        c->config.io.random(c->config.io.context, random, sizeof random);
        for (unsigned at = 0; at < 36; at++) {
            c->nonce[at] = digits[random[at / 2] >> (at % 2 * 4) & 15];
        }
        c->nonce[36] = 0;
        c->uses_scram = true;
        im_write_text(w, 4, "SCRAM-SHA-256");
        im_scram_first(w, 5, local_name(c), c->nonce);
    }
}

bool im_login_answer(im_client *c, im_bytes challenge, im_writer *answer) {
    if (!c->uses_scram || !im_scram_answer(local_name(c), c->credentials.password, c->nonce,
                                           challenge, answer, c->expected)) {
        return false;
    }
    c->expected_bytes = sizeof c->expected;
    return true;
}

bool im_login_is_proved(const im_client *c, im_bytes data) {
    if (!c->uses_scram && c->expected_bytes == 0) return true;
    return c->expected_bytes > 0 && data.size == c->expected_bytes
        && memcmp(data.data, c->expected, data.size) == 0;
}
