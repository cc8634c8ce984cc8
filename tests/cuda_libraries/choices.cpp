// Which of a library's algorithms kernels run: the one that was chosen first, by the library's guess or by timing.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "graph/nodes/convolution.h"
#include "kernels/cuda/library/choice.h"
#include "tests/cuda_libraries/library_case.h"
#include "tests/support/log_lines.h"

namespace sectionflow {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using testing_support::fake_libraries;
using testing_support::FakeLibraries;
using testing_support::LogLines;

class LibraryChoices : public testing_support::LibraryCase {
 protected:
  void autotune(const TrialMemory& memory = {.most_allocated = 1 << 20}) {
    cuda_.choices().set_autotune(true);
    cuda_.choices().set_trial_memory(memory);
  }
  /// As while a program is compiled.
  void allow_trials() { cuda_.choices().set_trial_memory({.most_allocated = 1 << 20}); }
  /// The number of the sound algorithm that a kernel made now runs.
  int runs(Value y) {
    const auto kernel = make(y);
    std::vector<std::vector<float>> content;
    for (const Value& input : y.node().inputs()) {
      content.emplace_back(static_cast<std::size_t>(input.type().shape.num_elements()), 1.0F);
    }
    (void)result(y, *kernel, content);
    return fake_libraries().latest;
  }
  /// A process of its own, which knows what a file says.
  void start_with(const AlgorithmChoices& choices) {
    forget_choices();
    EXPECT_TRUE(cuda_.choices().add(choices).empty());
  }

