/* Elements of pictures that several programs draw. Texts are escaped: no name can break the picture. */
#include "svg.h"

#include "base/utf8.h"

#include <string.h>

/* Texts may have been cut within a character: what is none, or no text, becomes a question mark. */
static void put_text(FILE *o, const char *s)
{
	uint32_t c;

	for (size_t n = strlen(s), len; n > 0; s += len, n -= len) {
		len = utf8_decode(s, n, &c);
		if (len == 0 || c < 32 || c == 127 || c == 0xfffe || c == 0xffff) {
			len = len ? len : 1;
			fputc('?', o);
		} else if (c == '<' || c == '>' || c == '&') {
			fputs(c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;", o);
		} else {
			fwrite(s, 1, len, o);
		}
	}
}

void svg_text(FILE *o, double x, double y, const char *class, const char *anchor, const char *s)
{
	fprintf(o, "<text x=\"%.1f\" y=\"%.1f\" class=\"%s\" text-anchor=\"%s\">", x, y, class, anchor);
	put_text(o, s);
	fputs("</text>\n", o);
}

void svg_line(FILE *o, double x1, double y1, double x2, double y2, const char *class)
{
	fprintf(o, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x1, y1, x2, y2, class);
}
