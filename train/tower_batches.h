#pragma once

#include <string>
#include <vector>

#include "data/source.h"
#include "runtime/feeds.h"
#include "train/towers.h"

namespace sectionflow {

/// The placeholder of that name. Throws: ArgumentError (SF-E600) where there is none, with the nearest.
Value placeholder_named(const Graph& graph, const std::string& name);

/// What one of `towers` is fed of a batch: of tensors among `inputs` its part, of others all. Views: the batch must
/// live as long. Throws: ArgumentError (SF-E600) for a tensor that no placeholder takes; ShapeError (SF-E602) for an
/// input that towers do not divide and for inputs of different numbers of examples, with both numbers.
Feeds feeds_of_tower(const Example& batch, const std::vector<std::string>& inputs, const Graph& graph, int tower,
                     int towers);

/// What towers give of one output, joined. Throws: ShapeError for tensors that do not fit together.
HostTensor joined(const std::string& name, const TowerOutput& output, const std::vector<HostTensor>& parts);

}  // namespace sectionflow
