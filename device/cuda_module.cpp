#include "device/cuda_module.h"

#include <dlfcn.h>

#include <atomic>

#include "base/error.h"
#include "base/shared_object.h"

namespace sectionflow {
namespace {

constexpr const char* kLibrary = "libsectionflow_cuda.so";

std::atomic<const CudaModule*> replaced_module{nullptr};

void* open_library() {
  std::string tried;
  void* const library = open_shared_object(kLibrary, "SECTIONFLOW_CUDA_LIBRARY", tried);
  SF_CHECK(library != nullptr, DeviceError, "cuda: the GPU part of the library cannot be loaded:", tried,
           "\n  try a build with -DSECTIONFLOW_CUDA=ON, or name the file in SECTIONFLOW_CUDA_LIBRARY");
  return library;
}

CudaModule load_module() {
  // Without a driver the toolkit's libraries are not even loaded: they would take hundreds of megabytes to say so.
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  SF_CHECK(driver != nullptr, DeviceError, "cuda: there is no NVIDIA driver on this machine (libcuda.so.1 is missing)",
           hint("take {.device = cpu()}, or best_device()"));
  void* library = open_library();
  auto entry = reinterpret_cast<CudaModuleEntry>(dlsym(library, kCudaModuleEntry));
  SF_CHECK(entry != nullptr, DeviceError, "cuda: ", kLibrary, " is of another version: it has no ", kCudaModuleEntry,
           "; build both from the same source");
  CudaModule module;
  std::string why_not;
  SF_CHECK(entry(module, why_not), DeviceError, "cuda: ", why_not, hint("take {.device = cpu()}, or best_device()"));
  return module;
}

}  // namespace

const CudaModule& cuda_module() {
  if (const CudaModule* replaced = replaced_module.load()) return *replaced;
  // A load that threw is tried again by the next call.
  static const CudaModule module = load_module();
  return module;
}

void set_cuda_module(const CudaModule* module) {
  replaced_module.store(module);
}

}  // namespace sectionflow
