/* Elements of a picture: a text with its class and anchor, a line with its class. */
#ifndef PROG_SVG_H
#define PROG_SVG_H

#include <stdio.h>

void svg_text(FILE *o, double x, double y, const char *class, const char *anchor, const char *s);
void svg_line(FILE *o, double x1, double y1, double x2, double y2, const char *class);

#endif
