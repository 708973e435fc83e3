#!/bin/sh
# The files of the web page as a C source: a table for prog/serve_web.c, by path, with type, bytes and a tag of the
# content.
# usage: embed_web.sh FILE...      prints the source
set -eu
LC_ALL=C
export LC_ALL

type_of() { # FILE
	case $1 in
	*.html) echo 'text/html; charset=utf-8' ;;
	*.css) echo 'text/css; charset=utf-8' ;;
	*.js) echo 'text/javascript; charset=utf-8' ;;
	*.svg) echo 'image/svg+xml' ;;
	*) echo "embed_web.sh: no content type for $1" >&2; return 1 ;;
	esac
}

echo '/* Made by tools/embed_web.sh. */'
echo '#include "serve_web.h"'
i=0
for f; do
	printf '\nstatic const unsigned char bytes_%d[] = { /* %s */\n' $i "${f##*/}"
	od -An -v -tu1 "$f" | sed 's/[0-9][0-9]*/&,/g'
	echo '};'
	i=$((i + 1))
done
printf '\nconst struct web_file web_files[] = {\n'
i=0
for f; do
	name=${f##*/}
	type=$(type_of "$name")
	# The checksum and the size: another content gets another tag, and browsers ask for nothing more.
	tag=$(cksum <"$f" | tr -s ' ' -)
	case $name in index.html) path=/ ;; *) path=/ui/$name ;; esac
	printf '\t{"%s", "%s", bytes_%d, sizeof bytes_%d, "\\"%s\\""},\n' "$path" "$type" $i $i "$tag"
	i=$((i + 1))
done
printf '};\nconst size_t n_web_files = sizeof web_files / sizeof *web_files;\n'
