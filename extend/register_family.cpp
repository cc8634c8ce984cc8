#include "extend/register_family.h"

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "autodiff/registration.h"
#include "base/error.h"
#include "extend/check_definition.h"
#include "graph/registration.h"
#include "kernels/registration.h"

namespace sectionflow {
namespace {

/// What the functions of a family have added, before anybody else sees it.
struct Staged {
  OpRegistry ops;
  GradientRegistry gradients;
  KernelRegistry cpu_kernels, cuda_kernels;
};

Staged staged(const OpFamily& family) {
  Staged result;
  SF_CHECK_CODE(family.define, ArgumentError, ErrorCode::registration,
                "a family without a function that defines its ops", hint("set OpFamily::define"));
  family.define(result.ops);
  SF_CHECK_CODE(!result.ops.all().empty(), ArgumentError, ErrorCode::registration, "a family that defines no op",
                hint("call OpRegistry::add in the function OpFamily::define"));
  if (family.add_gradients) family.add_gradients(result.gradients);
  if (family.add_cpu_kernels) family.add_cpu_kernels(result.cpu_kernels);
  if (family.add_cuda_kernels) family.add_cuda_kernels(result.cuda_kernels);
  return result;
}

/// Where each registered op comes from.
using Origins = std::map<std::string, Where, std::less<>>;
Origins& origins() {
  static Origins all;
  return all;
}

void check_name(const std::string& name) {
  check_outside_name(name);
  if (!op_registry().all().contains(name)) return;
  const auto origin = origins().find(name);
  throw ArgumentError(
      error_text_of("the op '", name, "' is registered already",
                    earlier(origin != origins().end() ? origin->second.text() : std::string("by SectionFlow")),
                    hint("register each family once; another library's op has the name of its library before the dot")),
      ErrorCode::registration);
}

/// What a family says of an op that it does not define.
void check_is_defined(const OpRegistry& ops, const std::string& op, const char* what) {
  SF_CHECK_CODE(ops.all().contains(op), ArgumentError, ErrorCode::registration, what, " for the op '", op,
                "', which this family does not define",
                hint("define it in the same family; rules and kernels of other ops stay as they are"));
}

void check(const Staged& family) {
  for (const auto& [name, definition] : family.ops.all()) {
    check_name(name);
    check_definition(definition);
    SF_CHECK_CODE(family.cpu_kernels.has(name) || family.cuda_kernels.has(name), ArgumentError, ErrorCode::registration,
                  "the op '", name, "' has no kernel", hint("add one in OpFamily::add_cpu_kernels"));
  }
  for (const auto& [op, entry] : family.gradients.all()) {
    check_is_defined(family.ops, op, "a gradient rule");
    check_gradient_traits(family.ops.at(op), entry.traits);
  }
  for (const std::string& op : family.cpu_kernels.ops()) check_is_defined(family.ops, op, "a kernel of the CPU");
  for (const std::string& op : family.cuda_kernels.ops()) check_is_defined(family.ops, op, "a kernel of CUDA");
}

void check_registration_is_open() {
  SF_CHECK_CODE(registration_is_open(), ArgumentError, ErrorCode::late_registration,
                "a family of ops comes after the first session, whose programs rely on what was registered before",
                hint("call register_family at the beginning of main, before any Session is made"));
}

}  // namespace

void register_family(const OpFamily& family, Where where) {
  static std::mutex mutex;
  static thread_local bool is_inside = false;
  call_at(where, [&] {
    SF_CHECK_CODE(!is_inside, ArgumentError, ErrorCode::registration,
                  "register_family is called by a function of another family",
                  hint("register one family after the other"));
    const std::lock_guard lock(mutex);
    struct Inside {
      Inside() { is_inside = true; }
      ~Inside() { is_inside = false; }
    } const inside;
    Staged checked = staged(family);
    check(checked);
    check_registration_is_open();
    Origins of_family;
    for (const auto& [name, definition] : checked.ops.all()) of_family.emplace(name, where);
    (void)gradient_registry();  // registries that could not be made are missed here, and not below
    (void)kernel_registry(DeviceKind::cpu);
    // From here on nothing throws.
    take_kernels(DeviceKind::cpu, checked.cpu_kernels);
    take_kernels(DeviceKind::cuda, checked.cuda_kernels);
    take_gradients(checked.gradients);
    take_ops(checked.ops);
    origins().merge(of_family);
  });
}

bool registration_is_open() {
  return !registration_has_ended();
}

}  // namespace sectionflow
