/* Defects on demand, for `./dev valgrind`, which expects valgrind to tell of each before it believes its silence.
 * usage: plant leak | lost-list | unwritten | none */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
	struct node *next;
	int value;
};

static struct node *volatile kept; /* so that nothing of this is optimised away */

static struct node *made(struct node *next)
{
	struct node *n = malloc(sizeof *n);
	if (!n)
		exit(3);
	n->next = next;
	return n;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	kept = made(NULL);
	kept->value = 1;
	if (strcmp(what, "leak") == 0) {
		kept = NULL;
	} else if (strcmp(what, "lost-list") == 0) { /* the second is lost by way of the first */
		kept = made(kept);
		kept = NULL;
	} else if (strcmp(what, "unwritten") == 0) {
		kept->next = made(NULL);
		if (kept->next->value == 7)
			puts("by chance");
		free(kept->next);
	} else if (strcmp(what, "none") != 0) {
		fprintf(stderr, "usage: plant leak | lost-list | unwritten | none\n");
		return 2;
	}
	free(kept);
	return 0;
}
