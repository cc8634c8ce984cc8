#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "fit/plan_file.h"
#include "graph/layers.h"
#include "graph/ops/arithmetic.h"
#include "graph/ops/basic.h"
#include "graph/ops/dropout.h"
#include "graph/ops/indexing.h"
#include "graph/ops/matmul.h"
#include "graph/ops/parts.h"
#include "graph/ops/reduce.h"
#include "graph/ops/softmax.h"
#include "graph/ops/unary.h"
#include "tests/fit/fit_case.h"

// Networks in which some values are larger than all else, and need not be whole.
namespace sectionflow::testing {

/// The least number of classes whose products are computed in blocks of rows; of 256 rows there are two blocks.
inline constexpr std::int64_t kWideClasses = 24576, kWideRows = 256;
inline constexpr std::size_t kLogitsBytes = kWideRows * kWideClasses * sizeof(float);

struct WideHead {
  bool tied = true;
  Optimizer optimizer = Adam{.learning_rate = 1e-2F};
  std::int64_t rows = kWideRows;
  bool is_capped = false;  ///< logits within -10 and 10, whose gradients have other names beside
};

/// Tokens, an embedding, a layer with dropout, and the logits of the next token; these are the first of `values`.
inline TrainingCase wide_head(const WideHead& head = {}) {
  return {text_of(head.tied ? "a tied" : "an untied", " head"), [=](Graph& graph, GraphSectionManager& manager) {
            constexpr std::int64_t kFeatures = 8;
            std::optional section(manager.new_section());
            const Value tokens = placeholder(graph, "tokens", {kDynamic}, Dtype::i32),
                        targets = placeholder(graph, "targets", {kDynamic}, Dtype::i32),
                        is_training = placeholder(graph, "is_training", {}, Dtype::boolean);
            const auto table = [&](const char* name) {
              const auto scope = graph.scope(name);
              return variable("table", truncated_normal_initializer(0.5F)({graph, {kWideClasses, kFeatures}}));
            };
            const Value words = table("words");
            Value x = dropout(gather(words, tokens), is_training, {.rate = 0.2F});
            x = layer_norm(x + relu(dense(x, {.features = kFeatures})));
            Value logits = matmul(x, head.tied ? words : table("head"), {.transpose_b = true});
            if (head.is_capped) logits = tanh(logits * 0.1F) * 10.0F;
            const Value loss = mean(softmax_cross_entropy(logits, targets));
            section.reset();
            finish(manager, loss, head.optimizer);
            const auto feeds = [=](bool trains) {
              return [=](std::int64_t step, FeedStore& store) {
                store.reserve(store.size() + 2);
                store.push_back(random_classes(head.rows, int{kWideClasses}, 3, step));
                store.push_back(random_classes(head.rows, int{kWideClasses}, 4, step));
                return Feeds{{tokens, store[store.size() - 2]}, {targets, store.back()}, {is_training, trains}};
              };
            };
            return TrainingNet{loss, feeds(true), {loss}, feeds(false), {logits}};
          }};
}

/// Two branches of a fed tensor of many rows side by side, their readers, and the gradients of all.
inline TrainingCase concatenation() {
  return {"a concatenation", [](Graph& graph, GraphSectionManager& manager) {
            constexpr std::int64_t kRows = 64, kColumns = 128;
            std::optional section(manager.new_section());
            const Value data = placeholder(graph, "data", {kRows, kColumns}),
                        labels = placeholder(graph, "labels", {kRows}, Dtype::i32);
            const Value scales = variable("scales", fill(graph, {kRows, kColumns}, 0.5));
            const Value x = data * scales;
            const Value joined = concat({tanh(x), sigmoid(x), square(x), exp(x)}, 1);
            const Value loss = mean(softmax_cross_entropy(silu(joined) * joined, labels));
            section.reset();
            finish(manager, loss);
            const auto feeds = [=](std::int64_t step, FeedStore& store) {
              store.reserve(store.size() + 2);
              store.push_back(random_images({kRows, kColumns}, 5, step));
              store.push_back(random_classes(kRows, int{4 * kColumns}, 6, step));
              return Feeds{{data, store[store.size() - 2]}, {labels, store.back()}};
            };
            return TrainingNet{loss, feeds, {}, {}, {joined}};
          }};
}

/// Of operations drawn by the seed, most of which run in parts.
inline TrainingCase random_chain(std::uint64_t seed) {
  return {text_of("a chain of seed ", seed), [=](Graph& graph, GraphSectionManager& manager) {
            std::optional section(manager.new_section());
            std::mt19937_64 random(seed);
            const auto below = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
            const std::int64_t rows = 12 * static_cast<std::int64_t>(1 + below(4)),
                               columns = 32 * static_cast<std::int64_t>(1 + below(3));
            const Value data = placeholder(graph, "data", {rows, columns}),
                        labels = placeholder(graph, "labels", {rows}, Dtype::i32);
            const Value scales = variable("scales", fill(graph, {rows, columns}, 0.5));
            std::vector<Value> values = {data * scales};
            const auto any = [&] { return values[below(values.size())]; };
            for (std::size_t i = 0, count = 4 + below(8); i < count; ++i) {
              const std::size_t kind = below(14);
              if (kind < 2) {
                values.push_back(tanh(any()));
              } else if (kind < 4) {
                values.push_back(any() * any());
              } else if (kind < 6) {
                values.push_back(softmax(any()));
              } else if (kind < 8) {
                values.push_back(slice(concat({any(), any(), any()}, 1), {.begin = {0, 5}, .size = {rows, columns}}));
              } else if (kind < 10) {
                values.push_back(concat({any(), any()}, 1));
                values.back() = slice(exp(values.back()) * values.back(), {.begin = {0, 3}, .size = {rows, columns}});
              } else if (kind < 12) {
                values.push_back(relu(any()) - any() * scales);
              } else if (kind < 13) {
                values.push_back(any() * reduce_mean(any()));
              } else {
                values.push_back(layer_norm(any()));
              }
            }
            values.push_back(add_n(values));
            const Value loss = mean(softmax_cross_entropy(concat({values.back(), values[0], values[1]}, 1), labels));
            section.reset();
            finish(manager, loss);
            const auto feeds = [=](std::int64_t step, FeedStore& store) {
              store.reserve(store.size() + 2);
              store.push_back(random_images({rows, columns}, seed, step));
              store.push_back(random_classes(rows, static_cast<int>(3 * columns), seed, step));
              return Feeds{{data, store[store.size() - 2]}, {labels, store.back()}};
            };
            return TrainingNet{loss, feeds, {}, {}, {values.back()}};
          }};
}

inline constexpr std::int64_t kPartsEffort = 20'000;

inline FitBudgetOptions by_recomputing() {
  return {.may_swap = false, .effort = kPartsEffort};
}
inline FitBudgetOptions whole_only(FitBudgetOptions fit = by_recomputing()) {
  fit.may_split = false;
  return fit;
}

/// The least that the training step comes down to, evaluations included.
inline std::size_t least_in_parts(const TrainingCase& net, const FitBudgetOptions& fit,
                                  const SessionOptions& session = {}) {
  // Below what one operation alone needs, as a whole or in parts, nothing is searched for: each call tells more.
  std::size_t needed = 1;
  for (bool fits = false; !fits;) {
    Fitted fitted(net, checked(session, needed), fit);
    const ProgramReport training = fitted.plan(), evaluation = fitted.plan_evaluation();
    fits = training.fits && (evaluation.planned_peak_bytes <= needed);
    if (!fits) needed = std::max({needed, training.planned_peak_bytes, evaluation.planned_peak_bytes});
  }
  return needed;
}

inline TrainOptions training_in(std::size_t device_memory, const FitBudgetOptions& fit, bool poison = false) {
  TrainOptions options{.steps = 3, .threads = 1, .poison = poison};
  options.session.device_memory = device_memory;
  options.on_session = [fit](How, const Graph&, Session& session) { fit_budget(session, fit); };
  return options;
}

inline int parts_of(Session& session) {
  int parts = 1;
  for (const Step& step : engine(session).latest_program()->schedule.steps) parts = std::max(parts, step.parts);
  return parts;
}

/// The plan of the concatenation's step in the least memory, as a text.
inline const std::string& plan_in_parts() {
  static const std::string text = [] {
    Fitted fitted(concatenation(), checked({}, least_in_parts(concatenation(), by_recomputing())), by_recomputing());
    (void)fitted.plan();
    return plan_of(fitted.session()).text();
  }();
  return text;
}

}  // namespace sectionflow::testing
