#include "planning/generate.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "base/error.h"
#include "base/random.h"

namespace sectionflow::planning {
namespace {

constexpr int kMostOperations = 200'000;

/// Adds operations with one output each, by what they read.
class InstanceBuilder {
 public:
  InstanceBuilder(std::string name, double operations) {
    SF_CHECK(operations <= kMostOperations, ArgumentError, "generate: '", name, "' would have ", operations,
             " operations, wanted at most ", kMostOperations);
    instance_.name = std::move(name);
  }
  int add(std::string name, double seconds, std::int64_t bytes, std::vector<int> inputs) {
    const int index = static_cast<int>(instance_.ids.size());
    std::sort(inputs.begin(), inputs.end());
    inputs.erase(std::unique(inputs.begin(), inputs.end()), inputs.end());
    instance_.problem.values.push_back({name, bytes, index});
    instance_.problem.operations.push_back({std::move(name), seconds, 0, std::move(inputs), {index}});
    instance_.ids.push_back(std::to_string(index));
    instance_.backward.push_back(backward_);
    return index;
  }
  /// What is added from here on belongs to the backward pass.
  void begin_backward() { backward_ = true; }
  std::int64_t bytes_of(int operation) const {
    return instance_.problem.values[static_cast<std::size_t>(operation)].bytes;
  }
  Instance finish() {
    check_problem(instance_.problem);
    return std::move(instance_);
  }

 private:
  Instance instance_;
  bool backward_ = false;
};

/// Random whole numbers, one after the other.
class Draws {
 public:
  explicit Draws(std::uint64_t seed) : address_{.seed = seed} {}
  /// From `low` to `high`, both included.
  int between(int low, int high) {
    if (used_ == 4) {
      words_ = random_words(address_, block_++);
      used_ = 0;
    }
    const std::uint64_t count = static_cast<std::uint64_t>(high - low) + 1;
    return low + static_cast<int>((words_[used_++] * count) >> 32);
  }

 private:
  RandomAddress address_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  std::size_t used_ = 4;
};

/// What the operations of a transformer are made of.
class GptBuilder {
 public:
  GptBuilder(const GptSize& size, const Roofline& device)
      : size_(size),
        device_(device),
        builder_(text_of("gpt, ", size.layers, " layers, hidden ", size.hidden), 24.0 * size.layers + 4) {
    const double bytes = static_cast<double>(size.tokens) * static_cast<double>(size.hidden) * size.bytes_per_element;
    // Checked before anything is multiplied as whole numbers; the exact sum is checked at the end.
    SF_CHECK(bytes * 60 * size.layers < static_cast<double>(kMostProblemBytes), ArgumentError,
             "generate: activations of ", bytes, " bytes in ", size.layers, " layers add up to more than 2^53");
    activation_ = size.tokens * size.hidden * size.bytes_per_element;
    const auto hidden = static_cast<double>(size.hidden);
    products_ = static_cast<double>(size.tokens) * hidden * hidden;
    scores_ = static_cast<double>(size.tokens) * static_cast<double>(size.sequence) * hidden;
  }

  Instance build() {
    int x = add("embedding", 1, 0, {}, 1);
    for (int layer = 0; layer < size_.layers; ++layer) x = add_layer(layer, x);
    const int norm = add("norm", 1, 0, {x});
    builder_.begin_backward();
    const int head = add("head", 1, 48 * products_, {norm});
    // Priced as the norms of layers, which add another gradient.
    int gradient = add("norm_grad", 1, 0, {x, head}, 1);
    for (int layer = size_.layers - 1; layer >= 0; --layer) gradient = add_gradients(layer, gradient);
    return builder_.finish();
  }

 private:
  struct Layer {
    int x, ln1, qkv, attention, add1, ln2, fc1, gelu;
  };
  /// `units` and `extra_units` of X: the output's size, and what is read besides the inputs.
  int add(const std::string& name, int units, double flops, std::vector<int> inputs, int extra_units = 0) {
    std::int64_t traffic = (units + extra_units) * activation_;
    for (const int input : inputs) traffic += builder_.bytes_of(input);
    const double seconds = std::max(flops / device_.flops, static_cast<double>(traffic) / device_.bytes_per_second);
    return builder_.add(name, seconds + device_.seconds_to_launch, units * activation_, std::move(inputs));
  }

