// First and second derivatives of einsums and of products that broadcast beside differences in double.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "graph/einsum.h"
#include "tests/support/gradient_check.h"

namespace sectionflow::einsum_case {
namespace {

using namespace testing_support;

void product_subject(SubjectBuilder& b) {
  const Shape s = b.shape(4);
  b.result(einsum("bij,bjk->bik", {b.source({s[0], s[1], s[2]}), b.source({s[0], s[2], s[3]})}));
}
void heads_subject(SubjectBuilder& b) {
  const Shape s = b.shape(5, 3);
  const Value q = b.source({s[0], s[1], s[2], s[3]}), k = b.source({s[0], s[4], s[2], s[3]});
  b.result(einsum("bthd,bshd->bhts", {q, k}));
}
void layer_subject(SubjectBuilder& b) {
  const Shape s = b.shape(4);
  b.result(einsum("...i,ij->...j", {b.source({s[0], s[1], s[2]}), b.source({s[2], s[3]})}));
}
void turned_subject(SubjectBuilder& b) {
  const Shape s = b.shape(3);
  b.result(einsum("ij,kj->ki", {b.source({s[0], s[1]}), b.source({s[2], s[1]})}));
}
void bilinear_subject(SubjectBuilder& b) {
  const Shape s = b.shape(4, 3);
  b.result(einsum("bi,ijk,bk->bj", {b.source({s[0], s[1]}), b.source({s[1], s[2], s[3]}), b.source({s[0], s[3]})}));
}
void elements_subject(SubjectBuilder& b) {
  const Shape s = b.shape(3);
  b.result(einsum("bij,ji->bi j", {b.source(s), b.source({s[2], s[1]})}));
}
void diagonal_subject(SubjectBuilder& b) {
  const Shape s = b.shape(2);
  b.result(einsum("bii->bi", {b.source({s[0], s[1], s[1]})}));
}
void trace_of_product_subject(SubjectBuilder& b) {
  const Shape s = b.shape(2);
  b.result(einsum("ij,ji->", {b.source({s[0], s[1]}), b.source({s[1], s[0]})}));
}
void same_operand_subject(SubjectBuilder& b) {
  const Value x = b.source(b.shape(2));
  b.result(einsum("ij,ik->jk", {x, x}));
}
void repeated_subject(SubjectBuilder& b) {
  const Shape s = b.shape(5, 3);
  b.result(einsum("...ij,...jk->...ik", {b.source({s[0], 1, s[2], s[3]}), b.source({s[1], s[3], s[4]})}));
}
void broadcast_subject(SubjectBuilder& b) {
  const Shape s = b.shape(5, 3);
  const bool of_a = b.coin(), of_b = b.coin();
  const Value x = b.source(of_a ? Shape{s[0], 1, s[3], s[2]} : Shape{s[0], 1, s[2], s[3]});
  const Value y = b.source(of_b ? Shape{s[1], s[4], s[3]} : Shape{s[1], s[3], s[4]});
  b.result(broadcast_matmul(x, y, {.transpose_a = of_a, .transpose_b = of_b}));
}

const GradientSubject kEinsumSubjects[] = {
    {"product", product_subject},
    {"heads", heads_subject},
    {"layer", layer_subject},
    {"turned", turned_subject},
    {"bilinear", bilinear_subject},
    {"elements", elements_subject},
    {"diagonal", diagonal_subject},
    {"trace_of_product", trace_of_product_subject},
    {"same", same_operand_subject},
    {"repeated", repeated_subject},
    {"broadcast_matmul", broadcast_subject},
};

class DerivativesOfEinsums : public testing::TestWithParam<GradientSubject> {};
TEST_P(DerivativesOfEinsums, EqualDifferencesInDouble) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const GradientFinding finding = check_gradients(gradient_registry(), GetParam(), seed);
    EXPECT_TRUE(finding.is_smooth && finding.is_right()) << "seed " << seed << ": " << finding.text();
  }
}
INSTANTIATE_TEST_SUITE_P(Subjects, DerivativesOfEinsums, testing::ValuesIn(kEinsumSubjects),
                         [](const testing::TestParamInfo<GradientSubject>& info) { return info.param.name; });

}  // namespace
}  // namespace sectionflow::einsum_case
