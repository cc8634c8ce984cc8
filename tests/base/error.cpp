#include "base/error.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

TEST(Error, CheckThrowsTheStreamedPartsAndOnlyWhenItFails) {
  EXPECT_NO_THROW(SF_CHECK(1 + 1 == 2, ShapeError, "unseen"));
  const std::string text = whole_error_text<ShapeError>(
      [] { SF_CHECK(1 + 1 == 3, ShapeError, "conv2d: input has ", 3, " channels, wants ", 4.5); });
  EXPECT_EQ(text, "SF-E020 ShapeError: conv2d: input has 3 channels, wants 4.5");
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
    EXPECT_EQ(error.message(), "text");
    EXPECT_EQ(error.what(), text_of(code_text(error.code()), " ", error.type(), ": text"));
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
  EXPECT_STREQ(error.what(), "SF-E101 BudgetError: too small");
}

TEST(Error, EveryTypeHasItsUsualCode) {
  EXPECT_STREQ(ArgumentError("text").what(), "SF-E010 ArgumentError: text");
  EXPECT_STREQ(ShapeError("text").what(), "SF-E020 ShapeError: text");
  EXPECT_STREQ(BudgetError("text", 1, 2).what(), "SF-E101 BudgetError: text");
  EXPECT_STREQ(DataError("text").what(), "SF-E400 DataError: text");
  EXPECT_STREQ(DeviceError("text").what(), "SF-E500 DeviceError: text");
  EXPECT_STREQ(InternalError("text").what(), "SF-E900 InternalError: text");
}

TEST(Error, ACheckMayGiveACodeOfItsOwn) {
  try {
    SF_CHECK_CODE(false, ArgumentError, ErrorCode::nested_section, "a", 1);
    FAIL();
  } catch (const ArgumentError& error) {
    EXPECT_EQ(error.code(), ErrorCode::nested_section);
    EXPECT_STREQ(error.type(), "ArgumentError");
    EXPECT_EQ(error.message(), "a1");
    EXPECT_STREQ(error.what(), "SF-E201 ArgumentError: a1");
  }
}

TEST(Error, FactsComeInTheirOrderWithTheHintLast) {
  ShapeError error(error_text_of("a", hint("try ", 2), " and b", earlier("there")));
  error.add_fact("odd", "fact");
  error.add_fact("inputs", "x");
  error.add_fact("where", "here.cpp:1");
  error.add_fact("where", "elsewhere.cpp:2");
  error.add_fact("call", "");
  EXPECT_STREQ(error.what(),
               "SF-E020 ShapeError: a and b\n  where:   here.cpp:1\n  earlier: there\n  inputs:  x\n  odd:     fact\n"
               "  hint:    try 2");
  EXPECT_EQ(error.fact("hint"), "try 2");
  EXPECT_EQ(error.fact("call"), "");
}

TEST(Error, ACallAddsItsLineAsWhereOrBehindThePlaceOfAnOperation) {
  const auto thrown = [](const char* known) {
    try {
      call_at(Where{"train.cpp", 7}, [&] {
        ArgumentError error("text");
        error.add_fact("where", known);
        throw error;
      });
    } catch (const ArgumentError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(thrown(""), "SF-E010 ArgumentError: text\n  where:   train.cpp:7");
  EXPECT_EQ(thrown("train.cpp:7"), "SF-E010 ArgumentError: text\n  where:   train.cpp:7");
  EXPECT_EQ(thrown("model.cpp:3"), "SF-E010 ArgumentError: text\n  where:   model.cpp:3\n  call:    train.cpp:7");
  EXPECT_EQ(call_at(Where{"train.cpp", 7}, [] { return 3; }), 3);
}

/// Keeps the line of the call that makes it.
struct MadeSomewhere {
  explicit MadeSomewhere(int, Where where = Where::here()) : where(where) {}
  Where where;
};

TEST(Where, IsTheLineOfTheCallAndNoneOfTheStandardLibrarys) {
  EXPECT_EQ(MadeSomewhere(1).where.text(), text_of("error.cpp:", __LINE__));
  std::optional<MadeSomewhere> optional;
  optional.emplace(1);
  for (const Where& where : {std::make_unique<MadeSomewhere>(1)->where, optional->where}) {
    EXPECT_FALSE(where.known()) << where.file;
    EXPECT_EQ(where.text(), "");
  }
  EXPECT_EQ(std::make_unique<MadeSomewhere>(1, Where::here())->where.text(), text_of("error.cpp:", __LINE__));
  EXPECT_FALSE(Where().known());
}

}  // namespace
}  // namespace sectionflow
