#!/bin/sh
# Manual pages and completions: made from the tables that --help is printed from, so each option of --help is in all of
# them; clean roff; scripts that work in their shells; all of it installed.
# Shown red by leaving the last option out of the pages or of a shell's script (each of its cases), by a page without
# SEE ALSO, and by leaving a command out of what the build installs. How texts are escaped is test_opt_print's.
# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"

sections='NAME SYNOPSIS DESCRIPTION OPTIONS EXAMPLES EXIT_STATUS ENVIRONMENT FILES SEE_ALSO'
cd "$tmp" || exit 1
for s in bash zsh fish; do
	"$bin/cohort" completion $s >"cohort.$s" && "$bin/batched" -print-completion $s >"batched.$s"
	[ -s cohort.$s ] && [ -s batched.$s ]
	verdict "completions for $s"
done
"$bin/cohort" help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' >commands
[ "$(wc -l <commands)" -ge 13 ] && grep -qx run commands && grep -qx man commands
verdict 'the commands are found in the help text'

# names HELP: the names of options in a help text, aliases too.
names() { sed -n 's/^  \(-[a-z0-9-]*\(, -[a-z0-9-]*\)*\)\( .*\)\{0,1\}$/\1/p' "$1" | tr -d ' ' | tr ',' '\n'; }

# drift PROGRAM COMMAND PAGE: every option of the help text $tmp/help is in the page and the three scripts.
drift() {
	names help >names
	n=$(grep -c '^  -' help)
	[ "$(grep -c . names)" -ge "$n" ] && grep -qx -e -show-config names
	verdict "$1 $2: $n options in the help text"
	sed 's/\\-/-/g' "$3" | sed -n '/^\.SH "OPTIONS"/,/^\.SH "E/p' | grep '^.fB' | sed 's/^.fB//; s/.fR.*//' | tr -d ' ' | tr ',' '\n' >page
	[ -s page ] && ! grep -vxFf page names
	verdict "$1 $2: every option is on its page"
	if [ -n "$2" ]; then label=$2 only="-n '__$1_command $2'"; else label="''" only="-c $1"; fi
	awk -v l="	$label)" '$0 == l { getline; gsub(/^[^\047]*\047|\047$/, ""); print }' "$1.bash" | tr ' ' '\n' >list
	[ -s list ] && ! grep -vxFf list names
	verdict "$1 $2: every option is in the completion for bash"
	if [ -n "$2" ]; then sed -n "/^	$2)\$/,/^		;;\$/p" "$1.zsh"; else cat "$1.zsh"; fi | sed -n 's/^[^{]*{\([^}]*\)}.*/\1/p' | tr ',' '\n' | tr -d '=' >list
	[ -s list ] && ! grep -vxFf list names && sed 's/^/-/' names | { ! grep -vxFf list; }
	verdict "$1 $2: every option is in the completion for zsh, with one dash and two"
	grep -F -e "$only" "$1.fish" | sed 's/ -d .*//' | grep -o -e '-o [a-z0-9-]*' | sed 's/^-o /-/' >list
	[ -s list ] && ! grep -vxFf list names
	verdict "$1 $2: every option is in the completion for fish"
	# Variables of builders and tests are no options.
	! grep -qxE -e '-(build|source|shared)' names
	verdict "$1 $2: no option has a name that the environment keeps"
}

# page NAME FILE: all sections, in order, and roff that its readers have nothing to say about.
page() {
	got=$(sed -n 's/^\.SH "\(.*\)"/\1/p' "$2" | tr ' ' '_' | grep -vx -e COMMANDS -e CONFIGURATION | tr '\n' ' ')
	[ "$got" = "$sections " ] && sed -n '/^\.SH "NAME"/{n;p;}' "$2" | grep -q "^$(echo "$1" | sed 's/-/.*-/g') .*- ." &&
		! grep -q '^$' "$2"
	verdict "$1: sections, name, no empty line"
	if command -v groff >/dev/null; then
		run groff -man -ww -Tutf8 "$2"
		[ "$rc" = 0 ] && empty err && has out 'User Commands'
		verdict "$1: groff"
	else
		skip "$1: groff" 'it is not installed'
	fi
	if command -v mandoc >/dev/null; then
		# Pages have no date, so that the same tables give the same bytes.
		mandoc -Tlint -W warning "$2" 2>&1 | grep -v 'missing date' >out
		empty out
		verdict "$1: mandoc"
	else
		skip "$1: mandoc" 'it is not installed'
	fi
}

