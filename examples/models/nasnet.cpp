#include "examples/models/nasnet.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/parts.h"
#include "graph/ops/pool.h"
#include "graph/ops/unary.h"

namespace sectionflow {
namespace {

class NasnetBuilder {
 public:
  NasnetBuilder(Value is_training, const NasnetOptions& options) : is_training_(is_training), options_(options) {}

  /// x [N, H, W, 3] -> [N, (H - 1) / 2, (W - 1) / 2, 32] at a width of 44
  Value stem(Value x) const {
    const std::int64_t filters = std::max<std::int64_t>(1, 32 * options_.width / 44);
    return norm(conv2d(x, {.features = filters, .stride = 2, .padding = Padding::valid, .name = "stem"}), "stem_norm");
  }

  /// x, previous [N, H, W, any], previous perhaps twice as large -> [N, H, W, 6 filters]
  Value normal_cell(Value x, Value previous, std::int64_t filters) const {
    const Value p = adjusted(previous, x, filters), h = squeezed(x, filters, "squeeze");
    const Value active_p = relu(p), active_h = relu(h), mean_p = mean3x3(p);
    const Value a_left = separable(active_h, filters, 5, 1, "a_left");
    const Value a = a_left + separable(active_p, filters, 3, 1, "a_right");
    const Value b_left = separable(active_p, filters, 5, 1, "b_left");
    const Value b = b_left + separable(active_p, filters, 3, 1, "b_right");
    const Value c = mean3x3(h) + p;
    const Value d = mean_p + mean_p;
    const Value e = separable(active_h, filters, 3, 1, "e_left") + h;
    return concat({p, a, b, c, d, e}, -1);
  }
  /// The same -> [N, H / 2, W / 2, 4 filters]
  Value reduction_cell(Value x, Value previous, std::int64_t filters) const {
    const Value p = adjusted(previous, x, filters), h = squeezed(x, filters, "squeeze");
    const Value active_p = relu(p), padded = zero_padded(h);
    const Value largest = max_pool2d(padded, {.window = 3, .stride = 2, .padding = Padding::valid});
    const Value mean = average_pool2d(padded, {.window = 3, .stride = 2, .padding = Padding::valid});
    const Value a_left = separable(relu(h), filters, 5, 2, "a_left");
    const Value a = a_left + separable(active_p, filters, 7, 2, "a_right");
    const Value b = largest + separable(active_p, filters, 7, 2, "b_right");
    const Value c = mean + separable(active_p, filters, 5, 2, "c_right");
    const Value d = mean3x3(a) + b;
    const Value e = separable(relu(a), filters, 3, 1, "e_left") + largest;
    return concat({b, c, d, e}, -1);
  }

  Value head(Value x) const {
    return dense(global_average_pool2d(relu(x)), {.features = options_.classes, .name = "fc"});
  }

 private:
  Value norm(Value x, const std::string& name, bool relu = false) const {
    return batch_norm(x, is_training_, {.decay = options_.decay, .relu = relu, .name = name});
  }
  Value squeezed(Value x, std::int64_t filters, const std::string& name) const {
    return norm(conv2d(relu(x), {.features = filters, .kernel = 1, .name = name}), name + "_norm");
  }

  /// What the cell before the last has made, in the size of x and with as many channels as the cell has filters.
  /// The first cell has one before it alone, which stays as it is.
  Value adjusted(Value previous, Value x, std::int64_t filters) const {
    if (previous == x) return x;
    if (previous.shape()[1] != x.shape()[1] || previous.shape()[2] != x.shape()[2]) return halved(previous, filters);
    return previous.shape()[3] == filters ? previous : squeezed(previous, filters, "adjust");
  }
  /// Every other pixel, and in the other half of the channels the pixels one further down and right of these.
  Value halved(Value previous, std::int64_t filters) const {
    const Value active = relu(previous);
    const std::int64_t height = active.shape()[1], width = active.shape()[2];
    const Value shifted = slice(active, {.begin = {0, 1, 1, 0}, .size = {-1, -1, -1, -1}});
    const std::int64_t half = filters / 2;
    const Value even = conv2d(active, {.features = half, .kernel = 1, .stride = 2, .name = "adjust_even"});
    // Where pixels end with an even one, the last shifted one lies in the zeros behind the image.
    const Value odd = conv2d(shifted, {.features = filters - half,
                                       .kernel = 1,
                                       .stride = 2,
                                       .padding = Padding({0, 0}, {height % 2, width % 2}),
                                       .name = "adjust_odd"});
    return norm(concat({even, odd}, -1), "adjust_norm");
  }

