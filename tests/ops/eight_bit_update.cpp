#include "graph/ops/eight_bit_update.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <type_traits>

#include "graph/ops/basic.h"
#include "kernels/formulas/eight_bit_update.h"
#include "tests/support/contains.h"
#include "tests/support/kernel_runner.h"
#include "tests/support/temporary_folder.h"
#include "tests/support/tolerance.h"

namespace sectionflow {
namespace {

using namespace testing_support;
using formulas::DynamicCode;
using formulas::RootCode;
using formulas::SignedCode;

template <class Code>
class DynamicCodes : public testing::Test {};
using BothWidths = testing::Types<std::integral_constant<int, 7>, std::integral_constant<int, 8>>;
TYPED_TEST_SUITE(DynamicCodes, BothWidths);

TYPED_TEST(DynamicCodes, GrowFromZeroToOneAndComeBack) {
  using Code = DynamicCode<TypeParam::value>;
  constexpr int kCodes = 1 << TypeParam::value;
  EXPECT_EQ(Code::decoded(0), 0.0F);
  EXPECT_EQ(Code::decoded(kCodes - 1), 1.0F);
  EXPECT_NEAR(Code::decoded(1), std::pow(10.0, 1 - TypeParam::value), 1e-12);
  for (int code = 0; code < kCodes; ++code) {
    EXPECT_EQ(Code::encoded(Code::decoded(code)), code);
    if (code > 0) {
      EXPECT_GT(Code::decoded(code), Code::decoded(code - 1));
    }
  }
}

TYPED_TEST(DynamicCodes, AreThoseOfTheNearestNumber) {
  using Code = DynamicCode<TypeParam::value>;
  constexpr unsigned kSeed = 17;
  std::mt19937 random(kSeed);
  std::uniform_real_distribution<double> exponents(-7, 0);
  for (int k = 0; k < 20000; ++k) {
    const auto x = static_cast<float>(std::pow(10.0, exponents(random)));
    double nearest = 1;
    for (int code = 0; code < 1 << TypeParam::value; ++code) {
      nearest = std::min(nearest, std::abs(static_cast<double>(Code::decoded(code)) - x));
    }
    const double found = std::abs(static_cast<double>(Code::decoded(Code::encoded(x))) - x);
    // Between 0 and the least number the middle lies a little higher.
    const double least = Code::decoded(1);
    ASSERT_LE(found, nearest + (x < least ? 0.1 * least : 1e-6 * x)) << x << ", seed " << kSeed;
  }
}

TYPED_TEST(DynamicCodes, OfWhatIsNoNumberFromZeroToOneAreSome) {
  using Code = DynamicCode<TypeParam::value>;
  for (const float x : {std::nanf(""), HUGE_VALF, -HUGE_VALF, 2.0F, -1.0F}) {
    EXPECT_GE(Code::encoded(x), 0) << x;
    EXPECT_LT(Code::encoded(x), 1 << TypeParam::value) << x;
  }
}

TEST(SlotCodes, KeepSignsAndNeverMakeZerosOfRoots) {
  for (int code = 0; code < 256; ++code) {
    const float x = SignedCode::decoded(code);
    EXPECT_EQ(std::signbit(x), code >= 128) << code;
    if (x != 0) {
      EXPECT_EQ(formulas::encoded<SignedCode>(3 * x, 3), code);
    }
    EXPECT_EQ(formulas::encoded<RootCode>(3 * RootCode::decoded(code), 3), code);
  }
  EXPECT_EQ(SignedCode::decoded(formulas::encoded<SignedCode>(-1e-12F, 1)), 0);
  EXPECT_EQ(formulas::encoded<RootCode>(1e-30F, 1e20F), 1);
  EXPECT_EQ(formulas::encoded<RootCode>(0, 1), 0);
}

HostTensor rippled(const Shape& shape, float phase) {
  HostTensor tensor(Dtype::f32, shape);
  for (int i = 0; float& element : tensor.values<float>()) element = std::sin(phase + 1.7F * static_cast<float>(i++));
  return tensor;
}

constexpr AdamWOptions kOptions{.beta1 = 0.8F, .beta2 = 0.95F, .weight_decay = 0.5F};
constexpr float kRate = 0.0625F;

/// A variable by AdamW with slots of bytes, and its slots: variable, m_codes, m_scales, root_codes, root_scales.
class CodedRun {
 public:
  explicit CodedRun(const Shape& shape, Dtype gradient = Dtype::f32) : shape_(shape) {
    const Shape scales{(shape.num_elements() + 255) / 256};
    const auto add = [&](const Shape& of, Dtype dtype) {
      all.push_back(variable("v", fill(graph_, of, 0, dtype)));
      feeds.emplace(all.back(), HostTensor(dtype, of));
    };
    add(shape, Dtype::f32);
    for (int slot = 0; slot < 2; ++slot) {
      add(shape, Dtype::u8);
      add(scales, Dtype::f32);
    }
    feeds.insert_or_assign(all[0], rippled(shape, 1));
    gradient_ = placeholder(graph_, "gradient", shape, gradient);
    steps_ = variable("steps", fill(graph_, {}, 0, Dtype::i64));
    update_ =
        apply_adam_w_8bit(all[0], all[1], all[2], all[3], all[4], gradient_, constant(graph_, kRate), steps_, kOptions);
  }