while read -r c; do
	"$bin/cohort" help "$c" >help
	"$bin/cohort" man "$c" >"cohort-$c.1"
	drift cohort "$c" "cohort-$c.1"
	page "cohort-$c" "cohort-$c.1"
done <commands
"$bin/batched" -help >help
"$bin/batched" -print-man >batched.1
drift batched '' batched.1
page batched batched.1
"$bin/cohort" man >cohort.1
page cohort cohort.1
while read -r c; do
	grep -qx "..B$c..R" cohort.1 && tail -n 1 cohort.1 | sed 's/\\//g' | grep -qF "cohort-$c(1)"
	verdict "cohort.1 names $c"
done <commands

run cohort man logit
refused 2 "did you mean 'logits'?"
verdict 'man: a misspelt command'
run cohort completion fihs
refused 2 "did you mean 'fish'?"
verdict 'completion: a misspelt shell'
run cohort completion
refused 2 'name a shell: bash, zsh or fish'
verdict 'completion: no shell'
run batched -print-completion tcsh
refused 2 'bash, zsh and fish'
verdict 'batched: a shell that is not known'

# ---- the scripts in their shells ----

mkdir work
: >work/model.gguf
: >'work/a b.gguf'
: >work/notes.txt
mkdir work/folder
cd work || exit 1

if command -v bash >/dev/null; then
	cat >"$tmp/ask.bash" <<'SH'
source "$1/cohort.bash"
source "$1/batched.bash"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
"_$1"
printf '%s\n' "${COMPREPLY[@]}" | sort
SH
	bash_gives() { # EXPECTED WORD...
		want=$1
		shift
		run bash "$tmp/ask.bash" "$tmp" "$@"
		[ "$rc" = 0 ] && empty err && [ "$(tr '\n' ' ' <"$tmp/out")" = "$want " ]
		verdict "bash: $*"
	}
	bash_gives "$(sort "$tmp/commands" | tr '\n' ' ' | sed 's/ $//')" cohort ''
	bash_gives run cohort ru
	bash_gives '--temp --temperature' cohort run --te
	bash_gives '-n-parallel -n-predict' batched -n-p
	bash_gives '-show-config' cohort info -sh
	bash_gives 'a b.gguf folder model.gguf' cohort run -model ''
	bash_gives 'a b.gguf folder model.gguf notes.txt' cohort run -file ''
	bash_gives 'model.gguf' batched --model mo
	bash_gives 'model.gguf' batched --model = mo
	bash_gives 'model.gguf' cohort quantize mo
	bash_gives 'Q4_K_M Q4_K_S' cohort quantize model.gguf out.gguf Q4_K
	bash_gives '--dry-run' cohort quantize --dr
	bash_gives 'f16 f32 q8_0' cohort logits -kv-type ''
	bash_gives 'f16 f32' cohort logits --kv-type = f
	bash_gives 'f16 f32 q8_0' cohort logits --kv-type =
	bash_gives 'balanced' cohort simulate -strategy bal
	bash_gives 'decode-maximal' cohort serve -strategy dec
	bash_gives 'llama3.2-1b qwen2.5-0.5b smol-135m tinyllama-1.1b' cohort synth -shape ''
	bash_gives 'llama2 llama3' cohort serve -chat-template ll
	bash_gives 'model.gguf' cohort simulate -strategy mo
	bash_gives '' cohort run -n-predict ''
	bash_gives 'completion config' cohort help co
	bash_gives 'bash fish zsh' cohort completion ''
	bash_gives 'synth' cohort man sy
else
	skip 'bash' 'it is not installed'
fi