  Value product_ = matmul(tensor({2, 3}), tensor({3, 4}));
  Value convolution_ = conv2d(tensor({1, 5, 5, 2}), tensor({3, 3, 2, 4}));
  Value short_convolution_ = conv2d(tensor({1, 5, 5, 2}, Dtype::bf16), tensor({3, 3, 2, 4}, Dtype::bf16));
  Value unevenly_padded_ = conv2d(tensor({1, 6, 6, 2}), tensor({3, 3, 2, 4}), {.stride = {2, 2}});
  Value of_filter_ = conv2d_backward_filter(tensor({1, 5, 5, 4}), tensor({1, 5, 5, 2}), tensor({3, 3, 2, 4}), {});
};

TEST_F(LibraryChoices, AreMadeOnceWhateverTheLibraryWouldSayLater) {
  use({.seconds = {1, 1}});
  for (Value y : {product_, convolution_, short_convolution_, unevenly_padded_, of_filter_}) {
    fake_libraries().is_reversed = false;
    const int first = runs(y), questions = fake_libraries().questions;
    EXPECT_EQ(first, 0);
    fake_libraries().is_reversed = true;
    EXPECT_EQ(runs(y), first);
    // What it offers may even be gone.
    fake_libraries().has_sound_algorithms = false;
    EXPECT_EQ(runs(y), first);
    fake_libraries().has_sound_algorithms = true;
    EXPECT_EQ(fake_libraries().questions, questions) << "nobody is asked twice";
  }
}

TEST_F(LibraryChoices, OfFiltersGradientsInF32MayBeOurOwnKernelWhereThatIsFaster) {
  const Value of_input = conv2d_backward_input(tensor({1, 5, 5, 4}), tensor({3, 3, 2, 4}), tensor({1, 5, 5, 2}), {});
  const auto use_timed = [&](double seconds_of_own) {
    use({.seconds = {1}, .seconds_of_own = seconds_of_own});
    autotune();
  };
  use_timed(2);
  EXPECT_TRUE(is_taken(of_filter_));
  use_timed(0.1);
  EXPECT_FALSE(is_taken(of_filter_));
  const AlgorithmChoices choices = cuda_.choices().known();
  EXPECT_TRUE(is_taken(of_input) && is_taken(product_)) << "others have no rival";
  // It stays so for a process that times nothing, and knows what this one has chosen.
  fake_libraries().seconds_of_own = 100;
  start_with(choices);
  EXPECT_FALSE(is_taken(of_filter_));
  forget_choices();
  EXPECT_TRUE(is_taken(of_filter_)) << "by its guess";
  // Tensor cores have none either.
  use_timed(0.1);
  fake_libraries().allow_tf32 = true;
  EXPECT_TRUE(is_taken(of_filter_));
}

TEST_F(LibraryChoices, AreTheSameOnEveryDeviceThatSharesThem) {
  use({.seconds = {1, 1}});
  const auto store = std::make_shared<ChoiceStore>();
  cuda_.choices().share(store);
  EXPECT_EQ(runs(product_), 0);
  fake_libraries().is_reversed = true;
  CudaDevice other;
  other.choices().share(store);
  const auto kernel = kernels_.make(request(product_, other));
  EXPECT_EQ(other.choices().known(), cuda_.choices().known());
  CudaDevice stranger;
  (void)kernels_.make(request(product_, stranger));
  EXPECT_NE(stranger.choices().known(), cuda_.choices().known());
}

TEST_F(LibraryChoices, ThatThereIsNothingToTakeIsOneToo) {
  use({.has_sound_algorithms = false});
  EXPECT_FALSE(is_taken(product_) || is_taken(convolution_));
  fake_libraries().has_sound_algorithms = true;
  EXPECT_FALSE(is_taken(product_) || is_taken(convolution_));
  EXPECT_EQ(cuda_.choices().known().algorithms.size(), 2u);
}

TEST_F(LibraryChoices, AFailureOfTheMomentIsNone) {
  use({.cublas_status = CUBLAS_STATUS_ALLOC_FAILED});
  EXPECT_THROW((void)make(product_), DeviceError);
  EXPECT_EQ(cuda_.choices().known(), AlgorithmChoices{});
  fake_libraries().cublas_status = CUBLAS_STATUS_SUCCESS;
  EXPECT_EQ(runs(product_), 0);
}

TEST_F(LibraryChoices, OfProblemsThatDifferAreDifferent) {
  const Value wide = matmul(tensor({2, 3}), tensor({3, 5})),
              turned = matmul(tensor({2, 3}), tensor({4, 3}), {.transpose_b = true}),
              many = matmul(tensor({6, 2, 3}), tensor({6, 3, 4})),
              short_ones = matmul(tensor({2, 3}, Dtype::bf16), tensor({3, 4}, Dtype::bf16)),
              short_filter =
                  conv2d_backward_filter(tensor({1, 5, 5, 4}, Dtype::bf16), tensor({1, 5, 5, 2}, Dtype::bf16),
                                         tensor({3, 3, 2, 4}, Dtype::bf16), {}),
              strided =
                  conv2d(tensor({1, 5, 5, 2}), tensor({3, 3, 2, 4}), {.stride = {2, 2}, .padding = Padding(1, 1)}),
              first = conv2d(tensor({1, 2, 5, 5}), tensor({3, 3, 2, 4}), {.format = DataFormat::nchw});
  std::size_t wanted = 0;
  for (Value y : {product_, wide, turned, many, short_ones, convolution_, of_filter_, short_convolution_, short_filter,
                  strided, first}) {
    ASSERT_TRUE(is_taken(y));
    EXPECT_EQ(cuda_.choices().known().algorithms.size(), ++wanted) << y.node().label();
  }
  fake_libraries().allow_tf32 = true;
  for (Value y : {product_, convolution_, short_ones, short_convolution_}) ASSERT_TRUE(is_taken(y));
  EXPECT_EQ(cuda_.choices().known().algorithms.size(), wanted + 2) << "TF32 is a way to take f32";
  for (const auto& [problem, algorithm] : cuda_.choices().known().algorithms) {
    EXPECT_THAT(problem,
                testing::AnyOf(StartsWith("cublaslt 1 on a fake GPU: "), StartsWith("cudnn 1 on a fake GPU: ")));
    EXPECT_THAT(problem, HasSubstr("scratch up to 33554432"));
  }
}

TEST_F(LibraryChoices, WithAutotuneTheFastestIsTaken) {
  for (Value y : {product_, convolution_, short_convolution_, unevenly_padded_, of_filter_}) {
    for (const std::vector<double>& seconds : {std::vector<double>{3, 2}, {2, 3}, {2, 2}}) {
      for (bool is_reversed : {false, true}) {
        use({.workspace_bytes = 1000, .seconds = seconds, .is_reversed = is_reversed});
        autotune();
        // The fake libraries fail the test where an algorithm runs that is not sound, though those take no time.
        const int fastest = seconds[0] == seconds[1] ? (is_reversed ? 1 : 0) : (seconds[1] < seconds[0] ? 1 : 0);
        EXPECT_EQ(runs(y), fastest);
        EXPECT_EQ(fake_libraries().allocated_memory, 0u) << "all is given back";
        EXPECT_GT(fake_libraries().peak_allocated_memory, 1000u);
        // What was chosen is not timed again, nor by those who do not ask for it.
        const int executions = fake_libraries().executions;
        cuda_.choices().set_autotune(false);
        EXPECT_EQ(runs(y), fastest);
        EXPECT_EQ(fake_libraries().executions, executions + 1);
      }
    }
  }
}

TEST_F(LibraryChoices, OfPaddedImagesAreTimedOnThose) {
  use({.seconds = {3, 2}});
  autotune();
  EXPECT_EQ(runs(conv2d(tensor({1, 16, 16, 2}), tensor({3, 3, 2, 4}), {.stride = {2, 2}})), 1);
  // 17 x 17 pixels, the filter, and 8 x 8 pixels, each in multiples of 256 bytes.
  EXPECT_EQ(fake_libraries().peak_allocated_memory, 2560u + 512u + 1024u);
}

TEST_F(LibraryChoices, WhatDoesNotRunIsNotTheFastest) {
  for (Value y : {product_, convolution_}) {
    use({.seconds = {1, 5}, .refused = {0}});
    autotune();
    EXPECT_EQ(runs(y), 1);
  }
}

TEST_F(LibraryChoices, WhatDoesNotRunIsLeftOutBeforeAnythingIsPlanned) {
  for (Value y : {product_, convolution_, unevenly_padded_, of_filter_}) {
    use({.workspace_bytes = 500, .seconds = {1, 1}, .refused = {0}});
    allow_trials();
    const LogLines log;
    EXPECT_EQ(runs(y), 1);
    EXPECT_THAT(log.lines, ElementsAre(HasSubstr("refuses to run what it has offered, which is not taken: ")));
    EXPECT_EQ(fake_libraries().executions, 2) << "tried once, and run";
    EXPECT_EQ(runs(y), 1);
    EXPECT_EQ(fake_libraries().executions, 3) << "nobody tries what was chosen";
    EXPECT_EQ(fake_libraries().allocated_memory, 0u);
    // Nor is it taken from a file.
    fake_libraries().refused = {1};
    start_with(cuda_.choices().known());
    allow_trials();
    EXPECT_EQ(runs(y), 0);
  }
}

TEST_F(LibraryChoices, WhereNothingRunsOurOwnKernelIsTakenAndTheLogSaysSo) {
  for (Value y : {product_, convolution_}) {
    use({.seconds = {1, 1}, .refused = {0, 1}});
    for (const bool is_timed : {false, true}) {
      forget_choices();
      allow_trials();
      cuda_.choices().set_autotune(is_timed);
      const LogLines log;
      EXPECT_FALSE(is_taken(y));
      EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("another kernel runs: "), HasSubstr("does not run"))));
      EXPECT_EQ(cuda_.choices().known().algorithms.begin()->second, "none");
    }
  }
}