  int add_layer(int index, int x) {
    const std::string name = text_of("layer", index, "/");
    const int ln1 = add(name + "ln1", 1, 0, {x});
    const int qkv = add(name + "qkv", 3, 6 * products_, {ln1});
    const int attention = add(name + "attention", 1, 2 * scores_, {qkv});
    const int projection = add(name + "projection", 1, 2 * products_, {attention});
    const int add1 = add(name + "add1", 1, 0, {x, projection});
    const int ln2 = add(name + "ln2", 1, 0, {add1});
    const int fc1 = add(name + "fc1", 4, 8 * products_, {ln2});
    const int gelu = add(name + "gelu", 4, 0, {fc1});
    const int fc2 = add(name + "fc2", 1, 8 * products_, {gelu});
    layers_.push_back({x, ln1, qkv, attention, add1, ln2, fc1, gelu});
    return add(name + "add2", 1, 0, {add1, fc2});
  }

  int add_gradients(int index, int d) {
    const Layer& of = layers_[static_cast<std::size_t>(index)];
    const std::string name = text_of("layer", index, "/");
    const int drop2_grad = add(name + "drop2_grad", 1, 0, {d});
    const int gelu_d = add(name + "gelu_d", 4, 8 * products_, {drop2_grad});
    add(name + "fc2_dw", 0, 8 * products_, {of.gelu, drop2_grad});
    const int gelu_grad = add(name + "gelu_grad", 4, 0, {of.fc1, gelu_d});
    const int ln2_d = add(name + "ln2_d", 1, 8 * products_, {gelu_grad});
    add(name + "fc1_dw", 0, 8 * products_, {of.ln2, gelu_grad});
    const int ln2_grad = add(name + "ln2_grad", 1, 0, {of.add1, ln2_d, d});
    const int drop1_grad = add(name + "drop1_grad", 1, 0, {ln2_grad});
    const int attention_d = add(name + "attention_d", 1, 2 * products_, {drop1_grad});
    add(name + "projection_dw", 0, 2 * products_, {of.attention, drop1_grad});
    const int attention_grad = add(name + "attention_grad", 3, 5 * scores_, {of.qkv, of.attention, attention_d});
    const int ln1_d = add(name + "ln1_d", 1, 6 * products_, {attention_grad});
    add(name + "qkv_dw", 0, 6 * products_, {of.ln1, attention_grad});
    return add(name + "ln1_grad", 1, 0, {of.x, ln1_d, ln2_grad});
  }

  const GptSize size_;
  const Roofline device_;
  InstanceBuilder builder_;
  std::int64_t activation_ = 0;       // X, in bytes
  double products_ = 0, scores_ = 0;  // Th^2, Tsh
  std::vector<Layer> layers_;
};

/// A U-shaped network: what is added forward is remembered, and its gradients come from the last on.
class UnetBuilder {
 public:
  UnetBuilder(int levels, std::uint64_t seed, std::int64_t bytes)
      : bytes_(bytes),
        builder_(text_of("unet, ", levels, " levels"), 20.0 * levels + 20),
        draws_(seed),
        levels_(levels) {}

  Instance build() {
    int x = add("image", 1, 0, {});
    std::vector<int> skips;
    for (int level = 0; level < levels_; ++level) {
      const std::string name = text_of("down", level, "/");
      x = add(name + "conv1", 8, level, {x});
      x = add(name + "conv2", 8, level, {x});
      skips.push_back(x);
      x = add(name + "pool", 1, level + 1, {x});
    }
    x = add("bottom", 8, levels_, {x});
    for (int level = levels_ - 1; level >= 0; --level) {
      const std::string name = text_of("up", level, "/");
      x = add(name + "scale", 1, level, {x});
      x = add(name + "merge", 8, level, {x, skips[static_cast<std::size_t>(level)]});
      x = add(name + "conv", 8, level, {x});
    }
    builder_.begin_backward();
    gradients_[x].push_back(builder_.add("loss", seconds(1, size(0)), size(0), {x}));
    for (std::size_t i = forward_.size(); i-- > 1;) add_gradients(forward_[i]);
    return builder_.finish();
  }

 private:
  struct Made {
    std::string name;
    int operation, passes;
    std::vector<int> inputs;
  };
  std::int64_t size(int level) const { return std::max<std::int64_t>(1, bytes_ >> std::min(level, 62)); }
  /// Passes over the bytes of the output at 1 TB/s, drawn from half to one and a half of that.
  double seconds(int passes, std::int64_t bytes) {
    return static_cast<double>(passes) * static_cast<double>(bytes) * 1e-12 * draws_.between(50, 150) / 100;
  }
  int add(const std::string& name, int passes, int level, const std::vector<int>& inputs) {
    const int operation = builder_.add(name, seconds(passes, size(level)), size(level), inputs);
    forward_.push_back({name, operation, passes, inputs});
    return operation;
  }
  /// Of each input, and of the weights where there are any; several gradients of one output are added up first.
  void add_gradients(const Made& of) {
    std::vector<int>& parts = gradients_[of.operation];
    const int gradient = parts.size() == 1
                             ? parts[0]
                             : builder_.add(of.name + "/grad_sum", seconds(1, builder_.bytes_of(of.operation)),
                                            builder_.bytes_of(of.operation), parts);
    std::vector<int> reads = of.inputs;
    reads.push_back(gradient);
    for (const int input : of.inputs) {
      const std::int64_t bytes = builder_.bytes_of(input);
      gradients_[input].push_back(builder_.add(of.name + "/grad", seconds(of.passes, bytes), bytes, reads));
    }
    if (of.passes > 1)
      builder_.add(of.name + "/weight_grad", seconds(of.passes, builder_.bytes_of(of.operation)), 0, reads);
  }

