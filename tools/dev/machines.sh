# shellcheck shell=sh
# A part of ./dev, which reads it in. Tests as other machines would run them: CPUs without some instruction-set levels, and
# machines that lack something else that a test may rely on (a second core, IPv6, a home directory, ...).

# ---- Instruction-set levels ----------------------------------------------------------------------------------------------

# What names a level or computes: kernels, golden values, exactness. The scripts are those that ask for levels.
level_tests='kern_test test_archs test_dequant test_exact test_exact_archs test_exact_seq test_fp_mode test_gate test_golden test_levels'
level_scripts() { grep -lE 'has_level|\$\(levels\)' tests/e2e/*.sh | sed 's,.*/,,; s,\.sh$,,' | grep -vx lib; }

# levels_usable [HIDDEN]: the levels that programs choose from, worst to best, on a line.
levels_usable() { COHORT_HIDE_ISA=${1:-} build/cohort info --levels | sed -n 's/^\([a-z0-9]*\) *usable.*/\1/p' | tr '\n' ' ' | sed 's/ $//'; }

# levels_tested: those whose kernels kern_test compared in the last run, as its cases say, and how often the last leg's
# programs had to do without others.
levels_note() { # HIDDEN
	tested=$(awk '/^test: / { on = / kern_test$/ } on && /^ok [0-9]+ - [a-z0-9]+: / { print $4 }' "build/meson-logs/testlog.txt" | sort -u | tr -d : | tr '\n' ' ')
	levels_ran="$levels_ran$(printf '\n   hidden: %-24s kernels tested: %s' "${1:-nothing}" "$tested")"
}
levels_ran=

levels_leg() {
	all=$(levels_usable)
	for hidden in amx avx512,amx avx2,avx512,amx,neon; do
		left=$(levels_usable $hidden)
		say_leg "levels without $hidden: $left (build)"
		# The tests above ran on such a CPU already.
		if [ "$left" = "$all" ]; then
			skip_case "levels without $hidden" 'this CPU has none of them'
			continue
		fi
		COHORT_HIDE_ISA=$hidden
		export COHORT_HIDE_ISA
		# shellcheck disable=SC2046
		COHORT_EFFORT=short run_tests build $level_tests $(level_scripts)
		levels_note $hidden
		unset COHORT_HIDE_ISA
	done
}

# ---- Other properties ----------------------------------------------------------------------------------------------------

# on_machine TITLE SCRIPT COMMAND...: tests/e2e/SCRIPT.sh begun by COMMAND, which makes the machine what TITLE says.
on_machine() {
	title="$1: $2"
	log=build/dev-machine.log
	script=$2
	shift 2
	rc=0
	env COHORT_BUILD="$PWD/build" COHORT_SOURCE="$PWD" COHORT_EFFORT=short "$@" sh "tests/e2e/$script.sh" >$log 2>&1 </dev/null || rc=$?
	tap_count "$title" $log
}

# In a namespace of its own a process may unmount and switch off what others keep.
alone() { unshare "$1" true 2>/dev/null; }

machines_leg() {
	say_leg 'other machines (build)'
	on_machine 'one core' batched taskset -c "$(taskset -cp $$ | sed 's/.*[: ]\([0-9]*\).*/\1/; s/[-,].*//')" env E2E_THREADS=
	on_machine '16 threads' run env E2E_THREADS=16
	on_machine 'no ../shared' files env COHORT_SHARED=/nonexistent
	on_machine 'no npm' bindings_node env PATH="$(path_without npm node)"
	on_machine 'a home that cannot be written' interactive env HOME=/proc/self HISTFILE= XDG_STATE_HOME= XDG_CONFIG_HOME=
	on_machine 'another locale' options env LOCPATH="$PWD/build/dev-locale" E2E_LOCALE=tr_TR.UTF-8
	on_machine 'a slow disk' files env LD_PRELOAD="$PWD/build/slow_disk.so"
	if alone -n; then
		on_machine 'no IPv6' serve_routes unshare -n sh -c 'ip link set lo up && sysctl -qw net.ipv6.conf.all.disable_ipv6=1 && exec "$@"' sh
	else
		skip_case 'no IPv6' 'no network namespace can be made here'
	fi
	if alone -m; then
		on_machine 'no /dev/shm' jobs unshare -m sh -c 'umount -l /dev/shm && rmdir /dev/shm 2>/dev/null; exec "$@"' sh
	else
		skip_case 'no /dev/shm' 'no mount namespace can be made here'
	fi
}
