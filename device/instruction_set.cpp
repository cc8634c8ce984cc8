#include "device/instruction_set.h"

#include <array>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>

#include "base/error.h"

namespace sectionflow {
namespace {

struct Named {
  InstructionSet set;
  std::string_view name;
  dnnl_cpu_isa_t onednn;
};
constexpr std::array<Named, 5> kSets = {{{InstructionSet::sse41, "sse41", dnnl_cpu_isa_sse41},
                                         {InstructionSet::avx2, "avx2", dnnl_cpu_isa_avx2},
                                         {InstructionSet::avx512, "avx512", dnnl_cpu_isa_avx512_core},
                                         {InstructionSet::avx512_bf16, "avx512_bf16", dnnl_cpu_isa_avx512_core_bf16},
                                         {InstructionSet::amx, "amx", dnnl_cpu_isa_avx512_core_amx}}};

/// Has oneDNN make code for `wanted` at most.
void hold_down(std::string_view wanted) {
  for (const Named& named : kSets) {
    if (named.name != wanted) continue;
    SF_CHECK(dnnl_set_max_cpu_isa(named.onednn) == dnnl_success, DeviceError, "SECTIONFLOW_MAX_ISA is ", wanted,
             ", but this process has used oneDNN before; try ONEDNN_MAX_CPU_ISA, which oneDNN reads by itself");
    return;
  }
  throw ArgumentError(
      error_text_of("SECTIONFLOW_MAX_ISA is '", wanted, "'; wanted sse41, avx2, avx512, avx512_bf16, amx, or nothing"));
}

InstructionSet found() {
  const char* wanted = std::getenv("SECTIONFLOW_MAX_ISA");
  if (wanted != nullptr && *wanted != '\0') hold_down(wanted);
  const auto effective = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  InstructionSet best = InstructionSet::sse41;
  for (const Named& named : kSets) {
    const auto bits = static_cast<unsigned>(named.onednn);
    if ((effective & bits) == bits) best = named.set;
  }
  return best;
}

}  // namespace

InstructionSet instruction_set() {
  static const InstructionSet set = found();
  return set;
}

std::string to_string(InstructionSet set) {
  return std::string(kSets.at(static_cast<std::size_t>(set)).name);
}

bool multiplies_bf16() {
  return instruction_set() >= InstructionSet::avx512_bf16;
}

}  // namespace sectionflow
