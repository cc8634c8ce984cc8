#include "base/host_tensor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "tests/support/temporary_folder.h"

namespace sectionflow {
namespace {

TEST(HostTensor, NewTensorIsZeroAndAligned) {
  const HostTensor tensor(Dtype::f32, {3, 5});
  EXPECT_EQ(tensor.num_elements(), 15);
  EXPECT_EQ(tensor.num_bytes(), 60U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.bytes()) % 64, 0U);
  for (float value : tensor.values<float>()) EXPECT_EQ(value, 0.0F);
}

TEST(HostTensor, DefaultTensorIsEmpty) {
  const HostTensor tensor;
  EXPECT_EQ(tensor.num_elements(), 0);
  EXPECT_EQ(tensor.num_bytes(), 0U);
  EXPECT_TRUE(tensor.values<float>().empty());
  EXPECT_TRUE(bitwise_equal(tensor.clone(), tensor));
}

TEST(HostTensor, ValuesAreRowMajor) {
  const HostTensor tensor = HostTensor::of<std::int32_t>({2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(tensor.values<std::int32_t>()[3], 4);
  EXPECT_EQ(tensor.view().as<std::int32_t>()[5], 6);
  EXPECT_EQ(tensor.view().type, tensor.type());
}

TEST(HostTensor, NumberOfValuesMustBeThatOfTheShape) {
  const std::string text = error_text<ShapeError>([] { HostTensor::of<float>({2, 2}, {1, 2, 3}); });
  EXPECT_NE(text.find("3 values for the shape [2,2]"), std::string::npos) << text;
}

TEST(HostTensor, AccessAsAnotherTypeIsRefused) {
  HostTensor tensor(Dtype::f32, {2});
  const std::string text = error_text<ArgumentError>([&] { tensor.values<std::int32_t>(); });
  EXPECT_NE(text.find("f32[2] asked for as i32"), std::string::npos) << text;
}

TEST(HostTensor, ItemIsTheOnlyElement) {
  EXPECT_EQ(HostTensor::scalar(2.5).item<double>(), 2.5);
  EXPECT_TRUE(HostTensor::scalar(true).item<bool>());
  EXPECT_EQ(HostTensor::of<std::int64_t>({1, 1}, {7}).item<std::int64_t>(), 7);
  EXPECT_THROW(HostTensor(Dtype::f32, {2}).item<float>(), ShapeError);
  EXPECT_THROW(HostTensor::scalar(1.0F).item<double>(), ArgumentError);
}

TEST(HostTensor, CloneHasBytesOfItsOwn) {
  HostTensor tensor = HostTensor::of<float>({2}, {1, 2});
  const HostTensor copy = tensor.clone();
  tensor.values<float>()[0] = 9;
  EXPECT_EQ(copy.values<float>()[0], 1.0F);
}

TEST(HostTensor, MoveKeepsTheBytes) {
  HostTensor tensor = HostTensor::of<float>({2}, {1, 2});
  const std::byte* bytes = tensor.bytes();
  const HostTensor moved = std::move(tensor);
  EXPECT_EQ(moved.bytes(), bytes);
  EXPECT_EQ(moved.shape(), Shape{2});
}

TEST(HostTensor, UnknownAndOverflowingSizesAreRefused) {
  EXPECT_THROW(HostTensor(Dtype::f32, {kDynamic, 2}), ShapeError);
  EXPECT_THROW(HostTensor(Dtype::f64, {std::numeric_limits<std::int64_t>::max() / 2}), ShapeError);
}

TEST(HostTensor, EmptyTensorHasAnAddress) {
  EXPECT_NE(HostTensor(Dtype::f32, {0, 3}).bytes(), nullptr);
}

TEST(HostTensor, BitwiseEqualityComparesBitsAndTypes) {
  const auto of = [](float value) { return HostTensor::of<float>({1}, {value}); };
  EXPECT_TRUE(bitwise_equal(of(NAN), of(NAN)));
  EXPECT_FALSE(bitwise_equal(of(0.0F), of(-0.0F)));
  EXPECT_FALSE(bitwise_equal(of(0.0F), HostTensor(Dtype::i32, {1})));
  EXPECT_FALSE(bitwise_equal(HostTensor(Dtype::f32, {2, 1}), HostTensor(Dtype::f32, {1, 2})));
}

TEST(HostTensor, TypeIsPrintedAsDtypeAndShape) {
  EXPECT_EQ((TensorType{Dtype::f32, {250, 10}}).text(), "f32[250,10]");
}

}  // namespace
}  // namespace sectionflow
