/* As much JSON as the conformance suite speaks. A program of tests may allocate. */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>

typedef struct json {
    enum { J_NULL, J_BOOL, J_NUMBER, J_TEXT, J_LIST, J_MAP } kind;
    bool truth;
    double number;
    uint64_t whole;
    char *text; /* of a text, or its name in a map: see name */
    char *name;
    struct json *first, *next;
} json;

json *json_read(const char *text);
void json_free(json *value);
/* The value of a name; NULL if it is absent or null. */
const json *json_at(const json *map, const char *name);
const char *json_text(const json *map, const char *name);
uint64_t json_whole(const json *map, const char *name, uint64_t none);

#endif