TEST_F(LibraryChoices, NothingStandsInThatNeedsMoreWorkspaceThanTheFirst) {
  for (Value y : {product_, convolution_, of_filter_}) {
    use({.seconds = {1, 1}, .workspaces = {500, 501}, .refused = {0}});
    allow_trials();
    const LogLines log;
    EXPECT_FALSE(is_taken(y));
    EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("another kernel runs: "), HasSubstr("does not run"),
                                          HasSubstr("needs more workspace than the first"))));
    EXPECT_EQ(fake_libraries().executions, 0) << "nor is it tried";
    // The first one may need most.
    use({.seconds = {1, 1}, .workspaces = {500, 400}, .refused = {0}});
    allow_trials();
    EXPECT_EQ(runs(y), 1);
  }
}

TEST_F(LibraryChoices, WhatCannotBeTriedIsTakenAsOffered) {
  for (Value y : {product_, convolution_}) {
    use({.workspaces = {500}, .refused = {0}});
    const auto untried = make(y);
    ASSERT_NE(untried, nullptr);
    EXPECT_EQ(fake_libraries().executions, 0);
    EXPECT_GE(untried->workspace_bytes(), 500u);
  }
}

TEST_F(LibraryChoices, ARefusalInACycleIsAnErrorAndNothingTakesItsPlace) {
  for (Value y : {product_, convolution_}) {
    use({.seconds = {1, 1}, .refused = {0}});
    const auto kernel = make(y);
    const AlgorithmChoices chosen = cuda_.choices().known();
    const std::string algorithm = kernel->implementation();
    const std::vector<std::vector<float>> content(2, std::vector<float>(200, 1.0F));
    EXPECT_THAT([&] { (void)result(y, *kernel, content); },
                testing::ThrowsMessage<DeviceError>(AllOf(HasSubstr(chosen.algorithms.begin()->first),
                                                          HasSubstr("; algorithm " + chosen.algorithms.begin()->second),
                                                          HasSubstr("start the process again with more"))));
    EXPECT_EQ(fake_libraries().executions, 0);
    EXPECT_EQ(cuda_.choices().known(), chosen);
    // What is refused while a cycle is recorded may run step by step: by the same algorithm.
    fake_libraries().refused = {};
    (void)result(y, *kernel, content);
    EXPECT_EQ(fake_libraries().latest, 0);
    EXPECT_EQ(kernel->implementation(), algorithm);
    EXPECT_EQ(runs(y), 0) << "in a kernel that is made later, too";
  }
}