if command -v fish >/dev/null; then
	fish_gives() { # EXPECTED LINE
		run fish --no-config -c "source $tmp/cohort.fish; source $tmp/batched.fish; complete -C '$2'"
		[ "$rc" = 0 ] && empty err && [ "$(cut -f 1 "$tmp/out" | sort | tr '\n' ' ')" = "$1 " ]
		verdict "fish: $2"
	}
	fish_gives "$(sort "$tmp/commands" | tr '\n' ' ' | sed 's/ $//')" 'cohort '
	fish_gives '--temp --temperature' 'cohort run --te'
	fish_gives '-n-parallel -n-predict' 'batched -n-p'
	fish_gives 'f16 f32 q8_0' 'cohort logits -kv-type '
	fish_gives '--kv-type=f16 --kv-type=f32' 'cohort logits --kv-type=f'
	fish_gives 'model.gguf' 'batched -model mo'
	fish_gives 'Q4_K_M Q4_K_S' 'cohort quantize model.gguf out.gguf Q4_K'
	fish_gives 'completion config' 'cohort help co'
	fish_gives 'bash fish zsh' 'cohort completion '
	run fish --no-config -c "source $tmp/cohort.fish; complete -C 'cohort run --top-k'"
	has out 'only the N likeliest tokens'
	verdict 'fish: options come with their help'
else
	skip 'fish' 'it is not installed'
fi

if command -v zsh >/dev/null && command -v python3 >/dev/null; then
	mkdir "$tmp/functions"
	cp "$tmp/cohort.zsh" "$tmp/functions/_cohort"
	cp "$tmp/batched.zsh" "$tmp/functions/_batched"
	# A line is typed into a real one, with a tab at its end; "EXPECTED<TAB>LINE" on standard input.
	cat >"$tmp/type.py" <<'PY'
import os, pty, select, sys, time

def until(fd, done, seconds):
    got, end = b"", time.time() + seconds
    while not done(got) and time.time() < end:
        if select.select([fd], [], [], 0.1)[0]:
            try:
                got += os.read(fd, 65536)
            except OSError:
                break
    return got

status = 0
for row in sys.stdin:
    want, line = row.rstrip("\n").split("\t")
    pid, fd = pty.fork()
    if pid == 0:
        os.environ["TERM"] = "dumb"
        os.execvp("zsh", ["zsh", "-f", "-i"])
    os.write(fd, b"fpath=(" + sys.argv[1].encode() + b" $fpath); autoload -U compinit; compinit -u -D; PS1='rea''dy> '\n")
    until(fd, lambda got: b"ready> " in got, 20)
    os.write(fd, line.encode() + b"\t")
    got = until(fd, lambda got: want.encode() in got, 20)
    ok = want.encode() in got
    status |= not ok
    print(line, "->", want, "ok" if ok else repr(got))
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    os.close(fd)
sys.exit(status)
PY
	in_zsh() {
		python3 "$tmp/type.py" "$tmp/functions" <<'ROWS'
cohort simulate 	cohort simu
cohort run --temperature=	cohort run --tempera
cohort run --verbose 	cohort run --verb
cohort logits -kv-type q8_0 	cohort logits -kv-type q
cohort run -model model.gguf 	cohort run -model mod
only the N likeliest tokens	cohort run --top-
cohort help environment 	cohort help env
batched --n-parallel=	batched --n-par
ROWS
	}
	run in_zsh
	[ "$rc" = 0 ] && [ "$(grep -c ' ok$' "$tmp/out")" = 8 ]
	verdict 'zsh: lines are completed'
	run zsh -n "$tmp/batched.zsh"
	[ "$rc" = 0 ] && empty err
	verdict 'zsh: syntax'
else
	skip 'zsh' 'it or python3 is not installed'
fi

# ---- installed ----

cd "$tmp" || exit 1
if [ ! -e "$COHORT_BUILD/cohort.1" ]; then
	skip 'installed pages and completions' 'this build makes none (sanitizers, or for another machine)'
else
	run meson install -C "$COHORT_BUILD" --no-rebuild --destdir "$tmp/dest"
	man1=$(dirname "$(find "$tmp/dest" -name cohort.1)")
	share=${man1%/man/man1}
	while read -r c; do
		cmp -s "$man1/cohort-$c.1" "cohort-$c.1"
		verdict "installed: cohort-$c.1"
	done <commands
	cmp -s "$man1/cohort.1" cohort.1 && cmp -s "$man1/batched.1" batched.1 && [ "$(find "$man1" -type f | wc -l)" = $(($(wc -l <commands) + 2)) ]
	verdict 'installed: cohort.1, batched.1 and no others'
	for p in cohort batched; do
		cmp -s "$share/bash-completion/completions/$p.bash" $p.bash && cmp -s "$share/zsh/site-functions/_$p" $p.zsh &&
			cmp -s "$share/fish/vendor_completions.d/$p.fish" $p.fish
		verdict "installed: completions of $p"
	done
fi