  void step(std::int64_t taken, HostTensor gradient, int threads = 2) {
    feeds.insert_or_assign(gradient_, std::move(gradient));
    feeds.insert_or_assign(steps_, HostTensor::scalar(taken));
    RunResult result = run_kernels({}, {update_}, feeds, {.threads = threads, .address_seed = 11});
    for (Value each : all) feeds.insert_or_assign(each, std::move(result.variables.at(each)));
  }
  HostTensor gradient_of(std::int64_t taken) const { return rippled(shape_, 2.3F * static_cast<float>(taken)); }
  const HostTensor& content(std::size_t index) const { return feeds.at(all[index]); }

  std::vector<Value> all;
  Feeds feeds;

 private:
  Shape shape_;
  Graph graph_;
  Value gradient_, steps_;
  Operation update_;
};

/// AdamW in double, of which the slots are rounded as the codes round them, or not at all.
struct AdamWInDouble {
  std::vector<double> w, m, v;

  void step(const std::vector<double>& g, double t) {
    const double beta1 = kOptions.beta1, beta2 = kOptions.beta2;
    for (std::size_t i = 0; i < w.size(); ++i) {
      w[i] -= kRate * 0.5 * w[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g[i];
      v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
      const double root = std::sqrt(v[i] / (1 - std::pow(beta2, t)));
      w[i] -= kRate * m[i] / (1 - std::pow(beta1, t)) / (root + 1e-8F);
    }
  }
};

const Shape kCodedShapes[] = {{}, {7}, {0, 3}, {3, 5, 2}, {256}, {257}, {40003}};

TEST(ApplyAdamW8bit, TheFirstStepIsThatOfAdamWAndItsSlotsAreRounded) {
  for (const Shape& shape : kCodedShapes) {
    CodedRun run(shape);
    AdamWInDouble wanted{doubles_of(run.content(0)), {}, {}};
    wanted.m.resize(wanted.w.size());
    wanted.v.resize(wanted.w.size());
    run.step(0, run.gradient_of(1));
    wanted.step(doubles_of(run.gradient_of(1)), 1);
    EXPECT_TRUE(is_near(run.content(0), wanted.w, {.relative = 8, .absolute = 8})) << shape;
    const auto m_codes = run.content(1).values<std::uint8_t>(), root_codes = run.content(3).values<std::uint8_t>();
    for (std::size_t i = 0; i < wanted.w.size(); ++i) {
      const float m_scale = run.content(2).values<float>()[i / 256],
                  root_scale = run.content(4).values<float>()[i / 256];
      // Half of what lies between two numbers of the highest decade is the most that rounding does.
      ASSERT_NEAR(m_scale * SignedCode::decoded(m_codes[i]), wanted.m[i], 0.46 / 64 * m_scale);
      ASSERT_NEAR(root_scale * RootCode::decoded(root_codes[i]), std::sqrt(wanted.v[i]), 0.46 / 128 * root_scale);
    }
  }
}

TEST(ApplyAdamW8bit, StaysBesideAdamWOverManySteps) {
  CodedRun run({1001});
  AdamWInDouble wanted{doubles_of(run.content(0)), std::vector<double>(1001), std::vector<double>(1001)};
  double moved = 0, apart = 0;
  const std::vector<double> before = wanted.w;
  for (std::int64_t taken = 0; taken < 20; ++taken) {
    run.step(taken, run.gradient_of(taken));
    wanted.step(doubles_of(run.gradient_of(taken)), static_cast<double>(taken) + 1);
  }
  const auto found = run.content(0).values<float>();
  for (std::size_t i = 0; i < found.size(); ++i) {
    moved += std::pow(wanted.w[i] - before[i], 2);
    apart += std::pow(wanted.w[i] - found[i], 2);
  }
  EXPECT_LT(std::sqrt(apart / moved), 0.03);
}

TEST(ApplyAdamW8bit, StepsOfElementsThatAreFarSmallerThanTheLargestStayBounded) {
  CodedRun run({256});
  for (std::int64_t taken = 0; taken < 30; ++taken) {
    HostTensor gradient(Dtype::f32, {256});
    // Once as large as nothing after it; then ever other small numbers.
    for (std::size_t i = 0; i < 256; ++i) {
      gradient.values<float>()[i] = (taken == 0 && i == 0 ? 1e6F : 1e-4F) *
                                    std::sin(1.0F + static_cast<float>(i + 7 * static_cast<std::size_t>(taken)));
    }
    const HostTensor before = run.content(0).clone();
    run.step(taken, std::move(gradient));
    for (std::size_t i = 0; i < 256; ++i) {
      ASSERT_LT(std::abs(run.content(0).values<float>()[i] - before.values<float>()[i]), 1) << i << ", " << taken;
    }
  }
}

TEST(ApplyAdamW8bit, BitsDoNotDependOnTheThreadCount) {
  const auto trained = [](int threads) {
    CodedRun run({40003});
    for (std::int64_t taken = 0; taken < 3; ++taken) run.step(taken, run.gradient_of(taken), threads);
    std::vector<HostTensor> contents;
    for (std::size_t k = 0; k < run.all.size(); ++k) contents.push_back(run.content(k).clone());
    return contents;
  };
  const auto one = trained(1);
  for (int threads : {2, 3, 7}) {
    const auto many = trained(threads);
    for (std::size_t k = 0; k < one.size(); ++k) EXPECT_TRUE(same_bits(one[k], many[k])) << threads << ", " << k;
  }
}

TEST(ApplyAdamW8bit, TakesGradientsOfBf16AsTheyAre) {
  for (const Shape& shape : kCodedShapes) {
    CodedRun wide(shape), narrow(shape, Dtype::bf16);
    HostTensor rounded = wide.gradient_of(1), stored(Dtype::bf16, shape);
    for (std::size_t i = 0; i < rounded.values<float>().size(); ++i) {
      stored.values<BFloat16>()[i] = BFloat16(rounded.values<float>()[i]);
      rounded.values<float>()[i] = stored.values<BFloat16>()[i];
    }
    wide.step(0, std::move(rounded));
    narrow.step(0, std::move(stored));
    for (std::size_t k = 0; k < wide.all.size(); ++k) EXPECT_TRUE(same_bits(wide.content(k), narrow.content(k))) << k;
  }
}

TEST(ApplyAdamW8bit, WhatIsNotFiniteShowsInTheVariableAndStaysInTheBlock) {
  for (const float number : {std::nanf(""), HUGE_VALF}) {
    CodedRun run({600});
    HostTensor gradient = run.gradient_of(1);
    gradient.values<float>()[300] = number;
    run.step(0, std::move(gradient));
    for (std::size_t i = 0; i < 600; ++i) {
      EXPECT_EQ(std::isfinite(run.content(0).values<float>()[i]), i != 300) << i;
    }
    run.step(1, run.gradient_of(2));
    for (const std::size_t i : {std::size_t{0}, std::size_t{255}, std::size_t{512}}) {
      EXPECT_TRUE(std::isfinite(run.content(0).values<float>()[i])) << i;
    }
    EXPECT_FALSE(std::isfinite(run.content(2).values<float>()[1])) << number;
    for (const std::size_t scales : {2, 4}) {
      EXPECT_TRUE(std::isfinite(run.content(scales).values<float>()[0])) << number;
    }
  }
}

TEST(ApplyAdamW8bit, AFiniteGradientWhoseSquareIsNoneMakesNoNaN) {
  CodedRun run({300});
  for (const float number : {3e19F, 1e30F, 3e38F}) {
    HostTensor gradient = run.gradient_of(1);
    gradient.values<float>()[7] = number;
    run.step(0, std::move(gradient));
    for (int step = 1; step < 4; ++step) run.step(step, run.gradient_of(step));
    for (const float each : run.content(0).values<float>()) ASSERT_TRUE(std::isfinite(each)) << number;
  }
}

TEST(ApplyAdam8bit, ShapesAndNumbersThatDoNotFitAreRefusedAndAddNothing) {
  Graph graph;
  const auto of = [&](const Shape& shape, Dtype dtype = Dtype::f32) {
    return variable("v", fill(graph, shape, 0, dtype));
  };
  const Value w = of({300}), m = of({300}, Dtype::u8), root = of({300}, Dtype::u8), scales = of({2}), of_root = of({2});
  const Value few = of({1}), g = placeholder(graph, "g", {300}), steps = of({}, Dtype::i64),
              rate = constant(graph, 0.1F);
  const int before = graph.num_nodes();
  const auto text = [&](Value codes, Value of_codes) {
    return error_text<ShapeError>([&] { apply_adam_8bit(w, codes, of_codes, root, of_root, g, rate, steps); });
  };
  EXPECT_TRUE(contains(text(m, few), "variable is f32[300], input 2 f32[1]; wanted f32[2], one a block"));
  EXPECT_TRUE(contains(text(w, scales), "input 1 f32[300]; wanted u8[300], a code an element"));
  EXPECT_THROW(apply_adam_8bit(w, m, scales, root, of_root, g, rate, rate), ArgumentError);
  EXPECT_THROW(apply_adam_8bit(w, m, scales, root, of_root, g, rate, steps, {.beta1 = 1}), ArgumentError);
  EXPECT_THROW(apply_adam_w_8bit(w, m, scales, root, of_root, g, rate, steps, {.weight_decay = -1}), ArgumentError);
  EXPECT_EQ(graph.num_nodes(), before);
}

}  // namespace
}  // namespace sectionflow
