// Fakes of the calls of cuBLASLt that need a GPU: they compute on the host.

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "tests/cuda_libraries/fake_libraries.h"

namespace sectionflow::testing_support {

FakeLibraries& fake_libraries() {
  static FakeLibraries libraries;
  return libraries;
}

std::vector<int> offered_algorithms(std::size_t most) {
  FakeLibraries& libraries = fake_libraries();
  ++libraries.questions;
  std::vector<int> numbers;
  for (std::size_t i = 0; i < std::min(most, libraries.seconds.size()); ++i) numbers.push_back(static_cast<int>(i));
  if (libraries.is_reversed) std::reverse(numbers.begin(), numbers.end());
  return numbers;
}

std::size_t workspace_of(int number) {
  const FakeLibraries& libraries = fake_libraries();
  const auto i = static_cast<std::size_t>(number);
  return i < libraries.workspaces.size() ? libraries.workspaces[i] : libraries.workspace_bytes;
}

bool refuses(int number) {
  FakeLibraries& libraries = fake_libraries();
  const bool refused = libraries.refused.contains(number);
  libraries.has_left_error = libraries.has_left_error || refused;
  return refused;
}

void check_execution(int number, const void* one, const void* zero, void* workspace, std::size_t workspace_bytes) {
  EXPECT_EQ(*static_cast<const float*>(one), 1);
  EXPECT_EQ(*static_cast<const float*>(zero), 0);
  EXPECT_EQ(workspace_bytes, workspace_of(number));
  EXPECT_FALSE(fake_libraries().has_left_error) << "a launch would tell the error of a refusal";
  if (workspace_bytes > 0) {
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(workspace) % 256, 0u);
    std::memset(workspace, 0x5A, workspace_bytes);
  }
  FakeLibraries& libraries = fake_libraries();
  ++libraries.executions;
  libraries.latest = number;
  libraries.clock += libraries.seconds.at(static_cast<std::size_t>(number));
}

namespace {

// Algorithms are numbers in the first word of cublasLtMatmulAlgo_t; from kExact on all are sound. The last word tells
// whether all of it was kept.
enum : std::uint64_t { kSumsInPlace, kFails, kRoundsToTf32, kExact };
constexpr std::uintptr_t kHandle = 0x11;
int num_handles = 0;
constexpr std::uint64_t kLastWord = 0xFEDC'BA98'7654'3210;

template <class T>
T attribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name) {
  T value{};
  std::size_t written = 0;
  EXPECT_EQ(cublasLtMatrixLayoutGetAttribute(layout, name, &value, sizeof(value), &written), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(written, sizeof(value));
  return value;
}
template <class T>
T attribute(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t name) {
  T value{};
  std::size_t written = 0;
  EXPECT_EQ(cublasLtMatmulDescGetAttribute(product, name, &value, sizeof(value), &written), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(written, sizeof(value));
  return value;
}
template <class T>
T attribute(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t name) {
  T value{};
  std::size_t written = 0;
  EXPECT_EQ(cublasLtMatmulPreferenceGetAttribute(preference, name, &value, sizeof(value), &written),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(written, sizeof(value));
  return value;
}

struct Matrix {
  std::int64_t rows, columns, leading, stride;
  std::int32_t batch;
  bool is_bf16;
  bool transposed;

  Matrix(cublasLtMatrixLayout_t layout, bool is_transposed)
      : rows(static_cast<std::int64_t>(attribute<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_ROWS))),
        columns(static_cast<std::int64_t>(attribute<std::uint64_t>(layout, CUBLASLT_MATRIX_LAYOUT_COLS))),
        leading(attribute<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_LD)),
        stride(attribute<std::int64_t>(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)),
        batch(attribute<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT)),
        is_bf16(attribute<std::uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE) == std::uint32_t{CUDA_R_16BF}),
        transposed(is_transposed) {
    EXPECT_EQ(attribute<std::int32_t>(layout, CUBLASLT_MATRIX_LAYOUT_ORDER), CUBLASLT_ORDER_COL);
    EXPECT_TRUE(is_bf16 || attribute<std::uint32_t>(layout, CUBLASLT_MATRIX_LAYOUT_TYPE) == std::uint32_t{CUDA_R_32F});
    EXPECT_GE(leading, rows);
  }
  std::int64_t read_rows() const { return transposed ? columns : rows; }
  std::int64_t read_columns() const { return transposed ? rows : columns; }
  std::int64_t place(std::int64_t n, std::int64_t row, std::int64_t column) const {
    return n * stride + (transposed ? column + row * leading : row + column * leading);
  }
};

template <class T>
void multiply(const Matrix& a, const Matrix& b, const Matrix& d, const void* left, const void* right, float share,
              void* result) {
  const T *of_a = static_cast<const T*>(left), *of_b = static_cast<const T*>(right);
  ASSERT_EQ(a.read_rows(), d.rows);
  ASSERT_EQ(b.read_columns(), d.columns);
  ASSERT_EQ(a.read_columns(), b.read_rows());
  ASSERT_TRUE(a.batch == d.batch && b.batch == d.batch);
  for (std::int64_t n = 0; n < d.batch; ++n) {
    for (std::int64_t row = 0; row < d.rows; ++row) {
      for (std::int64_t column = 0; column < d.columns; ++column) {
        T& element = static_cast<T*>(result)[d.place(n, row, column)];
        float sum = share == 0 ? 0 : static_cast<float>(element);
        for (std::int64_t k = 0; k < a.read_columns(); ++k) {
          sum += of_a[a.place(n, row, k)] * of_b[b.place(n, k, column)];
        }
        element = T(sum);
      }
    }
  }
}

