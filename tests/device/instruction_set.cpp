#include "device/instruction_set.h"

#include <gtest/gtest.h>
#include <oneapi/dnnl/dnnl.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/error.h"

namespace sectionflow {
namespace {

TEST(InstructionSet, IsNoBetterThanTheEnvironmentAllowsAndOneDnnsOwn) {
  const std::string set = to_string(instruction_set());
  std::printf("instruction set: %s\n", set.c_str());
  const auto has = [](dnnl_cpu_isa_t wanted) { return (dnnl_get_effective_cpu_isa() & wanted) == wanted; };
  EXPECT_EQ(instruction_set() >= InstructionSet::avx2, has(dnnl_cpu_isa_avx2));
  EXPECT_EQ(instruction_set() >= InstructionSet::avx512, has(dnnl_cpu_isa_avx512_core));
  EXPECT_EQ(multiplies_bf16(), has(dnnl_cpu_isa_avx512_core_bf16));
  EXPECT_EQ(instruction_set() == InstructionSet::amx, has(dnnl_cpu_isa_avx512_core_amx));
  const char* most = std::getenv("SECTIONFLOW_MAX_ISA");
  if (most == nullptr) return;
  for (const InstructionSet better :
       {InstructionSet::avx2, InstructionSet::avx512, InstructionSet::avx512_bf16, InstructionSet::amx}) {
    if (to_string(static_cast<InstructionSet>(static_cast<int>(better) - 1)) == most) {
      EXPECT_LT(instruction_set(), better);
    }
  }
}

/// In a process of its own, which has not read the environment yet.
TEST(InstructionSetDeathTest, WantsAnotherText) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto read_wrong = [] {
    setenv("SECTIONFLOW_MAX_ISA", "avx512_vnni", 1);
    try {
      (void)instruction_set();
    } catch (const ArgumentError& error) {
      std::fputs(error.what(), stderr);
      std::exit(3);
    }
  };
  EXPECT_EXIT(read_wrong(), testing::ExitedWithCode(3),
              "SECTIONFLOW_MAX_ISA is 'avx512_vnni'; wanted sse41, avx2, avx512, avx512_bf16, amx");
}

}  // namespace
}  // namespace sectionflow