TEST_F(LibraryChoices, ARefusalLeavesNoErrorForTheNextLaunch) {
  for (Value y : {product_, convolution_}) {
    for (const bool is_tried : {false, true}) {
      use({.seconds = {1, 1}, .refused = {0, 1}});
      if (is_tried) {
        allow_trials();
        EXPECT_FALSE(is_taken(y));
      } else {
        const auto kernel = make(y);
        const std::vector<std::vector<float>> content(2, std::vector<float>(200, 1.0F));
        EXPECT_THROW((void)result(y, *kernel, content), DeviceError);
      }
      EXPECT_FALSE(fake_libraries().has_left_error);
    }
  }
}

TEST_F(LibraryChoices, WhatDoesNotTellItsWorkspaceIsNotTakenAndTheLogSaysSo) {
  use({.seconds = {1, 1}, .tells_workspace = false});
  const LogLines log;
  EXPECT_EQ(runs(convolution_), 1);
  EXPECT_THAT(log.lines, ElementsAre(HasSubstr("cudnn offers algorithm 1 for a convolution and does not say its")));
}

TEST_F(LibraryChoices, AreTimedInBytesThatAreLent) {
  use({.seconds = {3, 2}});
  const auto memory = cuda_.allocate(1 << 16);
  autotune({.lent = {memory->data(), memory->num_bytes()}});
  const std::size_t allocated = fake_libraries().allocated_memory;
  EXPECT_EQ(runs(convolution_), 1);
  EXPECT_EQ(fake_libraries().peak_allocated_memory, allocated);
}

TEST_F(LibraryChoices, WithoutMemoryToTimeInTheLibrarysGuessIsTakenAndALineSaysSo) {
  FakeLibraries full{.seconds = {3, 2}};
  full.free_memory = 100;
  std::byte little[64];
  for (const TrialMemory& memory : {TrialMemory{}, TrialMemory{.lent = little}, TrialMemory{.most_allocated = 100},
                                    TrialMemory{.most_allocated = 1 << 20}}) {
    use(full);
    autotune(memory);
    const LogLines log;
    EXPECT_EQ(runs(product_), 0);
    EXPECT_THAT(log.lines, testing::ElementsAre(
                               AllOf(HasSubstr("the library's guess is taken: cublaslt 1"), HasSubstr("needs 768 B"))));
    EXPECT_EQ(fake_libraries().executions, 1);
  }
}

TEST_F(LibraryChoices, GoOnInAnotherProcessThatWasGivenThem) {
  for (Value y : {product_, convolution_, short_convolution_, unevenly_padded_, of_filter_}) {
    use({.workspace_bytes = 500, .seconds = {3, 2}});
    autotune();
    EXPECT_EQ(runs(y), 1);
    const AlgorithmChoices stored = AlgorithmChoices::from_json(cuda_.choices().known().json(), "");
    cuda_.choices().set_autotune(false);
    start_with(stored);
    EXPECT_EQ(runs(y), 1);
    EXPECT_EQ(cuda_.choices().known(), stored);
  }
}

TEST_F(LibraryChoices, WhatAFileSaysIsTakenOnlyIfTheLibraryOffersIt) {
  for (Value y : {product_, convolution_, short_convolution_}) {
    use({});
    EXPECT_EQ(runs(y), 0);
    const AlgorithmChoices good = cuda_.choices().known();
    ASSERT_EQ(good.algorithms.size(), 1u);
    const auto& [problem, algorithm] = *good.algorithms.begin();
    // Sums in the order of arrival; a transform; another size of scratch; nonsense.
    for (const std::string& bad : {"0" + algorithm.substr(1), "4" + algorithm.substr(1), algorithm + "0",
                                   std::string("none"), std::string("x"), std::string(1000, '9')}) {
      start_with({.algorithms = {{problem, bad}}});
      const LogLines log;
      EXPECT_EQ(runs(y), 0) << bad;
      EXPECT_THAT(log.lines, Contains(AllOf(HasSubstr("is none that the library offers"), HasSubstr(problem))));
      EXPECT_EQ(cuda_.choices().known(), good);
    }
  }
}

TEST(LibraryWords, AreReadAsTheyWereWritten) {
  const gpu::Words<3> words = {0, ~std::uint64_t{0}, 0x1234};
  EXPECT_EQ(gpu::text_of_words(words), "0 ffffffffffffffff 1234");
  gpu::Words<3> read{};
  gpu::read_words("0 ffffffffffffffff 1234", read);
  EXPECT_EQ(read, words);
  for (const char* bad :
       {"", "1", "1 2", "1 2 3 4", "1 2 x", "1  2 3", "-1 2 3", "1 2 0x3", "1 2 3 ", "1 2 10000000000000000"}) {
    EXPECT_THROW(gpu::read_words(bad, read), InternalError) << bad;
  }
}

}  // namespace
}  // namespace sectionflow
