#include "base/error.h"

#include <gtest/gtest.h>

#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

TEST(Error, CheckThrowsTheStreamedPartsAndOnlyWhenItFails) {
  EXPECT_NO_THROW(SF_CHECK(1 + 1 == 2, ShapeError, "unseen"));
  const std::string text = error_text<ShapeError>(
      [] { SF_CHECK(1 + 1 == 3, ShapeError, "conv2d: input has ", 3, " channels, wants ", 4.5); });
  EXPECT_EQ(text, "conv2d: input has 3 channels, wants 4.5");
}

TEST(Error, PartsOfACheckThatHoldsAreNotEvaluated) {
  int evaluations = 0;
  SF_CHECK(true, ShapeError, ++evaluations);
  EXPECT_EQ(evaluations, 0);
}

TEST(Error, CheckIsOneStatement) {
  bool other_branch = false;
  if (false)
    SF_CHECK(false, ShapeError, "unseen");
  else
    other_branch = true;
  EXPECT_TRUE(other_branch);
}

template <class Specific>
void expect_caught_as_error() {
  try {
    throw Specific("text");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "text");
  }
}

TEST(Error, EveryErrorIsAnError) {
  expect_caught_as_error<ShapeError>();
  expect_caught_as_error<ArgumentError>();
  expect_caught_as_error<DataError>();
  expect_caught_as_error<DeviceError>();
  expect_caught_as_error<InternalError>();
  EXPECT_THROW(throw BudgetError("text", 1, 2), Error);
}

TEST(Error, BudgetErrorCarriesItsNumbers) {
  const BudgetError error("too small", 100, 200);
  EXPECT_EQ(error.budget_bytes, 100U);
  EXPECT_EQ(error.minimum_bytes, 200U);
  EXPECT_STREQ(error.what(), "too small");
}

}  // namespace
}  // namespace sectionflow
