#include "tests/support/op_case.h"

#include "graph/ops/unary.h"
#include "op_case/case_device.h"

namespace sectionflow::testing_support {

void check(const OpCase& op_case) {
  for (const std::string& failure : op_cases::failures_on(op_case, test_case_device())) ADD_FAILURE() << failure;
}

}  // namespace sectionflow::testing_support
