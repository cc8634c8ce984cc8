#include "kernels/print_values.h"

#include <glog/logging.h>

#include <algorithm>
#include <sstream>

#include "kernels/convert_element.h"

namespace sectionflow {

std::int64_t PrintedValues::num_shown() const {
  return std::min<std::int64_t>(first, type.shape.num_elements());
}

void PrintedValues::log(const void* values) const {
  std::ostringstream text;
  text << label << ' ' << type.text() << " =";
  with_element_type(type.dtype, [&](auto element) {
    using T = decltype(element);
    // Unary plus: a u8 is a number here, not a character.
    for (std::int64_t i = 0; i < num_shown(); ++i) text << (i == 0 ? " " : ", ") << +static_cast<const T*>(values)[i];
  });
  if (num_shown() < type.shape.num_elements()) text << (num_shown() == 0 ? " ..." : ", ...");
  LOG(INFO) << text.str();
}

}  // namespace sectionflow
