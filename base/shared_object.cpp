#include "base/shared_object.h"

#include <dlfcn.h>

#include <cstdlib>
#include <vector>

#include "base/error.h"

namespace sectionflow {
namespace {

/// The folder of the program or shared library that this code is in.
std::string own_folder() {
  static const char here = 0;
  Dl_info info{};
  if (dladdr(&here, &info) == 0 || info.dli_fname == nullptr) return "";
  const std::string path = info.dli_fname;
  const auto slash = path.rfind('/');
  return slash == std::string::npos ? "" : path.substr(0, slash + 1);
}

std::vector<std::string> places_of(const char* file, const char* variable) {
  // An empty name would open the program itself.
  if (const char* path = std::getenv(variable); path != nullptr && *path != '\0') return {path};
  std::vector<std::string> places;
  if (const std::string folder = own_folder(); !folder.empty()) places.push_back(folder + file);
  places.emplace_back(file);
  return places;
}

}  // namespace

void* open_shared_object(const char* file, const char* variable, std::string& tried) {
  for (const std::string& place : places_of(file, variable)) {
    if (void* library = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
    tried += text_of("\n  ", dlerror());
  }
  return nullptr;
}

}  // namespace sectionflow
