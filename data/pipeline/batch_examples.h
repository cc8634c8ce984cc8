#pragma once

#include <cstdint>
#include <vector>

#include "data/dataset_options.h"
#include "data/source.h"

namespace sectionflow {

/// The batch of the examples, one or more of them: each tensor [d0, ...] becomes one [B, d0, ...], padded where the
/// options say so, in `memory` (BatchMemory), which may be nullptr. Throws: ShapeError (SF-E406) naming example and
/// tensor where they do not fit; ArgumentError for padding values that a tensor cannot hold, and for names that no
/// tensor has.
Example batch_of(std::vector<Example> examples, const BatchOptions& options, BatchMemory* memory = nullptr);

/// The bucket of an example: how many boundaries are not above the first dimension of its tensor `bucket_by`.
/// Throws: ArgumentError when there is no such tensor, ShapeError (SF-E406) when it is a scalar.
std::size_t bucket_of(const Example& example, const BatchOptions& options);

/// A tensor of an example. Throws: ArgumentError naming who asks for it, the tensors that there are, and the nearest.
const HostTensor& tensor_named(const Example& example, const std::string& name, const std::string& who);
HostTensor& tensor_named(Example& example, const std::string& name, const std::string& who);

}  // namespace sectionflow
