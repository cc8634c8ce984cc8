#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "device/device.h"
#include "kernels/kernel.h"

// One algorithm for a problem, the same in every kernel of every session (device/choice_store.h).
namespace sectionflow::gpu {

/// An algorithm as a library's numbers, and those as a text.
template <std::size_t count>
using Words = std::array<std::uint64_t, count>;

/// The numbers in hexadecimal digits, with blanks between them.
std::string text_of_words(std::span<const std::uint64_t> words);
/// The numbers of such a text. Throws: InternalError for another text: who asks has written it.
void read_words(const std::string& text, std::span<std::uint64_t> words);

/// The choice of a problem for which a library offers nothing that we take, or nothing as fast as the kernel behind it:
/// it is left to that.
inline constexpr const char* kNoAlgorithm = "none";

/// Why algorithms that a library offers are not taken, each with its number.
class LeftOut {
 public:
  void add(std::int64_t algorithm, const std::string& why) {
    text_ += text_of(text_.empty() ? "" : "; ", "algorithm ", algorithm, " ", why);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// A line of the log: our own kernels may be many times slower than a library's, which whoever waits should know.
void warn_of_none(const std::string& problem, const LeftOut& left_out);

/// Algorithms to be tried on operands of the request's sizes.
struct Trial {
  const std::string& problem;
  std::span<const TensorType> inputs, outputs;
  std::size_t workspace_bytes = 0;  ///< the most that any of them wants
  std::size_t num_algorithms = 0;
  /// Gives the compute queue one execution; false when the library refuses the algorithm.
  std::function<bool(std::size_t algorithm, const KernelArguments& arguments)> launch{};
};
/// The number of the fastest, by the median of several executions after a first one; of equals the first. Works in the
/// device's trial memory, by the marks of its compute queue, and waits until all is done. Nothing where none runs, and,
/// with a line in the log, where there is no memory for it. Throws: DeviceError.
std::optional<std::size_t> fastest_of(Device& device, const Trial& trial);
/// Whether the library refuses to run the first, tried once in the same way. False, too, where there is no memory for
/// that: it shows when a kernel runs it. Throws: DeviceError.
bool is_refused(Device& device, const Trial& trial);

/// A line of the log: what a library has offered does not run.
void warn_of_refusal(const std::string& problem, const std::string& algorithm);
/// After a call that a library has refused: an error that it may have left with CUDA's runtime is not the next
/// launch's.
void forget_refusal();
/// Throws: DeviceError for a kernel whose algorithm is refused in a cycle.
[[noreturn]] void fail_as_refused(const std::string& problem, const std::string& algorithm);

/// How many algorithms are timed: those that the library holds for the fastest.
inline constexpr std::size_t kMostTimed = 10;

/// Chooses among what a library offers for one problem. `Library` has
///   Candidate                                       an algorithm with its `workspace_bytes`
///   std::vector<Candidate> candidates(LeftOut&)     those that we take, best first by the library's guess
///   static Words<n> words(Candidate), static Candidate from(Words<n>)
///   bool launch(Candidate, KernelArguments)         false when the library refuses it
/// `own`: the kernel behind the library's, where it may be the faster one, so that it is timed as well; or null.
template <class Library>
class LibraryChooser final : public AlgorithmChooser {
 public:
  LibraryChooser(const KernelRequest& request, const std::string& problem, Library& library, Kernel* own)
      : request_(request), problem_(problem), library_(library), own_(own) {}

  bool offers(const std::string& algorithm) override {
    ask();
    if (algorithm == kNoAlgorithm) return candidates_.empty() || own_ != nullptr;
    std::size_t number = 0;
    while (number < candidates_.size() && text(number) != algorithm) ++number;
    return number < candidates_.size() && may_run(number);
  }
  std::string choose() override {
    ask();
    const std::size_t num_timed = std::min(candidates_.size(), kMostTimed);
    const bool is_timed = request_.device.choices().autotune() && num_timed > (own_ != nullptr ? 0U : 1U);
    if (is_timed) {
      const std::optional<std::size_t> quickest = fastest(num_timed);
      if (quickest) return *quickest == num_timed ? kNoAlgorithm : text(*quickest);  // num_timed: our own
    }
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (may_follow(i)) return text(i);
    }
    warn_of_none(problem_, left_out_);
    return kNoAlgorithm;
  }

 private:
  void ask() {
    if (asked_) return;
    candidates_ = library_.candidates(left_out_);
    if (!left_out_.text().empty()) forget_refusal();
    asked_ = true;
  }
  std::string text(std::size_t number) const { return text_of_words(Library::words(candidates_[number])); }

  /// The number of one of the first candidates, or `count` for our own kernel.
  std::optional<std::size_t> fastest(std::size_t count) {
    Trial trial = trial_of(0, count);
    if (own_ != nullptr) {
      trial.num_algorithms = count + 1;
      trial.workspace_bytes = std::max(trial.workspace_bytes, own_->workspace_bytes());
      trial.launch = [this, count, of_library = trial.launch](std::size_t number, const KernelArguments& arguments) {
        if (number < count) return of_library(number, arguments);
        own_->launch(arguments);
        return true;
      };
    }
    return fastest_of(request_.device, trial);
  }
  /// Whether it may stand in for those before it: plans that were made where nothing could be tried have the first
  /// one's workspace, and no plan is to have more.
  bool may_follow(std::size_t number) {
    if (candidates_[number].workspace_bytes <= candidates_[0].workspace_bytes) return may_run(number);
    leave_out(number, "needs more workspace than the first");
    return false;
  }
  bool may_run(std::size_t number) {
    if (!is_refused(request_.device, trial_of(number, 1))) return true;
    leave_out(number, "does not run");
    return false;
  }
  void leave_out(std::size_t number, const char* why) {
    left_out_.add(static_cast<std::int64_t>(number), text_of("of those that may be taken (", text(number), ") ", why));
  }
  Trial trial_of(std::size_t first, std::size_t count) {
    // All these operations have two factors; what gradients have besides is there for its shape.
    Trial trial{.problem = problem_,
                .inputs = std::span(request_.inputs).first(2),
                .outputs = request_.outputs,
                .num_algorithms = count};
    for (std::size_t i = 0; i < count; ++i) {
      trial.workspace_bytes = std::max(trial.workspace_bytes, candidates_[first + i].workspace_bytes);
    }
    trial.launch = [this, first](std::size_t number, const KernelArguments& arguments) {
      if (library_.launch(candidates_[first + number], arguments)) return true;
      forget_refusal();
      warn_of_refusal(problem_, text(first + number));
      return false;
    };
    return trial;
  }

  const KernelRequest& request_;
  const std::string& problem_;
  Library& library_;
  Kernel* own_;
  std::vector<typename Library::Candidate> candidates_;
  LeftOut left_out_;
  bool asked_ = false;
};

/// The candidate of such a text.
template <class Library>
typename Library::Candidate candidate_of(const std::string& text) {
  decltype(Library::words(std::declval<typename Library::Candidate>())) words{};
  read_words(text, words);
  return Library::from(words);
}

/// The algorithm of the request's device for `problem`; nothing where the library has none that we take, or `own` has
/// been timed as the faster one.
template <class Library>
std::optional<typename Library::Candidate> choose_algorithm(const KernelRequest& request, const std::string& problem,
                                                            Library& library, Kernel* own = nullptr) {
  LibraryChooser<Library> chooser(request, problem, library, own);
  const std::string chosen = request.device.choices().algorithm_for(problem, chooser);
  if (chosen == kNoAlgorithm) return std::nullopt;
  return candidate_of<Library>(chosen);
}

/// What a kernel runs for a problem: the algorithm that was chosen, which may not have been tried.
template <class Library>
class RunnableAlgorithm {
 public:
  using Candidate = typename Library::Candidate;

  RunnableAlgorithm(std::string problem, Library library, const Candidate& candidate)
      : problem_(std::move(problem)), library_(std::move(library)), candidate_(candidate) {}

  const Candidate& candidate() const { return candidate_; }
  std::size_t planned_bytes() const { return candidate_.workspace_bytes; }

  /// Calls run(library, candidate), which returns false where the library refuses the candidate. Throws: DeviceError
  /// then. Another algorithm would give other bits than other cycles, and want another plan.
  template <class Run>
  void run(const Run& run) {
    if (run(library_, candidate_)) return;
    forget_refusal();
    fail_as_refused(problem_, text_of_words(Library::words(candidate_)));
  }

 private:
  std::string problem_;
  Library library_;
  Candidate candidate_;
};

}  // namespace sectionflow::gpu
