/* JSON texts, read by jansson: malformed or out of memory is not the same. */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* For programs, before their first use of jansson, whose memory is theirs to give: from now on it is that of
 * base/mem.h, and json_parse knows when there was too little. Without it, it has to guess. */
void json_take_over(void);

/* As json_loadb. NULL: the text is malformed, and `why` (may be NULL) says where; or, with *no_memory set, there was
 * too little memory to tell. */
json_t *json_parse(const char *bytes, size_t n, size_t flags, json_error_t *why, bool *no_memory);

/* As json_copy (the values are shared), which leaves out what there is no memory for: here that is NULL. */
json_t *json_clone(const json_t *value);

#endif
