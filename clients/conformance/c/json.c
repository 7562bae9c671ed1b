#include "json.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static json *value(const char **at);

static void blank(const char **at) {
    while (isspace((unsigned char)**at)) ++*at;
}

/* The suite writes ASCII, and no escapes but those of quotes, controls and \u00xx. */
static char *string(const char **at) {
    char *out = malloc(strlen(*at) + 1), *to = out;
    for (++*at; **at != '"' && **at != 0; ++*at) {
        char c = **at;
        if (c == '\\') {
            const char *found = strchr("n\nr\rt\tb\bf\f", *++*at);
            c = found != NULL ? found[1] : **at;
            if (**at == 'u') {
                char digits[5] = {0};
                memcpy(digits, *at + 1, 4);
                c = (char)strtol(digits, NULL, 16);
                *at += 4;
            }
        }
        *to++ = c;
    }
    ++*at;
    *to = 0;
    return out;
}

static void members(const char **at, json *of, char end) {
    json **last = &of->first;
    for (++*at, blank(at); **at != end && **at != 0; blank(at)) {
        char *name = NULL;
        if (end == '}') {
            name = string(at);
            blank(at);
            ++*at; /* the colon */
        }
        *last = value(at);
        (*last)->name = name;
        last = &(*last)->next;
        blank(at);
        if (**at == ',') ++*at;
    }
    ++*at;
}

static json *value(const char **at) {
    json *made = calloc(1, sizeof *made);
    blank(at);
    switch (**at) {
    case '{':
        made->kind = J_MAP;
        members(at, made, '}');
        break;
    case '[':
        made->kind = J_LIST;
        members(at, made, ']');
        break;
    case '"':
        made->kind = J_TEXT;
        made->text = string(at);
        break;
    case 't':
        made->kind = J_BOOL;
        made->truth = true;
        *at += 4;
        break;
    case 'f':
        made->kind = J_BOOL;
        *at += 5;
        break;
    case 'n':
        *at += 4;
        break;
    default: {
        char *end;
        made->kind = J_NUMBER;
        made->whole = strtoull(*at, NULL, 10);
        made->number = strtod(*at, &end);
        *at = end;
    }
    }
    return made;
}

json *json_read(const char *text) { return value(&text); }

void json_free(json *of) {
    while (of != NULL) {
        json *next = of->next;
        json_free(of->first);
        free(of->text);
        free(of->name);
        free(of);
        of = next;
    }
}

const json *json_at(const json *map, const char *name) {
    for (const json *it = map->first; it != NULL; it = it->next) {
        if (strcmp(it->name, name) == 0) return it->kind == J_NULL ? NULL : it;
    }
    return NULL;
}

const char *json_text(const json *map, const char *name) {
    const json *found = json_at(map, name);
    return found != NULL && found->kind == J_TEXT ? found->text : NULL;
}

uint64_t json_whole(const json *map, const char *name, uint64_t none) {
    const json *found = json_at(map, name);
    if (found == NULL) return none;
    return found->kind == J_TEXT ? strtoull(found->text, NULL, 10) : found->whole;
}
