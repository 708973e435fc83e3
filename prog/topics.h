/* What 'cohort help TOPIC' tells, and the tables that manual pages take from it. */
#ifndef PROG_TOPICS_H
#define PROG_TOPICS_H

#include <stddef.h>
#include <stdio.h>

struct topic {
	const char *name, *brief;
	void (*print)(FILE *out);
};
/* NULL past the last. */
const struct topic *topic_get(size_t i);

struct topic_pair {
	const char *name, *text;
};
/* What each code means, and what each variable does; the number of them. */
size_t topic_exit_codes(const struct topic_pair **out);
size_t topic_variables(const struct topic_pair **out);
/* About the configuration file: paragraphs. */
extern const char topic_config_text[];

#endif
