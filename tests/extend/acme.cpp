#include "tests/extend/acme.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "graph/ops/basic.h"
#include "kernels/cuda/elementwise.h"
#include "sectionflow_ops.h"
#include "swish.h"

namespace acme {
namespace {

using namespace sectionflow;

struct Twice {
  SF_HOST_DEVICE float operator()(float x) const { return x + x; }
};

OpFamily twice_family() {
  OpFamily family = family_of("acme.twice");
  family.add_cuda_kernels = [](KernelRegistry& registry) {
    registry.add(
        "acme.twice", [](const KernelRequest& request) { return gpu::map_kernel(request, Twice()); }, Bf16::native);
  };
  return family;
}

struct ShakenOptions {
  float noise = 0;
};

std::unique_ptr<Kernel> make_shaken(const KernelRequest& request) {
  const float noise = request.node.options<ShakenOptions>().noise;
  const std::int64_t count = request.outputs[0].shape.num_elements();
  return function_kernel([=](const KernelArguments& arguments) {
    const float* x = static_cast<const float*>(arguments.inputs[0]);
    float* y = static_cast<float*>(arguments.outputs[0]);
    for_each_part(count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const auto words = random_words(arguments.random, static_cast<std::uint64_t>(i / 4));
        y[i] = x[i] + noise * uniform_from_word(words[static_cast<std::size_t>(i % 4)]);
      }
    });
  });
}

OpFamily shaken_family() {
  return {.define =
              [](OpRegistry& registry) {
                registry.add({.name = "acme.shaken",
                              .options = described_by<ShakenOptions>(
                                  [](auto& fields, auto& options) { fields("noise", options.noise); }),
                              .infer = infer_like_float,
                              .recompute = Recompute::seeded});
              },
          .add_gradients =
              [](GradientRegistry& registry) {
                registry.add("acme.shaken", [](const GradientRequest& r) { return std::vector{r.dy()}; });
              },
          .add_cpu_kernels = [](KernelRegistry& registry) { registry.add("acme.shaken", make_shaken); }};
}

struct CarelessOptions {
  Fault fault = Fault::none;
};

std::unique_ptr<Kernel> make_careless(const KernelRequest& request) {
  const Fault fault = request.node.options<CarelessOptions>().fault;
  const auto count = static_cast<std::size_t>(request.outputs[0].shape.num_elements());
  return function_kernel([=](const KernelArguments& arguments) {
    const float* x = static_cast<const float*>(arguments.inputs[0]);
    float* y = static_cast<float*>(arguments.outputs[0]);
    const float before = y[0];
    std::copy_n(x, count, y);
    if (fault == Fault::writes_behind) y[count] = 1;
    if (fault == Fault::writes_to_input) const_cast<float*>(x)[0] += 1;
    if (fault == Fault::reads_output) y[0] = before;
  });
}

OpFamily careless_family() {
  return {.define =
              [](OpRegistry& registry) {
                const OptionsDescription options = described_by<CarelessOptions>([](auto& fields, auto& of_op) {
                  fields.choice("fault", of_op.fault,
                                {{Fault::none, "none"},
                                 {Fault::writes_behind, "writes_behind"},
                                 {Fault::writes_to_input, "writes_to_input"},
                                 {Fault::reads_output, "reads_output"}});
                });
                registry.add({.name = "acme.careless", .options = options, .infer = infer_like_float});
              },
          .add_cpu_kernels = [](KernelRegistry& registry) { registry.add("acme.careless", make_careless); }};
}

struct MisruledOptions {
  WrongRule rule = WrongRule::none;
};

OpFamily misruled_family() {
  OpFamily family = family_of("acme.misruled");
  family.define = [](OpRegistry& registry) {
    const OptionsDescription options = described_by<MisruledOptions>([](auto& fields, auto& of_op) {
      fields.choice("rule", of_op.rule,
                    {{WrongRule::none, "none"},
                     {WrongRule::one_too_many, "one_too_many"},
                     {WrongRule::other_shape, "other_shape"},
                     {WrongRule::other_dtype, "other_dtype"},
                     {WrongRule::other_graph, "other_graph"}});
    });
    registry.add({.name = "acme.misruled", .options = options, .infer = infer_like_float});
  };
  family.add_gradients = [](GradientRegistry& registry) {
    registry.add("acme.misruled", [](const GradientRequest& r) -> std::vector<Value> {
      switch (r.node.options<MisruledOptions>().rule) {
        case WrongRule::none:
          return {};
        case WrongRule::one_too_many:
          return {r.dy(), r.dy()};
        case WrongRule::other_shape:
          return {reshape(r.dy(), {-1, 1})};
        case WrongRule::other_dtype:
          return {cast(r.dy(), Dtype::i32)};
        case WrongRule::other_graph:
          return {early_graph().x};
      }
      return {};
    });
  };
  return family;
}

class RegistersAcme : public testing::Environment {
 public:
  void SetUp() override {
    EarlyGraph& early = early_graph();
    early.x = placeholder(early.graph, "x", {2, 3});
    register_swish();
    register_family(twice_family());
    register_family(shaken_family());
    register_family(careless_family());
    register_family(misruled_family());
  }
};
[[maybe_unused]] const testing::Environment* const kRegistersAcme =
    testing::AddGlobalTestEnvironment(new RegistersAcme);

}  // namespace

EarlyGraph& early_graph() {
  static EarlyGraph early;
  return early;
}

Value twice(Value x) {
  return x.graph().add_node("acme.twice", {x}, {}, "twice").output();
}
Value careless(Value x, Fault fault) {
  return x.graph().add_node("acme.careless", {x}, CarelessOptions{fault}, "careless").output();
}
Value misruled(Value x, WrongRule rule) {
  return x.graph().add_node("acme.misruled", {x}, MisruledOptions{rule}, "misruled").output();
}
Value shaken(Value x, float noise) {
  return x.graph().add_node("acme.shaken", {x}, ShakenOptions{noise}, "shaken").output();
}

OpFamily family_of(const std::string& name) {
  return {.define = [name](OpRegistry& registry) { registry.add({.name = name, .infer = infer_like_float}); },
          .add_cpu_kernels =
              [name](KernelRegistry& registry) {
                registry.add(name, [](const KernelRequest& request) { return map_elements(request, Twice()); });
              }};
}

}  // namespace acme
