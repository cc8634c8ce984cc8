// docs/operations.md is what the registries say. Where they say something else, the test writes the page as it is to be
// beside itself: SECTIONFLOW_PAGE=docs/operations.md build/tests/test_kernels --gtest_filter='OperationsPage.*'

#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "autodiff/gradient_registry.h"
#include "base/error.h"
#include "base/whole_file.h"
#include "graph/json_members.h"
#include "graph/op_registry.h"
#include "graph/option_fields.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

const char* const kBegin = R"(# Operations

Every operation that nodes of a graph name, as the library's registries have it: what saved graphs, plans, traces and
errors speak of. What you call to make them is in [reference.md](reference.md), with shapes and headers; operations of
gradients, updates and copies are made by `gradients`, optimisers and planners.

- **inputs**: how many; `n+` is n or more.
- **options**: the fields that a saved graph has, with what they are where nobody says otherwise; `null` is none.
- **gradient**: `rule`; `0` where the output changes in steps or not at all with the inputs; `refused` with a reason;
  `-` where nothing is differentiated.
- **again**: `pure` operations may be computed again, and so may `seeded` ones, which draw the same numbers; those that
  run `once` have an effect.
- **parts**: whether it may run some rows at a time ([planning.md](planning.md#what-runs-in-parts)).
- **CPU**, **GPU**: `bf16` where a kernel of ours takes f32 and bf16 as they are; `f32` where bf16, if the operation takes
  it, is widened around it; `-` where there is no kernel: such nodes are fed, live in the session, or only order others.
  Products, convolutions and attention take bf16 by libraries where these have it ([performance.md](performance.md),
  [cuda.md](cuda.md)).

| operation | inputs | options | gradient | again | parts | CPU | GPU |
| --- | --- | --- | --- | --- | --- | --- | --- |
)";

std::string inputs_of(const OpDef& op) {
  if (op.inputs.most == kAnyNumber) return std::to_string(op.inputs.least) + "+";
  const std::string least = std::to_string(op.inputs.least);
  return op.inputs.least == op.inputs.most ? least : least + " to " + std::to_string(op.inputs.most);
}

std::string options_of(const OpDef& op) {
  if (!op.options.write || op.is_given()) return "";  // what is given has tensors, types and initialisers
  JsonMembers object;
  OptionWriter writer(object, true);
  op.options.write(op.options.defaults(), writer);
  std::string text;
  for (const auto& [name, value] : object.members.items()) {
    const std::string shown = value == ""               ? "\"\""
                              : value.is_string()       ? value.get<std::string>()
                              : value.is_number_float() ? text_of(value.get<float>())
                                                        : value.dump();
    text += (text.empty() ? "" : ", ") + name + " " + shown;
  }
  return text;
}

std::string gradient_of(const std::string& name) {
  const GradientEntry* entry = gradient_registry().find(name);
  if (entry == nullptr) return "-";
  return entry->is_zero() ? "0" : entry->is_refused ? "refused" : "rule";
}

std::string again(const OpDef& op) {
  switch (op.recompute) {
    case Recompute::pure:
      return "pure";
    case Recompute::seeded:
      return "seeded";
    case Recompute::once:
      return "once";
  }
  return "";
}

std::string kernel_of(const KernelRegistry& kernels, const std::string& name) {
  if (!kernels.has(name)) return "-";
  return kernels.has_native_bf16(name) ? "bf16" : "f32";
}

std::string page() {
  std::string text = kBegin;
  for (const auto& [name, op] : op_registry().all()) {
    text += "| `" + name + "` | " + inputs_of(op) + " | " + options_of(op) + " | " + gradient_of(name) + " | " +
            again(op) + " | " + (op.parts ? "yes" : "") + " | " + kernel_of(kernel_registry(DeviceKind::cpu), name) +
            " | " + kernel_of(cuda_kernels(), name) + " |\n";
  }
  return text;
}

TEST(OperationsPage, IsWhatTheRegistriesSay) {
  if (const char* path = std::getenv("SECTIONFLOW_PAGE")) write_whole_file(path, page(), "operations page");
  const std::string written = read_whole_file(SF_SOURCE_DIR "/docs/operations.md", 1 << 20, "operations page");
  EXPECT_TRUE(written == page()) << "run SECTIONFLOW_PAGE=docs/operations.md build/tests/test_kernels "
                                    "--gtest_filter='OperationsPage.*' in the root of the source tree";
}

}  // namespace
}  // namespace sectionflow
