#include "train/fit_options.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "train/checkpoint_callback.h"

namespace sectionflow {

namespace {

std::string shown(const Callback& callback) {
  const std::string name = callback.name();
  return name.empty() ? std::string() : text_of(" '", name, "'");
}

/// Each once, and what keeps something before what saves it: checkpoints would have what it knew a step before.
void check_callbacks(const std::vector<Callback*>& callbacks) {
  const Callback* saving = nullptr;
  for (auto each = callbacks.begin(); each != callbacks.end(); ++each) {
    const Callback* const callback = *each;
    SF_CHECK(callback != nullptr, ArgumentError, "fit: a callback is a null pointer");
    SF_CHECK(std::find(callbacks.begin(), each, callback) == each, ArgumentError, "fit: the callback", shown(*callback),
             " is given twice, and would be told everything twice", hint("leave one of both out, or give two objects"));
    if (dynamic_cast<const CheckpointCallback*>(callback) != nullptr) saving = callback;
    SF_CHECK(saving == nullptr || callback->name().empty() || callback->shows_logs(), ArgumentError,
             "fit: the callback", shown(*callback),
             " stands behind CheckpointCallback, whose checkpoints would have what it knew before the step",
             hint("give CheckpointCallback behind all callbacks that keep something"));
  }
}

}  // namespace

void check_fit_options(const FitOptions& options, const BatchSource& source) {
  const std::pair<const char*, std::int64_t> counts[] = {{"epochs", options.epochs},
                                                         {"steps", options.steps},
                                                         {"max_epochs", options.max_epochs},
                                                         {"max_steps", options.max_steps},
                                                         {"steps_per_epoch", options.steps_per_epoch},
                                                         {"validation_steps", options.validation_steps},
                                                         {"validate_every", options.validate_every},
                                                         {"validate_every_steps", options.validate_every_steps}};
  for (const auto& [name, count] : counts) {
    SF_CHECK(count >= 0, ArgumentError, "fit: ", name, " is ", count, "; wanted 0 (none) or more");
  }
  const bool has_limit = options.epochs > 0 || options.steps > 0 || options.max_epochs > 0 || options.max_steps > 0;
  SF_CHECK_CODE(has_limit, ArgumentError, ErrorCode::nothing_to_train_on,
                "fit: no limit is set, and a source has no last pass",
                hint("set epochs, steps, max_epochs or max_steps"));
  check_callbacks(options.callbacks);
  const std::int64_t per_pass = source.batches_per_pass().value_or(0);
  const bool ends = per_pass != kEndless || options.steps_per_epoch > 0 || options.steps > 0 || options.max_steps > 0;
  SF_CHECK_CODE(ends, ArgumentError, ErrorCode::endless_pass,
                "fit: epochs are to be passes over a source whose pass has no end",
                hint("leave repeat() out of its data set, or set steps_per_epoch"));
  if (validates(options) || evaluates_at_end(options)) {
    check_evaluation_ends(*options.validation, options.validation_steps);
  }
}

void check_evaluation_ends(const BatchSource& source, std::int64_t steps) {
  SF_CHECK_CODE(steps > 0 || source.batches_per_pass().value_or(0) != kEndless, ArgumentError, ErrorCode::endless_pass,
                "a whole pass is to be evaluated of a source whose pass has no end",
                hint("leave repeat() out of its data set, or say how many batches: validation_steps, "
                     "EvaluateOptions::steps"));
}

}  // namespace sectionflow
