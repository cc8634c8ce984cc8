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

/// The choice of a problem for which a library offers nothing that we take: it is left to the kernels behind it.
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

/// Algorithms to be timed on operands of the request's sizes.
struct Trial {
  const std::string& problem;
  std::span<const TensorType> inputs, outputs;
  std::size_t workspace_bytes = 0;  ///< the most that any of them wants
  std::size_t num_algorithms = 0;
  /// Gives the compute queue one execution; false when the library refuses the algorithm.
  std::function<bool(std::size_t algorithm, const KernelArguments& arguments)> launch{};
};
/// The number of the fastest, by the median of several executions after a first one; of equals the first. Works in the
/// device's trial memory, by the marks of its compute queue, and waits until all is done. Nothing, and a line in the
/// log, where there is no memory for it. Throws: DeviceError.
std::optional<std::size_t> fastest_of(Device& device, const Trial& trial);

/// How many algorithms are timed: those that the library holds for the fastest.
inline constexpr std::size_t kMostTimed = 10;

/// Chooses among what a library offers for one problem. `Library` has
///   Candidate                                       an algorithm with its `workspace_bytes`
///   std::vector<Candidate> candidates(LeftOut&)     those that we take, best first by the library's guess
///   static Words<n> words(Candidate), static Candidate from(Words<n>)
///   bool launch(Candidate, KernelArguments)         false when the library refuses it
template <class Library>
class LibraryChooser final : public AlgorithmChooser {
 public:
  LibraryChooser(const KernelRequest& request, const std::string& problem, Library& library)
      : request_(request), problem_(problem), library_(library) {}

  bool offers(const std::string& algorithm) override {
    ask();
    const auto is_it = [&](const auto& candidate) { return text_of_words(Library::words(candidate)) == algorithm; };
    return candidates_.empty() ? algorithm == kNoAlgorithm : std::any_of(candidates_.begin(), candidates_.end(), is_it);
  }
  std::string choose() override {
    ask();
    if (candidates_.empty()) {
      warn_of_none(problem_, left_out_);
      return kNoAlgorithm;
    }
    const bool wants_trial = request_.device.choices().autotune() && candidates_.size() > 1;
    const std::size_t number = wants_trial ? fastest().value_or(0) : 0;
    return text_of_words(Library::words(candidates_[number]));
  }

 private:
  void ask() {
    if (!asked_) candidates_ = library_.candidates(left_out_);
    asked_ = true;
  }
  std::optional<std::size_t> fastest() {
    // All these operations have two factors; what gradients have besides is there for its shape.
    Trial trial{.problem = problem_,
                .inputs = std::span(request_.inputs).first(2),
                .outputs = request_.outputs,
                .num_algorithms = std::min(candidates_.size(), kMostTimed)};
    for (std::size_t i = 0; i < trial.num_algorithms; ++i) {
      trial.workspace_bytes = std::max(trial.workspace_bytes, candidates_[i].workspace_bytes);
    }
    trial.launch = [this](std::size_t number, const KernelArguments& arguments) {
      return library_.launch(candidates_[number], arguments);
    };
    return fastest_of(request_.device, trial);
  }

  const KernelRequest& request_;
  const std::string& problem_;
  Library& library_;
  std::vector<typename Library::Candidate> candidates_;
  LeftOut left_out_;
  bool asked_ = false;
};

/// The algorithm of the request's device for `problem`; nothing where the library has none that we take.
template <class Library>
std::optional<typename Library::Candidate> choose_algorithm(const KernelRequest& request, const std::string& problem,
                                                            Library& library) {
  LibraryChooser<Library> chooser(request, problem, library);
  const std::string chosen = request.device.choices().algorithm_for(problem, chooser);
  if (chosen == kNoAlgorithm) return std::nullopt;
  decltype(Library::words(std::declval<typename Library::Candidate>())) words{};
  read_words(chosen, words);
  return Library::from(words);
}

}  // namespace sectionflow::gpu
