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

class RegistersAcme : public testing::Environment {
 public:
  void SetUp() override {
    EarlyGraph& early = early_graph();
    early.x = placeholder(early.graph, "x", {2, 3});
    register_swish();
    register_family(twice_family());
    register_family(shaken_family());
    register_family(careless_family());
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
