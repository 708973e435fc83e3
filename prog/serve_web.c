/* Finds a file of the web page.
 *
 * Invariants
 *  1. A path names a file of the table or nothing: there is no directory to leave.
 *
 * It knows nothing of HTTP: the server sends the type, the tag and WEB_SECURITY_POLICY. */
#include "serve_web.h"

#include <string.h>

const struct web_file *web_file_find(const char *path)
{
	for (size_t i = 0; i < n_web_files; i++)
		if (strcmp(web_files[i].path, path) == 0)
			return &web_files[i];
	return NULL;
}
