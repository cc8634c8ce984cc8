#include "device/primitive_cache.h"

#include <oneapi/dnnl/dnnl.hpp>

namespace sectionflow {
namespace {

/// What oneDNN takes by itself.
constexpr int kLibraryCapacity = 1024;
constexpr int kCapacity = 256;

}  // namespace

void bound_primitive_cache() {
  if (dnnl::get_primitive_cache_capacity() == kLibraryCapacity) dnnl::set_primitive_cache_capacity(kCapacity);
}

}  // namespace sectionflow
