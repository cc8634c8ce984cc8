#pragma once

/// Marks what the shared library exports: everything in `namespace SF_API sectionflow { ... }`. The library is compiled
/// with hidden visibility, so that what only sources and inner headers declare stays inside. Every header that
/// sectionflow.h reaches opens its namespace so, types alone included: an exception is caught by its type on the other
/// side of the border only where its type information is exported.
#define SF_API [[gnu::visibility("default")]]
