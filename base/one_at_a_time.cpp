#include "base/one_at_a_time.h"

#include "base/error.h"

namespace sectionflow {

void OneAtATime::refuse(std::string_view object, std::thread::id inside, std::thread::id self) {
  throw ArgumentError(error_text_of(object, " is in use by thread ", inside, "; thread ", self,
                                    " came in at the same time; one thread at a time may use it",
                                    hint("let the threads take turns, or give each an object of its own")),
                      ErrorCode::two_threads);
}

}  // namespace sectionflow
