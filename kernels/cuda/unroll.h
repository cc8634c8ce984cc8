#pragma once

// Arrays stay in registers only where all loops over them are unrolled.
#if defined(__CUDA_ARCH__)
#define SF_UNROLL _Pragma("unroll")
#else
#define SF_UNROLL
#endif
