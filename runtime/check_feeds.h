#pragma once

#include <vector>

#include "runtime/feeds.h"
#include "schedule/signature.h"

namespace sectionflow {

/// Throws: ArgumentError for a value of another graph, one that is computed, one fed twice, or of another dtype;
/// ShapeError for a shape that does not match the placeholder's.
Signature signature_of(const Graph& graph, const Feeds& feeds);
/// The same from types alone.
Signature signature_of(const Graph& graph, const FeedTypes& types);

/// Throws: ArgumentError (SF-E307) naming the first element of a float feed that is NaN or infinite.
void check_finite(const Feeds& feeds);
/// Throws: ArgumentError (SF-E311) for a fetch that is no value of the graph, with the nearest name that is.
void check_fetches(const Graph& graph, const std::vector<Value>& fetches);

}  // namespace sectionflow
