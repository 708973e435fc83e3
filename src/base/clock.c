/* The time of day, from the OS. */
#include "base/clock.h"

bool clock_local(struct tm *out)
{
	const time_t now = time(NULL);
	return now != (time_t)-1 && localtime_r(&now, out) != NULL;
}
