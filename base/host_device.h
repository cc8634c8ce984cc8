#pragma once

/// Marks functions that run on the host and in CUDA kernels alike.
#if defined(__CUDACC__)
#define SF_HOST_DEVICE __host__ __device__
#else
#define SF_HOST_DEVICE
#endif
