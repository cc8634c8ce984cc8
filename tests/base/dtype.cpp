#include "base/dtype.h"

#include <gtest/gtest.h>

namespace sectionflow {
namespace {

template <class T>
void expect_dtype(Dtype dtype, std::string_view name) {
  EXPECT_EQ(dtype_of<T>, dtype);
  EXPECT_EQ(dtype_bytes(dtype), sizeof(T));
  EXPECT_EQ(dtype_name(dtype), name);
}

TEST(Dtype, SizesAndNamesAreThoseOfTheCppTypes) {
  expect_dtype<float>(Dtype::f32, "f32");
  expect_dtype<double>(Dtype::f64, "f64");
  expect_dtype<std::int32_t>(Dtype::i32, "i32");
  expect_dtype<std::int64_t>(Dtype::i64, "i64");
  expect_dtype<std::uint8_t>(Dtype::u8, "u8");
  expect_dtype<std::int8_t>(Dtype::i8, "i8");
  expect_dtype<bool>(Dtype::boolean, "bool");
  expect_dtype<BFloat16>(Dtype::bf16, "bf16");
}

TEST(Dtype, OnlyFloatsAreFloating) {
  EXPECT_TRUE(is_floating(Dtype::f32));
  EXPECT_TRUE(is_floating(Dtype::f64));
  EXPECT_TRUE(is_floating(Dtype::bf16));
  for (Dtype dtype : {Dtype::i32, Dtype::i64, Dtype::i8, Dtype::u8, Dtype::boolean}) EXPECT_FALSE(is_floating(dtype));
}

}  // namespace
}  // namespace sectionflow
