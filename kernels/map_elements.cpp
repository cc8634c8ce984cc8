#include "kernels/map_elements.h"

#include "device/parallel.h"

namespace sectionflow {

void call_in_parts(std::int64_t count, const void* body, LoopPart part) {
  parallel_for(count, kParallelGrain, [&](std::int64_t begin, std::int64_t end) { part(body, begin, end); });
}

}  // namespace sectionflow
