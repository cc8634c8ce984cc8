#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "graph/ops/basic.h"
#include "graph/ops/eight_bit_update.h"
#include "graph/ops/update.h"

// Every kind of update that one launch may serve.
namespace sectionflow::testing_support {

/// Makes an update of a variable of `count` elements.
using MakeUpdate = std::function<Operation(Graph&, std::int64_t count)>;

inline Value state(Graph& graph, std::int64_t count, Dtype dtype = Dtype::f32) {
  return variable("state", fill(graph, {count}, 0, dtype));
}
inline Value rate(Graph& graph) {
  return placeholder(graph, "rate", {});
}
inline Value slope(Graph& graph, std::int64_t count, Dtype dtype = Dtype::f32) {
  return placeholder(graph, "slope", {count}, dtype);
}
inline Value steps(Graph& graph) {
  return variable("steps", fill(graph, {}, 0, Dtype::i64));
}

struct NamedUpdate {
  const char* name;
  int entries;  ///< of one launch
  MakeUpdate make;
};

inline std::vector<NamedUpdate> all_updates() {
  const auto momentum = [](bool nesterov) {
    return [nesterov](Graph& g, std::int64_t n) {
      return apply_momentum(state(g, n), state(g, n), slope(g, n), rate(g), {.momentum = 0.9F, .nesterov = nesterov});
    };
  };
  return {
      {"assign_add of f32", 71, [](Graph& g, std::int64_t n) { return assign_add(state(g, n), slope(g, n)); }},
      {"assign_add of i64", 71,
       [](Graph& g, std::int64_t n) {
         return assign_add(state(g, n, Dtype::i64), placeholder(g, "x", {n}, Dtype::i64));
       }},
      {"update_moving_average", 71,
       [](Graph& g, std::int64_t n) {
         return update_moving_average(state(g, n), slope(g, n), placeholder(g, "is_training", {}, Dtype::boolean),
                                      0.9F);
       }},
      {"apply_sgd", 71, [](Graph& g, std::int64_t n) { return apply_sgd(state(g, n), slope(g, n), rate(g)); }},
      {"apply_momentum", 62, momentum(false)},
      {"apply_momentum, nesterov", 62, momentum(true)},
      {"apply_adam", 49,
       [](Graph& g, std::int64_t n) {
         return apply_adam(state(g, n), state(g, n), state(g, n), slope(g, n), rate(g), steps(g));
       }},
      {"apply_adam_w", 49,
       [](Graph& g, std::int64_t n) {
         return apply_adam_w(state(g, n), state(g, n), state(g, n), slope(g, n), rate(g), steps(g));
       }},
      {"apply_adagrad", 55,
       [](Graph& g, std::int64_t n) { return apply_adagrad(state(g, n), state(g, n), slope(g, n), rate(g)); }},
      {"apply_rms_prop", 55,
       [](Graph& g, std::int64_t n) { return apply_rms_prop(state(g, n), state(g, n), slope(g, n), rate(g)); }},
      {"apply_lion", 55,
       [](Graph& g, std::int64_t n) { return apply_lion(state(g, n), state(g, n), slope(g, n), rate(g)); }},
      {"apply_adam_w_8bit", 41,
       [](Graph& g, std::int64_t n) {
         const auto codes = [&] { return state(g, n, Dtype::u8); };
         const auto scales = [&] { return state(g, (n + kSlotBlock - 1) / kSlotBlock); };
         return apply_adam_w_8bit(state(g, n), codes(), scales(), codes(), scales(), slope(g, n), rate(g), steps(g));
       }},
      {"apply_sgd by bf16", 71,
       [](Graph& g, std::int64_t n) { return apply_sgd(state(g, n), slope(g, n, Dtype::bf16), rate(g)); }},
      {"apply_adam by bf16", 49,
       [](Graph& g, std::int64_t n) {
         return apply_adam(state(g, n), state(g, n), state(g, n), slope(g, n, Dtype::bf16), rate(g), steps(g));
       }},
      {"apply_adagrad by bf16", 55,
       [](Graph& g, std::int64_t n) {
         return apply_adagrad(state(g, n), state(g, n), slope(g, n, Dtype::bf16), rate(g));
       }},
  };
}

}  // namespace sectionflow::testing_support
