#include "graph/ops/print.h"

#include <glog/logging.h>

#include <algorithm>
#include <sstream>

#include "kernels/convert_element.h"
#include "kernels/cpu/copy_bytes.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"

namespace sectionflow {
namespace {

/// "loss f32[3] = 1, 2, ..."
std::string print_text(const PrintOptions& options, const TensorType& type, const void* x) {
  const std::int64_t num_elements = type.shape.num_elements();
  const std::int64_t num_shown = std::min<std::int64_t>(options.first, num_elements);
  std::ostringstream text;
  text << options.label << ' ' << type.text() << " =";
  with_element_type(type.dtype, [&](auto element) {
    using T = decltype(element);
    // Unary plus: a u8 is a number here, not a character.
    for (std::int64_t i = 0; i < num_shown; ++i) text << (i == 0 ? " " : ", ") << +static_cast<const T*>(x)[i];
  });
  if (num_shown < num_elements) text << (num_shown == 0 ? " ..." : ", ...");
  return text.str();
}

std::unique_ptr<Kernel> make_print(const KernelRequest& request) {
  return function_kernel(
      [options = request.node.options<PrintOptions>(), type = request.inputs[0], num_bytes = request.inputs[0].bytes(),
       silent = request.replay](const KernelArguments& arguments) {
        if (!silent) LOG(INFO) << print_text(options, type, arguments.inputs[0]);
        copy_bytes(arguments.outputs[0], arguments.inputs[0], num_bytes);
      },
      {.in_place = {{0, 0}}});
}

}  // namespace

void add_print_cpu_kernels(KernelRegistry& registry) {
  registry.add("print", make_print);
}

}  // namespace sectionflow
