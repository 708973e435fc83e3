# What Markdown pages hold, for tests/e2e/docs*.sh and tools/site.sh: awk -v what=KIND -f tools/md.awk PAGE...
#   links    PAGE TAB LINE TAB TARGET for every link and picture outside of code
#   anchors  PAGE TAB ANCHOR for every heading, as GitHub names them
#   blocks   PAGE TAB LINE TAB LANGUAGE TAB MARK TAB FILE for every fenced block, whose lines go to FILE, in -v dir=DIR;
#            MARK is the text of a comment <!-- ... --> right before it, and PAGE's own mark has LINE 0; "-": none
#   stray    PAGE TAB LINE TAB TEXT for indented lines that begin like a command: nobody would run them
#
# 1. A fence is three backticks at the start of a line (blanks before it do not matter); what is between two of them is
#    neither a heading nor a link.
# 2. Links are [text](target) and ![text](target) on one line; there are no other kinds in this project, and a
#    definition of one ("[name]: target") is told as a link to "?", which exists nowhere.

# What stands in `code` is no link.
function no_code(t,   out) {
	out = ""
	while (match(t, /`[^`]*`/)) {
		out = out substr(t, 1, RSTART - 1)
		t = substr(t, RSTART + RLENGTH)
	}
	return out t
}

function anchor(t) {
	while (match(t, /\]\([^)]*\)/))
		t = substr(t, 1, RSTART - 1) substr(t, RSTART + RLENGTH)
	gsub(/[^A-Za-z0-9_ \200-\377-]/, "", t)
	gsub(/ /, "-", t)
	return tolower(t)
}

function head(t,   a) {
	sub(/^#+ +/, "", t)
	sub(/ +#*$/, "", t)
	a = anchor(t)
	if ((FILENAME SUBSEP a) in seen)
		a = a "-" seen[FILENAME, a]++
	else
		seen[FILENAME, a] = 1
	print FILENAME "\t" a
}

function links(t) {
	if (t ~ /^\[[^]]*\]: /)
		print FILENAME "\t" FNR "\t?"
	t = no_code(t)
	while (match(t, /\]\([^)]*\)/)) {
		print FILENAME "\t" FNR "\t" substr(t, RSTART + 2, RLENGTH - 3)
		t = substr(t, RSTART + RLENGTH)
	}
}

FNR == 1 { fence = 0; mark = ""; blank = 1 }
/^ *```/ {
	if (fence) {
		fence = 0
		if (what == "blocks")
			close(file)
	} else {
		fence = 1
		lang = $0
		sub(/^ *```/, "", lang)
		if (what == "blocks") {
			file = sprintf("%s/%04d", dir, ++n_blocks)
			printf "" >file
			print FILENAME "\t" FNR "\t" (lang == "" ? "-" : lang) "\t" (mark == "" ? "-" : mark) "\t" file
		}
	}
	mark = ""
	blank = 0
	next
}
fence { if (what == "blocks") print >file; next }
/^<!-- .* -->$/ {
	mark = substr($0, 6, length($0) - 9)
	if (what == "blocks" && mark ~ /^commands of this page /)
		print FILENAME "\t0\t-\t" mark "\t-"
	next
}
/^$/ { blank = 1; next }
what == "anchors" && /^#+ / { head($0) }
what == "links" { links($0) }
what == "stray" && blank && /^    (\$ )?(batched|cohort|curl|cc|build\/[a-z_]+|python3|node|git|meson) / { print FILENAME "\t" FNR "\t" $0 }
{ mark = ""; blank = 0 }
