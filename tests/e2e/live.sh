#!/bin/sh
# The live view of batched, looked at on a screen: what is shown of how many sequences, on how much of a screen.
#
# Seen red with planted faults: every character taken for one cell wide ('wide characters': characters behind the edge,
# texts with holes), regions given as many rows as they want ('more text than fits'), control characters passed on
# ('control characters').
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
# shellcheck source=tests/e2e/live_lib.sh
. "$(dirname "$0")/live_lib.sh"

# ---- Four sequences ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-predict 60 -ignore-eos
texts four "$@"
# shellcheck disable=SC2086
on_screen 24 60 --wait '^\[0\] Once upon .*' --wait 'tokens/s' --dump "$tmp/mid" -- "$@" $slow
[ "$rc" = 0 ] && clean && left && [ "$(count mid '^\[[0-3]\] Once upon a time')" = 4 ] && matches mid '0 of 4 ended$'
verdict 'four sequences: a region each, and a status line'
frames four --shown 4 --more 0 --at-least 10
verdict 'four sequences: every frame holds the beginnings of the four texts'
[ "$(count out '^Sequence [0-3]:$')" = 4 ] && ! matches out '^\[[0-9]\]|ended$'
verdict 'four sequences: the view is gone in the end, and the texts are there'
on_screen 200 2000 -- "$@"
tr -d '\r' <"$tmp/out" >"$tmp/text"
[ "$rc" = 0 ] && sed '$d' "$tmp/four" | cmp -s - "$tmp/text"
verdict 'four sequences: what is left on the screen is what a pipe gets'

# ---- Lines end between words ----

# Seen red with the bytes as they are, with words that are not moved, and with lines of the whole screen's width, which
# differ from those of the view.
set -- -prompt 'Once upon a time' -n-parallel 2 -n-predict 60 -ignore-eos
texts words "$@"
sed -n '3,/^Sequence 1/p' "$tmp/words" | sed '$d' >"$tmp/first"
# shellcheck disable=SC2086
on_screen 40 40 --wait '^    [a-z]' --next 3 --dump "$tmp/mid" -- "$@" $slow
[ "$rc" = 0 ] && clean && left && wrapped "$tmp/out" "$tmp/first" 36
verdict 'the texts afterwards: lines end between words'
line=$(sed -n 's/^\[0\] //p' "$tmp/mid")
[ -n "$line" ] && grep -qxF -e "$line" "$tmp/out"
verdict 'the texts afterwards: lines break where those of the view did'
prog=$bin/cohort
set -- run -show-prompt -n 60 -seed 3 'Once upon a time'
texts words "$@"
on_screen 20 33 -- "$@"
[ "$rc" = 0 ] && clean && left && wrapped "$tmp/out" "$tmp/words" 33
verdict 'a text that is printed as it comes: a word that does not fit moves to the next line'
grammar='root ::= "wide 漢字かな交じり文漢字かな交じり文 and pneumonoultramicroscopicsilicovolcanoconiosis\there \x1b[31mred"'
on_screen 20 17 -- run -n 120 -grammar "$grammar" 'x'
printf 'wide 漢字かな交じ\nり文漢字かな交じ\nり文 and\npneumonoultramicr\noscopicsilicovolc\nanoconiosis\nhere ^[[31mred\n' >"$tmp/lines"
[ "$rc" = 0 ] && clean && left && same out lines
verdict 'a text that is printed as it comes: wide characters, a word longer than a line, a tab, control characters'
prog=$bin/batched

# ---- More than fits ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-predict 200 -ignore-eos
texts long "$@"
# shellcheck disable=SC2086
on_screen 10 40 --wait '^\[0\]…' --wait '^\[1\]…' --wait '^\[2\]…' --wait '^\[3\]…' --dump "$tmp/mid" --keys '\x03' -- "$@" $slow
[ "$rc" = 130 ] && clean && left && [ "$(count mid '^\[[0-3]\]…')" = 4 ] && [ "$(wc -l <"$tmp/mid")" = 10 ]
verdict 'more text than fits: the ends of the texts share the screen'
grep -n '^\[' "$tmp/mid" | sed 's/:.*//' | tr '\n' ' ' >"$tmp/at"
is at '1 4 6 8 '
verdict 'more text than fits: nine rows are three, two, two and two'
frames long --shown 4
verdict 'more text than fits: parts of the texts, without holes'

