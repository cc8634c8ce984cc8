// Norms of groups, instances and rows, and the CTC loss, in sections: the bytes of the whole graph.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <vector>

#include "graph/layers.h"
#include "graph/ops/basic.h"
#include "graph/ops/convolution.h"
#include "graph/ops/ctc_loss.h"
#include "graph/ops/group_norm.h"
#include "graph/ops/layout.h"
#include "graph/ops/reduce.h"
#include "graph/ops/unary.h"
#include "graph/transformer.h"
#include "sections/graph_section_manager.h"
#include "tests/graph/trained_bytes.h"
#include "tests/support/tolerance.h"

namespace sectionflow::norm_sections {
namespace {

/// `cut`: behind which of its parts a section ends, a bit each.
std::vector<HostTensor> trained(unsigned cut, bool by_sections, Dtype precision) {
  Graph graph;
  GraphSectionManager manager(graph);
  const MixedPrecision layers_in(graph, precision);
  const Value images = placeholder(graph, "images", {kDynamic, 6, 4, 3}, Dtype::f32);
  const Value labels = placeholder(graph, "labels", {kDynamic, 2}, Dtype::i32);
  const Value lengths = placeholder(graph, "lengths", {kDynamic}, Dtype::i32);
  const Value label_lengths = placeholder(graph, "label_lengths", {kDynamic}, Dtype::i32);
  std::optional<SectionScope> section(manager.new_section());
  const auto end_part = [&](unsigned part) {
    if ((cut >> part & 1) == 0) return;
    section.reset();
    section.emplace(manager.new_section());
  };
  Value x = relu(group_norm(conv2d(images, {.features = 8}), {.groups = 2}));
  end_part(0);
  x = relu(instance_norm(conv2d(x, {.features = 8})));
  end_part(1);
  x = reshape(x, {-1, 6, 32});
  x = transformer_block(dense(x, {.features = 8}), {.attention = {.heads = 2}, .hidden = 8, .norm = Norm::rms});
  end_part(2);
  const Value loss = mean(ctc_loss(dense(x, {.features = 4}), labels, lengths, label_lengths));
  section.reset();
  return testing_support::trained_bytes(graph, manager, loss, by_sections, [&](int step) {
    HostTensor pixels(Dtype::f32, {3, 6, 4, 3});
    for (std::size_t i = 0; i < 216; ++i) pixels.values<float>()[i] = static_cast<float>((i * 37 + step) % 29) / 14 - 1;
    return Feeds{{images, pixels},
                 {labels, HostTensor::of<std::int32_t>({3, 2}, {1, 2, 3, 3, 2, 0})},
                 {lengths, HostTensor::of<std::int32_t>({3}, {6, 6, 4})},
                 {label_lengths, HostTensor::of<std::int32_t>({3}, {2, 2, 1})}};
  });
}

TEST(NormsInSections, TrainTheBytesOfTheWholeGraph) {
  for (const Dtype precision : {Dtype::f32, Dtype::bf16}) {
    const std::vector<HostTensor> whole = trained(0, false, precision);
    EXPECT_TRUE(std::isfinite(whole[2].item<float>()));
    EXPECT_NE(whole[0].item<float>(), whole[2].item<float>());
    for (const unsigned cut : {0U, 2U, 5U, 7U}) {
      const std::vector<HostTensor> cycles = trained(cut, true, precision);
      ASSERT_EQ(cycles.size(), whole.size());
      for (std::size_t i = 0; i < whole.size(); ++i) {
        EXPECT_TRUE(testing_support::same_bits(cycles[i], whole[i])) << "cut " << cut << ", tensor " << i;
      }
    }
  }
}

}  // namespace
}  // namespace sectionflow::norm_sections
