#include "device/cuda_module.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "base/error.h"

namespace sectionflow {
namespace {

constexpr const char* kLibrary = "libsectionflow_cuda.so";

std::atomic<const CudaModule*> replaced_module{nullptr};

/// The folder of the program or shared library that this code is in.
std::string own_folder() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(&kLibrary), &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

/// Where the shared object may lie: what the user says, beside the program, the loader's path, in which programs of the
/// build folder have the folder where it was built.
std::vector<std::string> library_places() {
  // An empty name would open the program itself.
  if (const char* path = std::getenv("SECTIONFLOW_CUDA_LIBRARY"); path != nullptr && *path != '\0') return {path};
  std::vector<std::string> places;
  if (const std::string folder = own_folder(); !folder.empty()) places.push_back(folder + kLibrary);
  places.emplace_back(kLibrary);
  return places;
}

void* open_library() {
  std::string tried;
  for (const std::string& place : library_places()) {
    // Its symbols are nobody else's, and it needs none of ours.
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried += text_of("\n  ", dlerror());
  }
  throw DeviceError(
      text_of("cuda: the GPU part of the library cannot be loaded:", tried,
              "\n  try a build with -DSECTIONFLOW_CUDA=ON, or name the file in SECTIONFLOW_CUDA_LIBRARY"));
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
