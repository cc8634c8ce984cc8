#pragma once

namespace sectionflow {

/// Lets oneDNN's own cache, one of the process, keep so many primitives and no more: enough for those of one program to
/// be shared, and few enough (about 12 MiB) not to keep what dropped programs have given back. A number that the
/// environment (ONEDNN_PRIMITIVE_CACHE_CAPACITY) or another user of oneDNN in the process has chosen is left.
void bound_primitive_cache();

}  // namespace sectionflow
