// Plans of schedules as training makes them: a residual network, whole and in sections.

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <vector>

#include "base/bytes.h"
#include "tests/schedule/checked_plan.h"

namespace sectionflow {
namespace {

using namespace testing_support;

struct Layer {
  std::size_t output_bytes;
  std::size_t workspace_bytes;
  bool in_place;  // writes over its input, whose storage lives on
  bool skips;     // its input is also added three layers later
};

// Bottleneck blocks of convolution, normalisation and relu, channels growing while images shrink.
std::vector<Layer> residual_network(std::size_t batch) {
  std::vector<Layer> layers = {{batch * 112 * 112 * 64 * 4, 8_MiB, false, false}};
  const int blocks_of_stage[] = {3, 4, 6, 3};
  std::size_t side = 56;
  std::size_t channels = 64;
  for (const int num_blocks : blocks_of_stage) {
    for (int block = 0; block < num_blocks; ++block) {
      const std::size_t narrow = batch * side * side * channels * 4;
      layers.push_back({narrow, 3_MiB + channels, false, true});
      layers.push_back({narrow, 0, true, false});
      layers.push_back({narrow, 17_MiB + 100 * channels, false, false});
      layers.push_back({narrow, channels * 8, false, false});
      layers.push_back({4 * narrow, 5_MiB, false, false});
      layers.push_back({4 * narrow, 0, true, false});
    }
    side /= 2;
    channels *= 2;
  }
  layers.push_back({batch * 1000 * 4, 0, false, false});
  return layers;
}

// Appends a forward pass over layers [begin, end) from `step` on; each value lives to the backward step of its reader.
void append_forward(const std::vector<Layer>& layers, int begin, int end, StepIndex step, StepIndex backward_end,
                    Storages& storages) {
  for (int layer = begin; layer < end; ++layer, ++step) {
    const auto& [output_bytes, workspace_bytes, in_place, skips] = layers[layer];
    if (!in_place) {
      storages.push_back(storage(output_bytes, step, backward_end - 2 * (layer - begin)));
    }
    storages.push_back(storage(workspace_bytes, step, step));
    storages.push_back(storage(output_bytes / 4096 + 4, step, backward_end - 2 * (layer - begin)));  // saved statistics
  }
}

// Gradients of the values of layers [begin, end), two steps a layer, the last layer first.
void append_backward(const std::vector<Layer>& layers, int begin, int end, StepIndex backward_end, Storages& storages) {
  for (int layer = begin; layer < end; ++layer) {
    const auto& [output_bytes, workspace_bytes, in_place, skips] = layers[layer];
    const StepIndex step = backward_end - 2 * (layer - begin);
    storages.push_back(storage(output_bytes, step - 1, step + (skips ? 7 : 1)));
    storages.push_back(storage(workspace_bytes * 2, step, step));
    storages.push_back(storage(workspace_bytes / 3, step, step + 1));  // gradient of the filter, until its update
  }
}

Storages training_schedule(std::size_t batch) {
  const std::vector<Layer> layers = residual_network(batch);
  const int num_layers = static_cast<int>(layers.size());
  Storages storages;
  append_forward(layers, 0, num_layers, 0, 3 * num_layers, storages);
  append_backward(layers, 0, num_layers, 3 * num_layers, storages);
  return storages;
}

// The first forward pass keeps only what crosses a section's border; each section is then run forward again.
Storages sectioned_schedule(std::size_t batch, int layers_a_section) {
  const std::vector<Layer> layers = residual_network(batch);
  const int num_layers = static_cast<int>(layers.size());
  const int num_sections = (num_layers + layers_a_section - 1) / layers_a_section;
  Storages storages;
  for (int layer = 0; layer < num_layers; ++layer) {
    const int section = layer / layers_a_section;
    const bool border = (layer + 1) % layers_a_section == 0;
    const StepIndex border_end = num_layers + 4 * layers_a_section * (num_sections - section);
    storages.push_back(storage(layers[layer].output_bytes, layer, border ? border_end : layer + 1));
    storages.push_back(storage(layers[layer].workspace_bytes, layer, layer));
  }
  for (int section = num_sections - 1; section >= 0; --section) {
    const int begin = section * layers_a_section;
    const int end = std::min(num_layers, begin + layers_a_section);
    const StepIndex step = num_layers + 4 * layers_a_section * (num_sections - 1 - section);
    const StepIndex backward_end = step + 3 * layers_a_section;
    append_forward(layers, begin, end, step, backward_end, storages);
    append_backward(layers, begin, end, backward_end, storages);
  }
  return storages;
}

TEST(PlanMemory, ParametersFixedAtTheBottomCostNothing) {
  Storages storages = training_schedule(8);
  storages.push_back(fixed(100_MiB, 0, 100'000, 0));
  storages.push_back(fixed(200_MiB, 0, 100'000, 100_MiB));
  EXPECT_LE(gap_percent(checked_plan(storages)), 2);
}

TEST(PlanMemory, TrainingSchedulesComeWithinTwoPercent) {
  for (const std::size_t batch : {1, 2, 7, 32, 256}) {
    const double gap = gap_percent(checked_plan(training_schedule(batch)));
    std::cout << "residual network, batch " << batch << ": above the bound by " << gap << " %\n";
    EXPECT_LE(gap, 2) << "batch " << batch;
  }
}

TEST(PlanMemory, SectionedSchedulesComeWithinTwoPercent) {
  for (const std::size_t batch : {1, 32}) {
    for (const int layers_a_section : {3, 6, 10, 17, 40}) {
      const double gap = gap_percent(checked_plan(sectioned_schedule(batch, layers_a_section)));
      std::cout << "batch " << batch << ", sections of " << layers_a_section << ": above the bound by " << gap
                << " %\n";
      EXPECT_LE(gap, 2) << "batch " << batch << ", sections of " << layers_a_section;
    }
  }
}

}  // namespace
}  // namespace sectionflow
