/* AVX-512: weights of sixteen rows interleaved. Bytes of Q8_0 are stored plus 128, as VNNI wants them unsigned. */
#define X86_N 16
#define X86_Q8_0_SIGNS 0x80808080u
#define X86_INIT_PACK kern_avx512_init_pack
#include "kern/x86/avx512.h"
#include "kern/x86/pack.h"
