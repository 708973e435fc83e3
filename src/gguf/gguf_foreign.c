/* What people hand to a GGUF reader instead of a GGUF file: other model formats, packed files, and what a failed
 * download leaves. Looks at the first bytes only, to say more than "not a GGUF file".
 *
 * Refuses to know more of a format than how it begins: a guess that is wrong costs a misleading word in a message, and
 * nothing is ever read by it. */
#include "gguf/gguf_foreign.h"

#include <string.h>

#define CONVERT ": convert it to GGUF first"
#define UNPACK ": unpack it first"
#define LOGIN ": a download that needs a login gives such pages"

/* GGUF's forerunners wrote their magic as a 32-bit number, so that it stands backwards in the file. */
static const struct {
	const char *magic;
	size_t n;
	bool old;
	const char *what;
} begins[] = {
	{"lmgg", 4, true, "a GGML file, older than GGUF: convert the model anew"},
	{"ggml", 4, true, "a GGML file, older than GGUF: convert the model anew"},
	{"fmgg", 4, true, "a GGMF file, older than GGUF: convert the model anew"},
	{"ggmf", 4, true, "a GGMF file, older than GGUF: convert the model anew"},
	{"tjgg", 4, true, "a GGJT file, older than GGUF: convert the model anew"},
	{"ggjt", 4, true, "a GGJT file, older than GGUF: convert the model anew"},
	{"algg", 4, true, "a GGLA file (an adapter), older than GGUF: convert it anew"},
	{"ggla", 4, true, "a GGLA file (an adapter), older than GGUF: convert it anew"},
	{"GGLA", 4, true, "a GGLA file (an adapter), older than GGUF: convert it anew"},
	{"PK\3\4", 4, false, "a zip file, as PyTorch writes models" CONVERT},
	{"\x80\2\x8a\x0a", 4, false, "an old PyTorch file" CONVERT},
	{"\x89HDF", 4, false, "an HDF5 file (Keras)" CONVERT},
	{"\x1f\x8b", 2, false, "a file packed with gzip" UNPACK},
	{"\xfd" "7zXZ", 5, false, "a file packed with xz" UNPACK},
	{"\x28\xb5\x2f\xfd", 4, false, "a file packed with zstd" UNPACK},
	{"BZh", 3, false, "a file packed with bzip2" UNPACK},
	{"7z\xbc\xaf", 4, false, "a 7z archive" UNPACK},
	{"version https://git-lfs", 23, false, "a Git LFS pointer: the model itself is fetched with 'git lfs pull'"},
	{"\0\0\0\0\0\0\0\0", 8, false, "a file that begins with zeros: was its download not finished?"},
};

/* Words of ASCII letters and signs, whatever the case, behind white space. */
static bool text_begins(const uint8_t *data, size_t n, const char *word)
{
	size_t at = 0, i = 0;

	while (at < n && at < 64 && strchr(" \t\r\n", data[at]) && data[at])
		at++;
	for (; word[i] && at + i < n; i++) {
		const uint8_t c = data[at + i];
		if ((c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c) != (uint8_t)word[i])
			return false;
	}
	return !word[i];
}

/* A length in 64 bits, then that many bytes of JSON. */
static bool is_safetensors(const uint8_t *data, size_t n)
{
	uint64_t n_head;

	if (n < 10)
		return false;
	memcpy(&n_head, data, sizeof n_head);
	return data[8] == '{' && (data[9] == '"' || data[9] == ' ' || data[9] == '}') && n_head >= 2 && n_head <= n - 8;
}

const char *gguf_foreign(const uint8_t *data, size_t n_bytes, bool *old)
{
	*old = false;
	for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
		if (n_bytes >= begins[i].n && memcmp(data, begins[i].magic, begins[i].n) == 0) {
			*old = begins[i].old;
			return begins[i].what;
		}
	if (is_safetensors(data, n_bytes))
		return "a safetensors file" CONVERT;
	if (text_begins(data, n_bytes, "<!doctype html") || text_begins(data, n_bytes, "<html"))
		return "a web page (HTML)" LOGIN;
	if (text_begins(data, n_bytes, "<?xml"))
		return "an XML page" LOGIN;
	if (text_begins(data, n_bytes, "{\"") || text_begins(data, n_bytes, "{\n"))
		return "a JSON text: the model is another file";
	return NULL;
}
