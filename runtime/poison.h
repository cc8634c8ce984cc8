#pragma once

#include "device/device.h"
#include "graph/graph.h"
#include "schedule/program.h"

namespace sectionflow {

// What poison mode does to device memory; `region` is where the planned region lies.

/// Every byte of what has no value: a NaN in every float type.
inline constexpr int kPoison = 0xFF;

/// Fills what begins with this step with NaN and guards, so that a kernel which reads its output, or scratch, shows.
void poison_births(const Program& program, StepIndex index, std::byte* region, Device& device);
/// Checks the guards of what ends with this step, and fills it with NaN. Throws: InternalError naming the last reader.
void poison_deaths(const Program& program, StepIndex index, std::byte* region, Device& device, const Graph& graph);

}  // namespace sectionflow
