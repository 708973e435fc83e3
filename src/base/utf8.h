/* Text: hexadecimal digits; UTF-8: checking, decoding, encoding. Shortest form only, no surrogates, up to U+10FFFF. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Length 1..4 of the valid character at s, and its code point; 0 if the bytes are invalid or cut. */
size_t utf8_decode(const char *s, size_t n, uint32_t *cp);
/* Writes 1..4 bytes; 0 for a surrogate or a value above U+10FFFF. */
size_t utf8_encode(uint32_t cp, char out[4]);
/* The value of a hexadecimal digit, or -1. */
int hex_digit(int c);
/* Bytes from the start that are valid. */
size_t utf8_valid_prefix(const char *s, size_t n);
/* Bytes at the end that begin a character which more bytes could complete: 0..3. */
size_t utf8_unfinished_tail(const char *s, size_t n);

#endif
