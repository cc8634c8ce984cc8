#include <algorithm>
#include <map>
#include <optional>

#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/matmul.h"
#include "graph/ops/random.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/support/layer_kinds.h"
#include "tests/support/training_spec.h"

namespace sectionflow::testing {
namespace {

using MakeOptimizer = std::function<Optimizer(const ScalarOrValue& learning_rate)>;

const std::map<std::string, MakeOptimizer>& optimizers() {
  static const std::map<std::string, MakeOptimizer> all = {
      {"sgd", [](const ScalarOrValue& rate) { return Sgd{.learning_rate = rate}; }},
      {"adam", [](const ScalarOrValue& rate) { return Adam{.learning_rate = rate}; }},
      {"momentum", [](const ScalarOrValue& rate) { return Momentum{.learning_rate = rate}; }},
      {"nesterov", [](const ScalarOrValue& rate) { return Momentum{.learning_rate = rate, .nesterov = true}; }},
      {"adagrad", [](const ScalarOrValue& rate) { return Adagrad{.learning_rate = rate}; }},
      {"rms_prop", [](const ScalarOrValue& rate) { return RmsProp{.learning_rate = rate}; }},
      {"adam_w", [](const ScalarOrValue& rate) { return AdamW{.learning_rate = rate}; }},
      {"lion", [](const ScalarOrValue& rate) { return Lion{.learning_rate = rate}; }},
      {"lamb", [](const ScalarOrValue& rate) { return Lamb{.learning_rate = rate}; }},
      {"adafactor", [](const ScalarOrValue& rate) { return Adafactor{.learning_rate = rate}; }},
      {"adam_8bit",
       [](const ScalarOrValue& rate) { return Adam{.learning_rate = rate, .slots = SlotStorage::eight_bit}; }},
  };
  return all;
}

/// What a step feeds.
struct Inputs {
  Value images, labels, is_training, rate;
};

Inputs make_inputs(Graph& graph, const TrainingSpec& spec) {
  Inputs in;
  in.images = placeholder(graph, "images", {kDynamic, spec.side, spec.side, spec.channels});
  in.labels = placeholder(graph, "labels", {kDynamic}, Dtype::i32);
  in.is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
  if (spec.feeds_rate) in.rate = placeholder(graph, "learning_rate", {});
  return in;
}

Feeds feeds_of(const TrainingSpec& spec, const Inputs& in, bool is_training, std::int64_t step, FeedStore& store) {
  const bool is_last = step == spec.steps - 1;
  const std::int64_t batch =
      is_last && spec.smaller_last_batch ? std::max<std::int64_t>(1, spec.batch - 2) : spec.batch;
  store.reserve(2);
  store.push_back(random_images({batch, spec.side, spec.side, spec.channels}, spec.seed, step));
  store.push_back(random_classes(batch, ModelBuilder::kClasses, spec.seed, step));
  Feeds feeds = {{in.images, store[0]}, {in.labels, store[1]}, {in.is_training, is_training}};
  if (in.rate.valid() && is_training) feeds.push_back({in.rate, 0.05F / static_cast<float>(step + 1)});
  return feeds;
}

/// Where the tensors of a spec are kept; without a disk tier the host takes what would go there.
SectionOptions offload_options(const TrainingSpec& spec) {
  SectionOptions options = spec.sections;
  if (!spec.has_disk && options.borders == BorderPolicy::disk) options.borders = BorderPolicy::host;
  return options;
}

/// Opens and closes sections as places say.
class Cut {
 public:
  Cut(GraphSectionManager& manager, const TrainingSpec& spec) : manager_(manager), spec_(spec) {}
  void enter(Place place) {
    if (place == Place::same || spec_.placed > 0) return;
    open_.reset();
    if (place == Place::section) open();
  }
  void close() { open_.reset(); }

 private:
  void open() {
    const bool differs = spec_.sections_differ && manager_.sections().size() % 2 == 1;
    if (differs) {
      open_.emplace(manager_.new_section({}, other_options()));
    } else {
      open_.emplace(manager_.new_section());
    }
  }
  SectionOptions other_options() const {
    SectionOptions options = offload_options(spec_);
    options.interior = static_cast<InteriorPolicy>((static_cast<int>(options.interior) + 1) % 4);
    options.borders = options.borders == BorderPolicy::keep ? BorderPolicy::host : BorderPolicy::keep;
    options.prefetch = (options.prefetch + 1) % 3;
    return options;
  }

