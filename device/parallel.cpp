#include "device/parallel.h"

#include <omp.h>
#include <xmmintrin.h>

#include "base/error.h"
#include "base/held_signals.h"

namespace sectionflow {
namespace {

constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;

/// What no setting of ours changes: where the call comes from.
void check_call(int threads) {
  if (threads == 1) return;
  // oneDNN computes alone there, whatever its kernels were made for.
  SF_CHECK(omp_in_parallel() == 0, DeviceError, "cpu: the session computes on ", threads,
           " threads, and the call comes from inside a parallel region of OpenMP, where they cannot be had",
           hint("call from outside of the region, or make the session with {.threads = 1}"));
  SF_CHECK(omp_get_thread_limit() >= threads, DeviceError, "cpu: the session computes on ", threads,
           " threads, and OpenMP's limit is ", omp_get_thread_limit(), " where the call comes from",
           hint("raise thread_limit or OMP_THREAD_LIMIT, or make the session with {.threads = ", omp_get_thread_limit(),
                "}"));
}

/// `threads`, where a team of so many can be had from here.
int checked(int threads) {
  check_call(threads);
  return threads;
}

}  // namespace

void flush_denormals() {
  _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
}

ComputeTeam::Settings::Settings()
    : num_threads(omp_get_max_threads()),
      dynamic(omp_get_dynamic()),
      max_active_levels(omp_get_max_active_levels()),
      control(_mm_getcsr()) {}

ComputeTeam::Settings::~Settings() {
  omp_set_num_threads(num_threads);
  if (dynamic != 0) omp_set_dynamic(dynamic);
  if (max_active_levels == 0) omp_set_max_active_levels(0);
  _mm_setcsr(control);
}

ComputeTeam::ComputeTeam(int threads) : waiting_(checked(threads)) {
  omp_set_num_threads(threads);
  // A team that may be cut by the load of the machine is none to make kernels for.
  if (previous_.dynamic != 0) omp_set_dynamic(0);
  if (previous_.max_active_levels == 0) omp_set_max_active_levels(1);
  flush_denormals();
  int size = 0;
  // Workers that existed before keep their own mode until they are told.
#pragma omp parallel num_threads(threads)
  {
    flush_denormals();
    waiting_.place_thread(omp_get_thread_num());
    if (omp_get_thread_num() == 0) {
      size = omp_get_num_threads();
    } else {
      hold_signals_of_worker();
    }
  }
  SF_CHECK(size == threads, DeviceError, "cpu: the session computes on ", threads, " threads, and OpenMP gives ", size,
           hint("make the session with {.threads = ", size, "}, or see which settings of OpenMP hold threads back"));
}

}  // namespace sectionflow
