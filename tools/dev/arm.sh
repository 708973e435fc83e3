# shellcheck shell=sh
# A part of ./dev, which reads it in. 64-bit ARM under an emulator: its libraries, its tests, and the bits of its logits
# beside those of this machine.

arm_root=build-arm64-root
arm_libs='libpcre2-dev libpcre2-8-0 libutf8proc-dev libutf8proc2 libjansson-dev libjansson4 libedit-dev libedit2 libtinfo6 libbsd-dev libbsd0 libmd-dev libmd0 libncurses-dev libcmocka-dev libcmocka0 libmicrohttpd-dev libmicrohttpd12 libgnutls30 libgnutls28-dev libp11-kit0 libp11-kit-dev libidn2-0 libidn2-dev libunistring2 libtasn1-6 libtasn1-6-dev libnettle8 libhogweed6 nettle-dev libgmp10 libffi8'
arm_tests='kern_test test_base_math test_dequant test_fp_mode test_golden test_model test_pool test_quant test_spec_decode test_transaction test_vocab'

# The libraries for arm64 are Debian packages that are unpacked, not installed: apt has lists of its own beside them, and
# the machine's packages and architectures stay as they are.
arm_fetch() {
	[ "$(cat $arm_root/libs 2>/dev/null)" != "$arm_libs" ] || return 0
	rm -rf $arm_root
	mkdir -p $arm_root/apt/lists/partial $arm_root/apt/archives/partial
	(
		cd $arm_root/apt
		: >status
		set -- -q -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o Acquire::Languages=none -o APT::Sandbox::User=root \
			-o "Dir::State=$PWD" -o "Dir::State::status=$PWD/status" -o "Dir::Cache=$PWD"
		apt-get "$@" update || true # a source without arm64 is no trouble as long as the packages are found
		# shellcheck disable=SC2086
		apt-get "$@" download $arm_libs
	) >$arm_root/fetch.log 2>&1 || return 1
	for p in $arm_root/apt/*.deb; do dpkg-deb -x "$p" $arm_root || return 1; done
	# Some libraries lie in /lib; the linker and the emulator look in one place.
	[ ! -d $arm_root/lib/aarch64-linux-gnu ] || cp -a $arm_root/lib/aarch64-linux-gnu/. $arm_root/usr/lib/aarch64-linux-gnu/ || return 1
	printf "[constants]\nroot = '%s'\ncpu = 'neoverse-n1'\n" "$PWD/$arm_root" >$arm_root/arm64.ini
	say "$arm_libs" >$arm_root/libs
}

# arm_run CPU PROGRAM ARGUMENT...
arm_run() {
	qemu_cpu=$1 arm_prog=$2
	shift 2
	COHORT_SOURCE=$PWD qemu-aarch64 -cpu "$qemu_cpu" -L /usr/aarch64-linux-gnu -E LD_LIBRARY_PATH="$PWD/$arm_root/usr/lib/aarch64-linux-gnu" \
		"build-arm64/$arm_prog" "$@"
}

# arm_same CPU TITLE ARGUMENT...: `cohort logits` gives the bytes there that it gives here.
arm_same() {
	arm_cpu=$1 arm_title=$2
	shift 2
	rm -f build-arm64/want build-arm64/got
	rc=0
	{
		build/cohort logits "$@" -o build-arm64/want && arm_run "$arm_cpu" cohort logits "$@" -o build-arm64/got &&
			cmp build-arm64/want build-arm64/got
	} >build-arm64/dev.log 2>&1 || rc=$?
	one_case "64-bit ARM ($arm_cpu): the logits of this machine, $arm_title" $rc build-arm64/dev.log
}

# arm_level CPU LEVEL: the best level of that CPU.
arm_level() {
	rc=0
	arm_run "$1" batched -prompt Once -n-predict 1 -verbose >build-arm64/dev.log 2>&1 &&
		grep -q "Instruction set: $2\$" build-arm64/dev.log || rc=$?
	one_case "64-bit ARM ($1): takes level $2" $rc build-arm64/dev.log
}

arm_here() { command -v qemu-aarch64 >/dev/null && command -v aarch64-linux-gnu-gcc >/dev/null && arm_fetch; }
# shellcheck disable=SC2086
arm_build() {
	[ "$(uname -m)" = x86_64 ] && arm_here || return 1
	configure build-arm64 aarch64-linux-gnu-gcc -Dwerror=true -Dquick=true -Dtests=enabled --cross-file $arm_root/arm64.ini --cross-file tools/cross-aarch64.ini &&
		compile build-arm64 batched cohort test_gate $arm_tests
}

# A CPU with dot products takes the NEON level; one without must choose the reference and never meet an instruction that
# it lacks.
arm_leg() {
	if [ "$(uname -m)" != x86_64 ]; then skip_case '64-bit ARM' 'this is not x86-64'; return 0; fi
	low_priority
	ahead_there arm
	if ! arm_here; then skip_case '64-bit ARM' 'packages it needs cannot be had'; return 0; fi
	if ! (arm_build); then
		one_case '64-bit ARM: build' 1
		return 0
	fi
	# The longest two run beside the others, or one processor would do nothing.
	arm_run cortex-a53 kern_test >build/dev-arm-kern.log 2>&1 &
	arm_kern=$!
	arm_run neoverse-n1 test_gate -plain -n 300 >build/dev-arm-gate.log 2>&1 &
	arm_gate=$!
	# shellcheck disable=SC2086
	run_tests build-arm64 --timeout-multiplier 3 $arm_tests
	arm_level neoverse-n1 neon
	arm_level cortex-a53 ref
	rc=0
	wait $arm_kern || rc=$?
	one_case '64-bit ARM (cortex-a53): kern_test' "$rc" build/dev-arm-kern.log
	rc=0
	wait $arm_gate || rc=$?
	{
		COHORT_SOURCE=$PWD build/test_gate -plain -n 300 | sed -n 's/.*; sum //p' >build-arm64/want &&
			sed -n 's/.*; sum //p' build/dev-arm-gate.log | cmp - build-arm64/want
	} >build-arm64/dev.log 2>&1 || rc=1
	one_case '64-bit ARM (neoverse-n1): rows of logits in random batches have the bits of this machine' "$rc" build-arm64/dev.log

	seq 1 9 390 >build-arm64/ids # longer than a block of the cache
	seq 1 60 390 >build-arm64/ids-few
	arm_same neoverse-n1 'built-in model' --tokens build-arm64/ids
	arm_same neoverse-n1 'built-in model, cache q8_0' --tokens build-arm64/ids --kv-type q8_0
	arm_same cortex-a53 'built-in model' --tokens build-arm64/ids-few
	for t in Q4_0 Q8_0 F16; do
		build/cohort synth -s n_vocab=400,n_embd=256,n_layer=2,n_head=4,n_ff=544 -t $t -o build-arm64/model.gguf ||
			rm -f build-arm64/model.gguf
		arm_same neoverse-n1 "random model in $t, cache f32" -m build-arm64/model.gguf --tokens build-arm64/ids --kv-type f32
	done
}
