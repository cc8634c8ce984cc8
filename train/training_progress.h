#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "train/callback.h"

namespace sectionflow {

/// The position of a source, told when somebody wants it.
class DataPosition {
 public:
  void set(std::string text) {
    text_ = std::move(text);
    tell_ = nullptr;
  }
  /// What BatchSource::position_later gives.
  void set_later(std::function<std::string()> tell) { tell_ = std::move(tell); }
  const std::string& text() const {
    if (tell_) {
      text_ = tell_();
      tell_ = nullptr;
    }
    return text_;
  }

 private:
  mutable std::string text_{};
  mutable std::function<std::string()> tell_{};
};

/// What callbacks keep, by their names and a number for each of one name.
std::map<std::string, std::string> callback_states(const std::vector<Callback*>& callbacks);
/// Gives it back to them, and warns of what is on one side only. Throws: DataError, as Callback::restore.
void restore_callbacks(const std::vector<Callback*>& callbacks, std::map<std::string, std::string> saved);

/// What a number of a batch adds to its sum; nothing, be it NaN, where the batch does not count.
inline double weighted(double number, double weight) {
  return weight == 0 ? 0 : number * weight;
}

/// How far a trainer has come: what a position tells.
struct TrainingProgress {
  std::int64_t step = 0;              ///< completed, over all fits
  std::int64_t epoch = 0;             ///< completed epochs
  std::int64_t step_in_epoch = 0;     ///< completed in the one that is not
  DataPosition data{};                ///< of the source, behind them
  std::int64_t num_examples = 0;      ///< of the epoch that is not completed
  double weight = 0;                  ///< what its batches count together, and
  Logs totals{};                      ///< sums of its numbers, by these weights
  std::int64_t batches_per_pass = 0;  ///< of the last pass that was an epoch; 0: not known
  Logs added{};                       ///< numbers that callbacks have added, the last of each
  bool is_to_evaluate = false;        ///< an evaluation is still to follow the last step
  std::int64_t evaluated_step = 0;    ///< completed steps at the last evaluation; 0: there was none
  Logs evaluation{};                  ///< that has followed the last step; empty where there was none

  /// What callbacks keep, by their names.
  std::map<std::string, std::string> callbacks{};

  /// The means so far.
  Logs means() const;
  /// A line of JSON: numbers with all their bits, texts in base64. Throws: ArgumentError (SF-E609) where read() would
  /// refuse it for its length.
  std::string text() const;
  /// Reads such a text, which nobody vouches for, in memory of at most 40 times the text. Throws: DataError (SF-E609).
  static TrainingProgress read(const std::string& text);
};

}  // namespace sectionflow