  GraphSectionManager& manager_;
  const TrainingSpec& spec_;
  std::optional<SectionScope> open_;
};

Value logits_of(const TrainingSpec& spec, const ModelBuilder& model, Value x) {
  x = pooled_rows(x);
  const Shape tied = {ModelBuilder::kClasses, x.shape()[1]};
  if (spec.ties_head && model.table.valid() && model.table.shape() == tied) {
    return matmul(x, model.table, {.transpose_b = true});
  }
  return dense(x, {.features = ModelBuilder::kClasses, .name = "logits"});
}

Value head_loss(const TrainingSpec& spec, const ModelBuilder& model, Value mask, Value x) {
  const Value logits = logits_of(spec, model, x);
  Value each = softmax_cross_entropy(logits, model.classes);
  if (spec.masks_loss) each = each * mask;
  Value loss = mean(each);
  for (Value other : model.losses) loss = loss + other * 0.1F;
  return loss;
}

TrainingNet build_model(Graph& graph, GraphSectionManager& manager, const TrainingSpec& spec, const Inputs& in) {
  TrainingNet net;
  ModelBuilder model{.graph = graph, .is_training = in.is_training, .classes = in.labels, .images = in.images};
  Value mask;
  if (spec.masks_loss) mask = cast(cast(in.labels, Dtype::boolean), Dtype::f32) * 0.5F + 0.5F;  // class 0 counts half
  if (spec.prepares_images) {
    model.images = in.images * variable("gain", fill(graph, {spec.channels}, 1.5)) - 0.1F;
  }
  Cut cut(manager, spec);
  Value x = model.images;
  for (const LayerSpec& layer : spec.layers) {
    cut.enter(layer.place);
    x = kind_named(layer.kind).build(model, layer, in_f32(x));
    model.outputs[layer.id] = x;
    net.values.push_back(x);
  }
  x = in_f32(x);
  cut.enter(manager.sections().empty() ? Place::section : spec.head);
  net.loss = head_loss(spec, model, mask, x);
  cut.close();
  net.values.insert(net.values.end(), model.views.begin(), model.views.end());
  return net;
}

std::vector<GradientAndVariable> used(GradientUse use, std::vector<GradientAndVariable> pairs, Graph& graph) {
  if (use == GradientUse::plain) return pairs;
  if (use == GradientUse::clipped) return clip_by_global_norm(pairs, 0.5F).gradients;
  if (use == GradientUse::noisy) {
    for (auto& [gradient, variable] : pairs) {
      gradient = gradient + random_normal(graph, variable.shape(), {.stddev = 0.01F});
    }
    return pairs;
  }
  Value squares;
  for (const auto& pair : pairs) {
    const Value square = reduce_sum(pair.gradient * pair.gradient);
    squares = squares.valid() ? squares + square : square;
  }
  for (auto& pair : pairs) pair.gradient = pair.gradient / (squares + 1.0F);
  return pairs;
}

void add_training(Graph& graph, GraphSectionManager& manager, const TrainingSpec& spec, const Inputs& in, Value loss) {
  TrainingOptions options;
  options.sections = offload_options(spec);
  if (spec.counts_steps) {
    options.global_step = variable("global_step", fill(graph, {}, 0, Dtype::i64), {.trainable = false});
  }
  options.micro_batches = spec.micro_batches;
  options.ranks = spec.ranks;
  options.distribution = spec.distribution;
  options.server = spec.server;
  options.skip_non_finite = spec.skips;
  if (spec.averages) options.average = WeightAverageOptions{.decay = 0.75F, .start = 1};
  const ScalarOrValue rate = in.rate.valid() ? ScalarOrValue(in.rate) : ScalarOrValue(0.05F);
  const Optimizer optimizer = optimizers().at(spec.optimizer)(rate);
  if (spec.placed > 0 && spec.gradients != GradientUse::plain) options.clip_norm = 0.5F;
  if (spec.placed > 0 || spec.gradients == GradientUse::plain) {
    manager.add_training_ops(optimizer, loss, options);
  } else {
    manager.add_training_ops(optimizer, used(spec.gradients, compute_gradients(loss), graph), options);
  }
}

}  // namespace

const std::vector<std::string>& optimizer_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, make] : optimizers()) all.push_back(name);
    return all;
  }();
  return names;
}

TrainingCase training_case(const TrainingSpec& spec, const BeforePrepare& before_prepare) {
  return {text_of("seed ", spec.seed), [spec, before_prepare](Graph& graph, GraphSectionManager& manager) {
            if (spec.placed > 0)
              manager.place_cuts({.sections = spec.placed, .batch = spec.batch, .session = {.threads = 1}});
            const Inputs in = make_inputs(graph, spec);
            TrainingNet net = build_model(graph, manager, spec, in);
            add_training(graph, manager, spec, in, net.loss);
            if (before_prepare) before_prepare(net);
            manager.prepare_training();
            net.feeds = [spec, in](std::int64_t step, FeedStore& store) {
              return feeds_of(spec, in, true, step, store);
            };
            net.evaluation_feeds = [spec, in](std::int64_t step, FeedStore& store) {
              return feeds_of(spec, in, false, step, store);
            };
            if (spec.evaluates) net.evaluated = {net.loss};
            net.micro_batches = spec.micro_batches;
            return net;
          }};
}

}  // namespace sectionflow::testing
