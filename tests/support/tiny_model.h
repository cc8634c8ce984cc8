#pragma once

#include <cstdint>
#include <string>

#include "autodiff/optimizers.h"
#include "compare/strategy.h"

namespace sectionflow::testing_support {

/// Two blocks with a skip connection and batch norms, then a dense layer, in up to three sections.
TrainableModel build_tiny(Graph& graph, GraphSectionManager& manager, int num_sections, const Optimizer& optimizer);

/// That model whole (`num_sections` 0) or in sections whose borders stay on the device.
Strategy tiny_strategy(const std::string& name, int num_sections,
                       const Optimizer& optimizer = Adam{.learning_rate = 1e-2F});

/// Random images and labels for it.
Batch tiny_batch(std::int64_t step, std::int64_t examples = 6);

}  // namespace sectionflow::testing_support
