// The CUDA folders as a shared object that is loaded on demand, on a machine that may have no GPU.

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>

#include "base/bytes.h"
#include "device/cuda_module.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "runtime/session.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;
using testing::ThrowsMessage;

/// Whether this machine has a GPU that can be used.
bool has_gpu() {
  try {
    return cuda_module().num_devices > 0;
  } catch (const DeviceError&) {
    return false;
  }
}

TEST(CudaModule, WithoutAGpuTheSessionSaysWhatIsMissing) {
  if (has_gpu()) GTEST_SKIP() << "this machine has a GPU";
  Graph graph;
  for (int attempt = 0; attempt < 2; ++attempt) {
    EXPECT_THAT([&] { Session session(graph, {.device = cuda()}); },
                ThrowsMessage<DeviceError>(AllOf(HasSubstr("SF-E500 DeviceError: cuda: "),
                                                 AnyOf(HasSubstr("driver"), HasSubstr("GPU")),
                                                 HasSubstr("take {.device = cpu()}, or best_device()"))));
  }
}

TEST(CudaModule, TheBestDeviceIsAlwaysUsable) {
  const DeviceSpec best = best_device();
  EXPECT_EQ(best.kind, has_gpu() ? DeviceKind::cuda : DeviceKind::cpu);
  Graph graph;
  const Value y = fill(graph, {3}, 2.0F) * 3.0F;
  Session session(graph, {.device = best, .device_memory = 1_MiB});
  session.initialize();
  EXPECT_EQ(session.run(y).values<float>()[2], 6.0F);
}

#if defined(SF_CUDA_BUILD_LIBRARY)
TEST(CudaModule, TheSharedObjectNeedsNothingOfTheProgramAndSaysWhyItCannotBeUsed) {
  // Where the toolkit's libraries are missing it cannot be loaded, and nothing else depends on it.
  const char* const elsewhere = std::getenv("SECTIONFLOW_CUDA_LIBRARY");
  void* library = dlopen(elsewhere != nullptr ? elsewhere : SF_CUDA_BUILD_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto entry = reinterpret_cast<CudaModuleEntry>(dlsym(library, kCudaModuleEntry));
  ASSERT_NE(entry, nullptr);
  CudaModule module;
  std::string why_not;
  if (entry(module, why_not)) {
    EXPECT_GT(module.num_devices, 0);
    EXPECT_NE(module.kernels, nullptr);
  } else {
    EXPECT_THAT(why_not, AnyOf(HasSubstr("driver"), HasSubstr("device"), HasSubstr("GPU")));
  }
}

/// How many kernels the shared object has, by the host functions by which they are launched: one for each source that
/// has the kernel. 0 where nobody can tell: it is stripped, or there is no nm.
std::size_t kernels_of(const char* library) {
  const auto close = [](FILE* pipe) { (void)pclose(pipe); };
  const std::unique_ptr<FILE, decltype(close)> symbols(
      popen(text_of("'" SF_NM "' -C '", library, "' 2>&1").c_str(), "r"), close);
  std::set<std::string> addresses;
  std::string line;
  for (int letter = symbols ? std::fgetc(symbols.get()) : EOF; letter != EOF; letter = std::fgetc(symbols.get())) {
    if (letter != '\n') {
      line += static_cast<char>(letter);
      continue;
    }
    const auto has = [&](const char* text) { return line.find(text) != std::string::npos; };
    const bool is_body = has(" void sectionflow::gpu::run_each<") || has(" void sectionflow::gpu::run_blocks<");
    const bool is_plain = has(" sectionflow::(anonymous namespace)::write_words(") ||
                          has(" sectionflow::(anonymous namespace)::find_changed(");
    if ((is_body || is_plain) && !has("[clone")) addresses.insert(line.substr(0, line.find(' ')));
    line.clear();
  }
  return addresses.size();
}

TEST(CudaModule, EveryKernelOfEverySourceIsLoadedWhenADeviceIsOpened) {
  const char* const elsewhere = std::getenv("SECTIONFLOW_CUDA_LIBRARY");
  const char* const path = elsewhere != nullptr ? elsewhere : SF_CUDA_BUILD_LIBRARY;
  const std::size_t kernels = kernels_of(path);
  if (kernels == 0) GTEST_SKIP() << path << " has no symbols that " << SF_NM << " reads";
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto num_loaded = reinterpret_cast<std::size_t (*)()>(dlsym(library, "sectionflow_cuda_num_own_kernels"));
  ASSERT_NE(num_loaded, nullptr);
  EXPECT_EQ(num_loaded(), kernels);
}
#endif

}  // namespace
}  // namespace sectionflow
