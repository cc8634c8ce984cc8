// A U-Net that marks rectangles in noise, trained under a budget that the whole graph exceeds: its skip connections
// cross several sections.

#include <iostream>

#include "examples/no_arguments.h"
#include "sectionflow.h"

namespace {

using namespace sectionflow;

constexpr std::int64_t kBatch = 8, kSize = 64;

struct Picture {
  HostTensor image{Dtype::f32, {kBatch, kSize, kSize, 1}};
  HostTensor mask{Dtype::i32, {kBatch * kSize * kSize}};
};

/// Noise with one brighter rectangle an image. The same for the same step.
Picture draw(std::uint32_t step) {
  Picture picture;
  std::uint32_t word = 2463534242U + 7919U * step;
  const auto next = [&word] {  // xorshift32, Marsaglia 2003
    word ^= word << 13;
    word ^= word >> 17;
    word ^= word << 5;
    return word;
  };
  for (std::int64_t n = 0; n < kBatch; ++n) {
    const std::int64_t top = next() % 40, left = next() % 40, height = 8 + next() % 16, width = 8 + next() % 16;
    for (std::int64_t row = 0; row < kSize; ++row) {
      for (std::int64_t column = 0; column < kSize; ++column) {
        const bool inside = row >= top && row < top + height && column >= left && column < left + width;
        const std::int64_t pixel = (n * kSize + row) * kSize + column;
        picture.image.values<float>()[pixel] = static_cast<float>(next() % 1000) / 1000 + (inside ? 0.5F : 0.0F);
        picture.mask.values<std::int32_t>()[pixel] = inside ? 1 : 0;
      }
    }
  }
  return picture;
}

// The batch norms are told by hand whether they train, in every run; graph.training() would need no feed.
struct Net {
  Value image, mask, is_training, loss{}, accuracy{};
};

Value twice(Value x, std::int64_t filters, Value is_training) {
  for (int i = 0; i < 2; ++i) x = batch_norm(conv2d(x, {.features = filters}), is_training, {.relu = true});
  return x;
}

Value up(Value x, Value skip, std::int64_t filters, Value is_training) {
  x = conv_transpose2d(x, {.features = filters, .kernel = 2, .stride = 2});
  return twice(concat({skip, x}, -1), filters, is_training);
}

Net build(Graph& graph, GraphSectionManager& manager) {
  Net net{.image = placeholder(graph, "image", {kDynamic, kSize, kSize, 1}),
          .mask = placeholder(graph, "mask", {kDynamic}, Dtype::i32),
          .is_training = placeholder(graph, "is_training", {}, Dtype::boolean)};
  Value x = net.image, fine, middle;
  {
    auto section = manager.new_section("down 1");
    fine = twice(x, 16, net.is_training);
    x = max_pool2d(fine);
  }
  {
    auto section = manager.new_section("down 2");
    middle = twice(x, 32, net.is_training);
    x = max_pool2d(middle);
  }
  {
    auto section = manager.new_section("bottom and up 2");
    x = up(twice(x, 64, net.is_training), middle, 32, net.is_training);
  }
  {
    auto section = manager.new_section("up 1");
    x = conv2d(up(x, fine, 16, net.is_training), {.features = 2, .kernel = 1, .bias = true});
    const Value logits = reshape(x, {-1, 2});
    net.loss = mean(softmax_cross_entropy(logits, net.mask));
    net.accuracy = mean(cast(equal(argmax(logits), net.mask), Dtype::f32));
  }
  manager.add_training_ops(Adam{.learning_rate = 3e-3}, net.loss);
  manager.prepare_training();
  return net;
}

}  // namespace

int main(int argc, char** argv) {
  if (const auto status =
          answer_arguments(argc, argv, "Trains a U-Net in sections, under a budget that the whole graph exceeds."))
    return *status;
  start_logging("04_unet");
  Graph graph;
  GraphSectionManager manager(graph);
  const Net net = build(graph, manager);

  Session session(graph, {.device_memory = 21_MiB});
  session.initialize();
  const Picture first = draw(0);
  const Feeds feeds = {{net.image, first.image}, {net.mask, first.mask}, {net.is_training, true}};
  try {
    session.run({net.loss}, feeds, {.targets = manager.training_operations()});
    std::cout << "the whole graph fits: choose a smaller budget\n";
    return 1;
  } catch (const BudgetError& error) {
    std::cout << "the whole graph needs " << bytes_text(error.minimum_bytes) << ", the budget is "
              << bytes_text(error.budget_bytes) << "; in sections it trains:\n";
  }
  float share = 0;
  for (std::uint32_t step = 0; step < 40; ++step) {
    const Picture picture = draw(step);
    const auto [loss, accuracy] =
        manager.run_full_cycle(session, {net.loss, net.accuracy},
                               {{net.image, picture.image}, {net.mask, picture.mask}, {net.is_training, true}});
    share = accuracy.item<float>();
    if (step % 10 == 9) std::cout << "step " << step + 1 << "  loss " << loss.item<float>() << "  " << share << "\n";
  }
  std::cout << "pixels marked rightly: " << share << "\n";
  return share > 0.95F ? 0 : 1;
}
