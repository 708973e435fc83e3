/* AVX2: weights of eight rows interleaved. */
#define X86_N 8
#define X86_Q8_0_SIGNS 0
#define X86_INIT_PACK kern_avx2_init_pack
#include "kern/x86/avx2.h"
#include "kern/x86/pack.h"