# shellcheck disable=SC2086
set -- -n-parallel 64 -n-predict 30 -ctx 4096 -ignore-eos
texts many "$@"
# shellcheck disable=SC2086
on_screen 70 60 --wait '^\[63\]' --next 2 --dump "$tmp/mid" --keys '\x03' -- "$@" -isa ref
[ "$rc" = 130 ] && clean && left && frames many --shown 64 --more 0 --at-least 2
verdict '64 sequences on a high screen: all of them'
# shellcheck disable=SC2086
on_screen 24 60 --wait '^… and 42 more$' --next 2 --dump "$tmp/mid" --keys '\x03' -- "$@" -isa ref
[ "$rc" = 130 ] && clean && left && frames many --shown 22 --more 42 --at-least 2
verdict '64 sequences on a low screen: 22, and how many more'
awk 'BEGIN { for (i = 0; i < 9; i++) print "This is prompt number", i }' >"$tmp/prompts"
# shellcheck disable=SC2086
on_screen 12 60 --wait '^\[8\.1\]' --dump "$tmp/mid" --keys '\x03' -- -prompts "$tmp/prompts" -n-parallel 2 -n-predict 20 -ctx 128 $slow
[ "$rc" = 130 ] && clean && left && has mid '… and 8 more' && ! matches mid '^\[0\.0\]'
verdict 'many prompts in turn: those under way take the place of those that ended'

# ---- Small screens ----

# shellcheck disable=SC2086
set -- -prompt 'Once upon a time' -n-predict 20 -ignore-eos
texts small "$@"
for size in '1 10' '2 10' '3 10' '4 4' '5 1' '1 1' '9 7'; do
	# shellcheck disable=SC2086
	on_screen ${size% *} ${size#* } --sleep 0.4 --dump "$tmp/mid" -- "$@" -isa ref
	[ "$rc" = 0 ] && clean && left && [ "$(wc -l <"$tmp/mid")" -le "${size% *}" ]
	verdict "a screen of $size: stays within it"
done
# Long enough for five frames more on a fast CPU.
set -- -prompt 'Once upon a time' -n-predict 120 -ignore-eos
texts small "$@"
# shellcheck disable=SC2086
on_screen 6 10 --wait '^\[3\]' --next 5 --keys '\x03' -- "$@" $slow
[ "$rc" = 130 ] && clean && frames small --shown 4 --more 0
verdict 'a narrow screen: the texts without holes'

# ---- What texts hold ----

# shellcheck disable=SC2016
wide='root ::= "漢字かな交じり文、한국어 텍스트 und 👍🏽 é́é ｆｕｌｌ ​zero‍width \\ end. "+'
# shellcheck disable=SC2086
set -- -prompt '世界:' -n-parallel 2 -n-predict 150 -ignore-eos -grammar "$wide"
texts wide "$@"
# shellcheck disable=SC2086
on_screen 7 21 --wait '^\[1\]…' --next 5 --keys '\x03' -- "$@" $slow
[ "$rc" = 130 ] && left && has state 'overflow 0' && has state 'unknown none'
verdict 'wide characters: none behind the edge'
frames wide --shown 2
verdict 'wide characters: the texts without holes'
# shellcheck disable=SC2086
on_screen 3 24 --wait '^\[1\]…' --next 10 --keys '\x03' -- "$@" $slow
[ "$rc" = 130 ] && left && has state 'overflow 0' && frames wide --shown 2
verdict 'wide characters: regions of one line'

bad=$(printf 'a\033[31mred\033]0;owned\007\tb\177\302\233c\342\200\256d\377e\300\200 \033[2J')
# shellcheck disable=SC2086
set -- -prompt "$bad" -n-parallel 2 -n-predict 24 -ignore-eos
texts bad "$@"
# shellcheck disable=SC2086
on_screen 12 40 --wait 'tokens/s|/s' --next 3 --dump "$tmp/mid" -- "$@" $slow
[ "$rc" = 0 ] && clean && left && has mid '[0] a^[[31mred^[]0;owned^G' && has mid '<U+009B>c<U+202E>d�e��'
verdict 'control characters: shown, not obeyed'
frames bad --shown 2
verdict 'control characters: the view stays whole'
has out 'a^[[31mred' && ! has out '^I'
verdict 'control characters: so in the texts afterwards'
