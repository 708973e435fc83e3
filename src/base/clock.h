/* The time of day. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <time.h>

/* Now, in the machine's time zone. */
bool clock_local(struct tm *out);

#endif