  /// Twice depthwise and 1x1, the first with the stride; x has had its relu.
  Value separable(Value x, std::int64_t filters, std::int64_t kernel, std::int64_t stride,
                  const std::string& name) const {
    x = norm(depthwise_and_pointwise(x, filters, kernel, stride, name + "1"), name + "1_norm", true);
    return norm(depthwise_and_pointwise(x, filters, kernel, 1, name + "2"), name + "2_norm");
  }
  static Value depthwise_and_pointwise(Value x, std::int64_t filters, std::int64_t kernel, std::int64_t stride,
                                       const std::string& name) {
    const std::int64_t inputs = x.shape()[3];
    x = conv2d(x, {.features = inputs,
                   .kernel = {kernel, kernel},
                   .stride = {stride, stride},
                   .groups = inputs,
                   .name = name + "_depthwise"});
    return conv2d(x, {.features = filters, .kernel = 1, .name = name + "_pointwise"});
  }

  static Value mean3x3(Value x) { return average_pool2d(x, {.window = 3, .stride = 1, .padding = Padding::same}); }
  /// For a 3x3 window of stride 2; these zeros count, as largest elements too.
  static Value zero_padded(Value x) {
    return pad(x, {.before = {0, x.shape()[1] % 2, x.shape()[2] % 2, 0}, .after = {0, 1, 1, 0}});
  }

  Value is_training_;
  NasnetOptions options_;
};

struct Cell {
  std::string name;
  bool reduces;
  std::int64_t filters;
};

std::vector<Cell> cells_of(const NasnetOptions& options) {
  std::vector<Cell> cells;
  for (const std::int64_t share : {4, 2}) {
    cells.push_back({text_of("stem", cells.size() + 1), true, std::max<std::int64_t>(1, options.width / share)});
  }
  for (int stage = 0; stage < 3; ++stage) {
    const std::int64_t filters = options.width << stage;
    if (stage > 0) cells.push_back({text_of("reduction", stage), true, filters});
    for (int cell = 0; cell < options.cells; ++cell) {
      cells.push_back({text_of("stage", stage + 1, "_cell", cell), false, filters});
    }
  }
  return cells;
}

}  // namespace

ImageNetwork nasnet(const NasnetOptions& options) {
  SF_CHECK(options.cells >= 1 && options.width >= 2, ArgumentError, "nasnet of ", options.cells, " cells a stage and ",
           options.width, " filters; wanted 1 and 2 at least");
  return [options](Value is_training) {
    const NasnetBuilder builder(is_training, options);
    const std::vector<Cell> cells = cells_of(options);
    const auto previous = std::make_shared<Value>();  // what the cell before the last has made
    std::vector<ModelBlock> blocks;
    for (std::size_t i = 0; i < cells.size(); ++i) {
      blocks.push_back([=, cell = cells[i], is_first = i == 0, is_last = i + 1 == cells.size()](Value x) {
        if (is_first) *previous = x = builder.stem(x);
        Value y;
        {
          const auto scope = x.graph().scope(cell.name);
          y = cell.reduces ? builder.reduction_cell(x, *previous, cell.filters)
                           : builder.normal_cell(x, *previous, cell.filters);
        }
        *previous = x;
        return is_last ? builder.head(y) : y;
      });
    }
    return blocks;
  };
}

}  // namespace sectionflow
