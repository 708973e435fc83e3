/* Files below a folder.
 *
 * What holds:
 *  1. A folder is looked into once: links to folders are not followed, so that there are no loops. Links to files are.
 *  2. The order is that of the names' bytes, whatever the file system gives.
 *  3. No recursion: what is still to be looked at is a list.
 *
 * It reads no file. */
#include "retrieve.h"

#include "common.h"

#include "base/mem.h"
#include "base/utf8.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static bool push(struct path_list *l, char *path)
{
	if (!path || !mem_grow((void **)&l->paths, &l->n_max, l->n + 1, sizeof *l->paths)) {
		mem_free(path);
		return false;
	}
	l->paths[l->n++] = path;
	return true;
}

void path_list_release(struct path_list *l)
{
	for (size_t i = 0; i < l->n; i++)
		mem_free(l->paths[i]);
	mem_free(l->paths);
	*l = (struct path_list){0};
}

static char *join(const char *dir, const char *name)
{
	const size_t n_dir = strlen(dir), n_name = strlen(name), slash = n_dir > 0 && dir[n_dir - 1] != '/';
	char *path = mem_alloc(n_dir + slash + n_name + 1, 1);

	if (path) {
		memcpy(path, dir, n_dir);
		path[n_dir] = '/';
		memcpy(path + n_dir + slash, name, n_name + 1);
	}
	return path;
}

static int backwards(const void *a, const void *b)
{
	return strcmp(*(char *const *)b, *(char *const *)a);
}

/* Puts what a folder holds on the list of what is still to be looked at, the first name last. False: no memory. */
static bool look_into(const char *prog, const char *dir, struct path_list *todo, size_t *n_unreadable)
{
	const size_t before = todo->n;
	DIR *d = opendir(dir);
	bool good = true;

	if (!d) {
		const int why = errno;
		char *shown = printable(dir);
		fprintf(stderr, "%s: note: cannot look into %s: %s\n", prog, shown ? shown : "a folder", strerror(why));
		mem_free(shown);
		++*n_unreadable;
		return true;
	}
	for (const struct dirent *e; good && (e = readdir(d));)
		if (e->d_name[0] != '.')
			good = push(todo, join(dir, e->d_name));
	closedir(d);
	if (todo->n > before)
		qsort(todo->paths + before, todo->n - before, sizeof *todo->paths, backwards);
	return good;
}

int walk_files(const char *prog, const char *root, struct path_list *list)
{
	struct path_list todo = {0};
	struct stat st;
	bool good;

	if (stat(root, &st) != 0) {
		fprintf(stderr, "%s: cannot look into %s: %s\n", prog, root, strerror(errno));
		return EXIT_FILE;
	}
	if (S_ISREG(st.st_mode))
		return push(list, mem_strndup(root, strlen(root))) ? 0 : out_of_memory(prog);
	const size_t n_before = list->n_unreadable;
	good = look_into(prog, root, &todo, &list->n_unreadable);
	const bool shut = list->n_unreadable > n_before;
	while (good && todo.n > 0 && !interrupted()) {
		char *path = todo.paths[--todo.n];
		struct stat target;
		if (lstat(path, &st) != 0)
			st.st_mode = 0; /* it has gone meanwhile */
		if (S_ISDIR(st.st_mode))
			good = look_into(prog, path, &todo, &list->n_unreadable);
		const bool file = S_ISREG(st.st_mode) ||
				(S_ISLNK(st.st_mode) && stat(path, &target) == 0 && S_ISREG(target.st_mode));
		if (good && file)
			good = push(list, path);
		else
			mem_free(path);
	}
	path_list_release(&todo);
	if (!good)
		return out_of_memory(prog);
	return interrupted() ? EXIT_INTERRUPTED : shut ? EXIT_FILE : 0;
}

bool looks_like_text(const char *bytes, size_t n)
{
	size_t n_odd = 0;

	n = n < 65536 ? n : 65536;
	if (n > 0 && memchr(bytes, '\0', n))
		return false;
	for (size_t i = 0, len; i < n; i += len ? len : 1) {
		uint32_t cp;
		len = utf8_decode(bytes + i, n - i, &cp);
		n_odd += len == 0;
	}
	return n_odd <= n / 10;
}