void check_preference(cublasLtMatmulPreference_t preference) {
  EXPECT_EQ(attribute<std::uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES), 32u << 20);
  EXPECT_EQ(attribute<std::uint32_t>(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK),
            std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                    CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    EXPECT_EQ(attribute<std::uint32_t>(preference, name), 64u);
  }
}

}  // namespace

int num_cublas_handles() {
  return num_handles;
}

}  // namespace sectionflow::testing_support

using namespace sectionflow::testing_support;

extern "C" {

cudaError_t cudaGetLastError() {
  return std::exchange(fake_libraries().has_left_error, false) ? cudaErrorInvalidValue : cudaSuccess;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  ++num_handles;
  *handle = reinterpret_cast<cublasLtHandle_t>(kHandle);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) {
  --num_handles;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t,
                                              cublasLtMatrixLayout_t, cublasLtMatrixLayout_t c,
                                              cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t preference,
                                              int wanted, cublasLtMatmulHeuristicResult_t results[], int* found) {
  FakeLibraries& libraries = fake_libraries();
  EXPECT_EQ(c, d);
  check_preference(preference);
  EXPECT_EQ(attribute<std::int32_t>(product, CUBLASLT_MATMUL_DESC_COMPUTE_TYPE),
            libraries.allow_tf32 && !Matrix(d, false).is_bf16 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F);
  EXPECT_EQ(attribute<std::int32_t>(product, CUBLASLT_MATMUL_DESC_SCALE_TYPE), CUDA_R_32F);
  EXPECT_EQ(attribute<std::int32_t>(product, CUBLASLT_MATMUL_DESC_POINTER_MODE), CUBLASLT_POINTER_MODE_HOST);
  std::vector<std::uint64_t> offered = {kSumsInPlace, kFails};
  const std::vector<int> sound = offered_algorithms(libraries.seconds.size());
  if (libraries.has_sound_algorithms) {
    offered.push_back(kRoundsToTf32);
    for (int number : sound) offered.push_back(kExact + static_cast<std::uint64_t>(number));
  }
  *found = std::min(wanted, static_cast<int>(offered.size()));
  for (int i = 0; i < *found; ++i) {
    results[i] = {};
    results[i].algo.data[0] = offered[static_cast<std::size_t>(i)];
    results[i].algo.data[7] = kLastWord;
    const std::uint64_t algorithm = results[i].algo.data[0];
    results[i].workspaceSize = workspace_of(algorithm < kExact ? 0 : static_cast<int>(algorithm - kExact));
    results[i].state = algorithm == kFails ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
  }
  return libraries.cublas_status;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t name, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  EXPECT_EQ(bytes, sizeof(std::uint32_t));
  std::uint32_t answer = 1;
  if (name == CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME) {
    answer =
        algorithm->data[0] == kSumsInPlace ? CUBLASLT_REDUCTION_SCHEME_INPLACE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  }
  std::memcpy(value, &answer, sizeof(answer));
  *written = sizeof(answer);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t* algorithm,
                                                 cublasLtMatmulAlgoCapAttributes_t name, void* value, std::size_t bytes,
                                                 std::size_t* written) {
  EXPECT_EQ(name, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS);
  EXPECT_EQ(bytes, sizeof(std::uint64_t));
  const std::uint64_t answer = algorithm->data[0] == kRoundsToTf32
                                   ? CUBLASLT_NUMERICAL_IMPL_FLAGS_HMMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32
                                   : CUBLASLT_NUMERICAL_IMPL_FLAGS_FMA | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_32F;
  std::memcpy(value, &answer, sizeof(answer));
  *written = sizeof(answer);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t product, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(handle), kHandle);
  EXPECT_NE(stream, nullptr);
  EXPECT_TRUE(c == d && c_layout == d_layout);
  const Matrix result(d_layout, false);
  EXPECT_EQ(algorithm->data[7], kLastWord);
  const bool rounds = algorithm->data[0] == kRoundsToTf32;
  EXPECT_EQ(rounds, fake_libraries().allow_tf32 && !result.is_bf16);
  const int number = rounds ? 0 : static_cast<int>(algorithm->data[0] - kExact);
  if (refuses(number)) return CUBLAS_STATUS_NOT_SUPPORTED;
  const float share = *static_cast<const float*>(beta), none = 0;
  EXPECT_TRUE(share == 0 || share == 1);
  check_execution(number, alpha, &none, workspace, workspace_bytes);
  const auto reads = [product](cublasLtMatrixLayout_t layout, cublasLtMatmulDescAttributes_t name) {
    return Matrix(layout, attribute<std::int32_t>(product, name) == CUBLAS_OP_T);
  };
  const Matrix first = reads(a_layout, CUBLASLT_MATMUL_DESC_TRANSA),
               second = reads(b_layout, CUBLASLT_MATMUL_DESC_TRANSB);
  EXPECT_TRUE(first.is_bf16 == result.is_bf16 && second.is_bf16 == result.is_bf16);
  (result.is_bf16 ? multiply<sectionflow::BFloat16> : multiply<float>)(first, second, result, a, b, share, d);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