  const std::int64_t bytes_;
  InstanceBuilder builder_;
  Draws draws_;
  const int levels_;
  std::vector<Made> forward_;
  std::map<int, std::vector<int>> gradients_;
};

void check_positive(const char* what, double value) {
  SF_CHECK(std::isfinite(value) && value > 0, ArgumentError, "generate: ", what, " is ", value, ", wanted more than 0");
}

}  // namespace

Instance generate_gpt(const GptSize& size, const Roofline& device) {
  check_positive("layers", size.layers);
  check_positive("tokens", static_cast<double>(size.tokens));
  check_positive("sequence", static_cast<double>(size.sequence));
  check_positive("hidden", static_cast<double>(size.hidden));
  check_positive("bytes_per_element", size.bytes_per_element);
  check_positive("flops", device.flops);
  check_positive("bytes_per_second", device.bytes_per_second);
  SF_CHECK(std::isfinite(device.seconds_to_launch) && device.seconds_to_launch >= 0, ArgumentError,
           "generate: seconds_to_launch is ", device.seconds_to_launch, ", wanted at least 0");
  return GptBuilder(size, device).build();
}

Instance generate_layered(int operations, std::uint64_t seed) {
  check_positive("operations", operations);
  InstanceBuilder builder(text_of("layered, seed ", seed), operations);
  Draws draws(seed);
  int layer_before = 0, layer = 0;  // the first operations of both
  for (int next = 0; next < operations;) {
    const int end = next + std::min(draws.between(1, 12), operations - next);
    for (; next < end; ++next) {
      std::vector<int> inputs;
      const int width = layer - layer_before;
      for (int count = width == 0 ? 0 : draws.between(1, std::min(3, width)); count > 0;) {
        const int input = layer_before + draws.between(0, width - 1);
        if (std::find(inputs.begin(), inputs.end(), input) != inputs.end()) continue;
        inputs.push_back(input);
        --count;
      }
      if (layer_before > 0 && draws.between(1, 4) == 1) inputs.push_back(draws.between(0, layer_before - 1));
      const double seconds = draws.between(1, 100);
      builder.add(text_of("operation", next), seconds, draws.between(1, 100), std::move(inputs));
    }
    layer_before = layer;
    layer = next;
  }
  return builder.finish();
}

Instance generate_chain(int stages, std::uint64_t seed) {
  check_positive("stages", stages);
  InstanceBuilder builder(text_of("chain, seed ", seed), 3.0 * stages + 2);
  Draws draws(seed);
  const auto add = [&](const std::string& name, int index, std::int64_t bytes, std::vector<int> inputs) {
    return builder.add(text_of(name, index), draws.between(1, 10), bytes, std::move(inputs));
  };
  std::vector<int> x = {add("x", 0, draws.between(1, 5), {})}, inner;
  for (int i = 0; i < stages; ++i) {
    inner.push_back(add("inner", i, draws.between(1, 20), {x.back()}));
    x.push_back(add("outer", i, draws.between(1, 5), {inner.back()}));
  }
  builder.begin_backward();
  int gradient = add("loss", stages, builder.bytes_of(x.back()), {x.back()});
  for (int i = stages - 1; i >= 0; --i) {
    const auto at = static_cast<std::size_t>(i);
    gradient = add("back", i, builder.bytes_of(x[at]), {x[at], inner[at], x[at + 1], gradient});
  }
  return builder.finish();
}

Instance generate_unet(int levels, std::uint64_t seed, std::int64_t bytes) {
  check_positive("levels", levels);
  check_positive("bytes", static_cast<double>(bytes));
  SF_CHECK(bytes <= kMostProblemBytes / 1000, ArgumentError, "generate: ", bytes,
           " bytes at the first level, wanted at most ", kMostProblemBytes / 1000);
  return UnetBuilder(levels, seed, bytes).build();
}

}  // namespace sectionflow::planning
