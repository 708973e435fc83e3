# shellcheck shell=sh
# A part of ./dev, which reads it in. Tests as other machines would run them: with fewer instruction-set levels, and without
# something else that a test may rely on (a second core, IPv6, a home directory, ...).

# ---- Instruction-set levels ----------------------------------------------------------------------------------------------

# What computes at a level: kernels, golden values, exactness; and every script that asks for levels.
level_tests='kern_test test_archs test_dequant test_exact test_exact_archs test_exact_seq test_fp_mode test_gate test_golden test_levels'
level_scripts() { grep -lE 'has_level|\$\(levels\)' tests/e2e/*.sh | sed 's,.*/,,; s,\.sh$,,' | grep -vx lib; }
levels_usable() { COHORT_HIDE_ISA=${1:-} build/cohort info --levels | sed -n 's/^\([a-z0-9]*\) *usable.*/\1/p' | tr '\n' ' '; }

# levels_note [HIDDEN]: for the table at the end, the levels whose kernels kern_test has just compared, by its cases' names.
levels_ran=
levels_note() {
	tested=$(sed -n 's/^ok [0-9]* - \(ref\|avx2\|avx512\|amx\|neon\): .*/\1/p' build/meson-logs/testlog.txt | awk '!seen[$0]++' | tr '\n' ' ')
	levels_ran="$levels_ran$(printf '   hidden: %-21s ran: %s' "${1:-nothing}" "${tested:-none}")
"
}
levels_table() { printf '== instruction-set levels that ran\n%s' "$levels_ran"; }

levels_leg() {
	all=$(levels_usable)
	for hidden in amx avx512,amx avx2,avx512,amx,neon; do
		left=$(levels_usable $hidden)
		if [ "$left" = "$all" ]; then # the run before was on such a CPU
			skip_case "levels without $hidden" 'this CPU has none of them'
			continue
		fi
		say_leg "levels without $hidden (build)"
		COHORT_HIDE_ISA=$hidden
		export COHORT_HIDE_ISA
		# shellcheck disable=SC2046
		COHORT_EFFORT=short run_tests build $level_tests $(level_scripts)
		unset COHORT_HIDE_ISA
		levels_note $hidden
	done
}

# ---- Other properties ----------------------------------------------------------------------------------------------------

# on_machine TITLE SCRIPT COMMAND...: tests/e2e/SCRIPT.sh run by COMMAND, which takes something away.
on_machine() {
	title="on a machine with $1: $2" script=$2
	shift 2
	rc=0
	env COHORT_BUILD="$PWD/build" COHORT_SOURCE="$PWD" COHORT_EFFORT=short "$@" sh "tests/e2e/$script.sh" \
		>build/dev-machine.log 2>&1 </dev/null || rc=$?
	tap_count "$title" build/dev-machine.log
}

# Whether a process may have a namespace of its own, in which it can switch off what others keep.
can_unshare() { unshare "$1" true 2>/dev/null; }

# path_without NAME...: a folder with all other commands.
path_without() {
	rm -rf build/dev-path
	mkdir -p build/dev-path
	printf '%s\n' "$PATH" | tr : '\n' | while read -r dir; do
		[ ! -d "$dir" ] || find "$dir" -maxdepth 1 -mindepth 1 ! -type d -exec ln -s -t build/dev-path {} + 2>/dev/null || true
	done
	for name; do rm -f "build/dev-path/$name"; done
	printf '%s\n' "$PWD/build/dev-path"
}

machines_leg() {
	say_leg 'other machines (build)'
	first_cpu=$(taskset -cp $$ | sed 's/.*: *//; s/[-,].*//')
	on_machine 'one core' batched env E2E_THREADS= taskset -c "$first_cpu"
	on_machine '16 threads' run env E2E_THREADS=16
	on_machine 'no ../shared' files env COHORT_SHARED=/nonexistent
	on_machine 'no npm' bindings_node env PATH="$(path_without node npm npx)"
	# Shells and man(1) keep things at home.
	on_machine 'a home that nobody can write to' manuals env HOME=/proc/self XDG_STATE_HOME= XDG_CONFIG_HOME= XDG_CACHE_HOME=
	on_machine 'a slow disk' signals env LD_PRELOAD="$PWD/build/slow_disk.so"
	mkdir -p build/dev-locale
	if [ -d build/dev-locale/tr_TR.UTF-8 ] || localedef -i tr_TR -f UTF-8 build/dev-locale/tr_TR.UTF-8; then
		on_machine 'a Turkish locale' cohort_cmd env LOCPATH="$PWD/build/dev-locale" E2E_LOCALE=tr_TR.UTF-8
	else
		skip_case 'on a machine with a Turkish locale' 'it cannot be made here'
	fi
	if can_unshare -n; then
		on_machine 'no IPv6' serve_limits unshare -n sh -c \
			'ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6 && exec "$@"' sh
	else
		skip_case 'on a machine with no IPv6' 'no network namespace can be made here'
	fi
	if can_unshare -m && [ -d /dev/shm ]; then
		# Temporary files are there otherwise. Without what is mounted there it would be a folder like any other.
		on_machine 'no /dev/shm' serve_load env TMPDIR=/tmp unshare -m sh -c \
			'mount -t tmpfs -o ro,mode=0 none /dev/shm && exec "$@"' sh
	else
		skip_case 'on a machine with no /dev/shm' 'no mount namespace can be made here'
	fi
}

cmd_machines() {
	# shellcheck disable=SC2086
	need $pkgs_build $pkgs_test $pkgs_machines
	no_aslr=
	configure build "$cc" -Dtests=enabled
	compile build
	levels_leg
	machines_leg
	levels_table
	legs_table
	say "$n_pass passed, $n_fail failed, $n_skip skipped"
	[ $n_fail = 0 ]
}
