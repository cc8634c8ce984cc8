// Training by sections with variables whose home tier is the disk changes no bit and no planned byte.

#include <gtest/gtest.h>

#include "runtime/engine.h"
#include "sectionflow.h"
#include "tests/support/training_case.h"

namespace sectionflow::testing {
namespace {

/// Three sections of dense layers, whose variables take far more than what passes through them.
TrainingCase three_dense_sections() {
  return {"three dense sections", [](Graph& graph, GraphSectionManager& manager) {
            const Value x = placeholder(graph, "x", {kDynamic, 32});
            const Value labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
            Value h = x;
            for (int layer = 0; layer < 2; ++layer) {
              const auto section = manager.new_section();
              h = dropout(tanh(dense(h, {.features = 64})), {.rate = 0.25F});
            }
            Value loss;
            {
              const auto section = manager.new_section();
              loss = mean(softmax_cross_entropy(dense(h, {.features = 8}), labels));
            }
            manager.add_training_ops(Adam{.learning_rate = 1e-2F}, loss);
            manager.prepare_training();
            return TrainingNet{loss, [=](std::int64_t step, FeedStore& store) {
                                 store.push_back(random_images({4, 32}, 5, step));
                                 store.push_back(random_classes(4, 8, 5, step));
                                 return Feeds{{x, store[store.size() - 2]}, {labels, store.back()}};
                               }};
          }};
}

TEST(DiskHomesInSections, ChangeNoBitByWhateverStrategy) {
  TrainOptions usual{.steps = 3};
  const TrainingRecord reference = record_training(three_dense_sections(), How::whole, usual);
  for (const bool copy_threads : {false, true}) {
    for (const How how : {How::whole, How::sections, How::halves, How::mixed}) {
      TrainOptions options = usual;
      options.session = {.host_memory = 80_KiB, .disk = 1_MiB, .swap_variables = true, .copy_threads = copy_threads};
      const TrainingRecord record = record_training(three_dense_sections(), how, options);
      EXPECT_EQ(first_difference(reference, record), "") << name_of(how);
      for (const std::string& complaint : record.complaints) ADD_FAILURE() << complaint;
    }
  }
}

TEST(DiskHomesInSections, AreTakenWhereHostMemoryIsTooSmall) {
  Graph graph;
  GraphSectionManager manager(graph);
  const TrainingNet net = three_dense_sections().build(graph, manager);
  FeedStore store;
  Session session(graph,
                  {.device_memory = 4_MiB, .host_memory = 80_KiB, .disk = 1_MiB, .swap_variables = true, .threads = 1});
  const ProgramReport report = manager.plan(session, {net.loss}, types_of(net.feeds(0, store)));
  EXPECT_TRUE(report.fits);
  EXPECT_GT(report.disk_persistent_bytes, 0U);
  EXPECT_GT(report.host_persistent_bytes, 0U);
}

}  // namespace
}  // namespace sectionflow::testing
