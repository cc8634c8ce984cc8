#pragma once

#include <cublasLt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "device/cuda/cuda_device.h"
#include "kernels/cuda/library/choice.h"
#include "kernels/cuda/library/gemm.h"
#include "kernels/cuda/library/library_kernels.h"

// A matrix product in cuBLASLt's words, its algorithms, and which of them may be taken.
namespace sectionflow::gpu::cublas {

using ProductDescriptor = Descriptor<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using MatrixDescriptor = Descriptor<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using PreferenceDescriptor = Descriptor<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

inline void check_cublas(cublasStatus_t status, const char* what) {
  SF_CHECK(status == CUBLAS_STATUS_SUCCESS, DeviceError, "cublasLt: ", what, ": ", cublasLtGetStatusString(status));
}

/// What is multiplied, and how exactly. Sums are f32 in every case.
struct Numbers {
  bool is_bf16 = false;
  bool allow_tf32 = false;  ///< of f32 factors

  bool are_for_tensor_cores() const { return is_bf16 || allow_tf32; }
  cudaDataType_t element() const { return is_bf16 ? CUDA_R_16BF : CUDA_R_32F; }
  cublasComputeType_t compute_type() const {
    return allow_tf32 && !is_bf16 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  }
  /// Whether an algorithm, by its own account (CUBLASLT_NUMERICAL_IMPL_FLAGS), takes the factors for what they are and
  /// sums in f32. Of 16 bits an algorithm may name one kind for both: all that cuBLASLt 13 offers for bf16 on Hopper
  /// say f16. They take the kind of the matrices, whose range f16 has not. f32 factors may be rounded to what is named,
  /// and must not be unless that is allowed.
  bool takes(std::uint64_t numerics) const {
    const auto names = [numerics](std::uint64_t flags) { return (numerics & flags) != 0; };
    if (names(CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F) && !names(CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_32F)) {
      return false;
    }
    if (is_bf16)
      return names(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF) ||
             !names(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32);
    return allow_tf32 || !names(CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F | CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF |
                                CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32);
  }
};

/// A product and its matrices in cuBLASLt's words. All column-major (the default order), the only one whose problems
/// the library may cut into smaller ones; scalars on the host (the default), of the type f32.
struct Descriptors {
  ProductDescriptor product;
  MatrixDescriptor first, second, result;
};

inline MatrixDescriptor describe(const ColumnMatrix& matrix, std::int64_t batch, const Numbers& numbers) {
  cublasLtMatrixLayout_t layout = nullptr;
  check_cublas(cublasLtMatrixLayoutCreate(&layout, numbers.element(), static_cast<std::uint64_t>(matrix.rows),
                                          static_cast<std::uint64_t>(matrix.columns), matrix.leading_dimension()),
               "cublasLtMatrixLayoutCreate");
  MatrixDescriptor owner(layout);
  if (batch == 1) return owner;
  const auto count = static_cast<std::int32_t>(batch);
  const std::int64_t stride = matrix.num_elements();
  check_cublas(cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof(count)),
               "batch count");
  check_cublas(
      cublasLtMatrixLayoutSetAttribute(layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &stride, sizeof(stride)),
      "batch stride");
  return owner;
}

inline Descriptors describe(const Gemm& gemm, const Numbers& numbers) {
  cublasLtMatmulDesc_t product = nullptr;
  check_cublas(cublasLtMatmulDescCreate(&product, numbers.compute_type(), CUDA_R_32F), "cublasLtMatmulDescCreate");
  ProductDescriptor owner(product);
  const auto set_operation = [product](cublasLtMatmulDescAttributes_t attribute, bool transposed) {
    const std::int32_t operation = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    check_cublas(cublasLtMatmulDescSetAttribute(product, attribute, &operation, sizeof(operation)), "transposition");
  };
  set_operation(CUBLASLT_MATMUL_DESC_TRANSA, gemm.first.transposed);
  set_operation(CUBLASLT_MATMUL_DESC_TRANSB, gemm.second.transposed);
  return {.product = std::move(owner),
          .first = describe(gemm.first, gemm.batch, numbers),
          .second = describe(gemm.second, gemm.batch, numbers),
          .result = describe(gemm.result, gemm.batch, numbers)};
}

template <class T>
void set_preference(const PreferenceDescriptor& preference, cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)), "preference");
}

inline PreferenceDescriptor make_preference() {
  cublasLtMatmulPreference_t created = nullptr;
  check_cublas(cublasLtMatmulPreferenceCreate(&created), "cublasLtMatmulPreferenceCreate");
  PreferenceDescriptor preference(created);
  set_preference(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, std::uint64_t{kMostLibraryWorkspace});
  // A dot product in one piece (that scheme has no bit), or in pieces that are put down in the workspace and added in a
  // step of their own. Not in place: the library promises that pieces are added to the output one after the other, not
  // in which order, and its counters are in the workspace, whose content nobody knows.
  set_preference(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  // What every buffer has, parts of variables too. Said once for all of them instead of looked up in addresses, so that
  // the choice is the same wherever buffers lie.
  constexpr std::uint32_t kAlignment = 64;
  for (auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                         CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    set_preference(preference, attribute, kAlignment);
  }
  return preference;
}

/// Why an algorithm does not keep what the preference asked for, by its own account; empty where it does: no sum in the
/// order of arrival, and no factors of fewer bits (environment variables of cuBLAS may offer such) unless they are
/// allowed.
inline std::string fault_of(const cublasLtMatmulAlgo_t& algorithm, const Numbers& numbers) {
  std::uint32_t scheme = 0;
  std::uint64_t numerics = 0;
  std::size_t written = 0;
  if (cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, &scheme, sizeof(scheme),
                                           &written) != CUBLAS_STATUS_SUCCESS ||
      cublasLtMatmulAlgoCapGetAttribute(&algorithm, CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS, &numerics, sizeof(numerics),
                                        &written) != CUBLAS_STATUS_SUCCESS) {
    return "does not say how it sums";
  }
  if ((scheme & CUBLASLT_REDUCTION_SCHEME_INPLACE) != 0) return "sums in the order of arrival";
  if (numbers.takes(numerics)) return {};
  return text_of("takes other numbers (flags ", text_of_words(std::span(&numerics, 1)), ")");
}

inline std::int32_t id_of(const cublasLtMatmulAlgo_t& algorithm) {
  std::int32_t id = -1;
  std::size_t written = 0;
  (void)cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_ID, &id, sizeof(id), &written);
  return id;
}

/// Whether the library says that it has no such product: what follows from the question alone. All else is a failure of
/// the moment, and throws: another algorithm would give other bits.
inline bool is_refusal(cublasStatus_t status) {
  return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
         status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/// An algorithm with its scratch.
struct CublasCandidate {
  cublasLtMatmulAlgo_t algorithm{};
  std::size_t workspace_bytes = 0;
};

/// One product as choose_algorithm asks for it, and as kernels run it. `a`, `b`: which inputs are the factors.
class CublasProduct {
 public:
  using Candidate = CublasCandidate;

  CublasProduct(cublasLtHandle_t handle, const Gemm& gemm, const Numbers& numbers, std::size_t a, std::size_t b)
      : handle_(handle), descriptors_(describe(gemm, numbers)), numbers_(numbers), a_(a), b_(b) {}

  /// Those of the heuristic's that may be taken.
  std::vector<Candidate> candidates(LeftOut& left_out) const {
    const PreferenceDescriptor preference = make_preference();
    std::array<cublasLtMatmulHeuristicResult_t, 32> found{};
    int num_found = 0;
    const Descriptors& d = descriptors_;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, d.product.get(), d.first.get(), d.second.get(), d.result.get(), d.result.get(), preference.get(),
        static_cast<int>(found.size()), found.data(), &num_found);
    if (is_refusal(status)) {
      left_out.add(-1, text_of("of any kind: ", cublasLtGetStatusString(status)));
      return {};
    }
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
    std::vector<Candidate> sound;
    for (int i = 0; i < num_found; ++i) {
      const cublasLtMatmulHeuristicResult_t& result = found[static_cast<std::size_t>(i)];
      std::string fault;
      if (result.state != CUBLAS_STATUS_SUCCESS) {
        fault = cublasLtGetStatusString(result.state);
      } else if (result.workspaceSize > kMostLibraryWorkspace) {
        fault = text_of("wants ", bytes_text(result.workspaceSize));
      } else {
        fault = fault_of(result.algo, numbers_);
      }
      if (fault.empty()) {
        sound.push_back({result.algo, result.workspaceSize});
      } else {
        left_out.add(id_of(result.algo), fault);
      }
    }
    return sound;
  }

  // The structure may be stored and restored as it is with the same version of the library, which problems name.
  static Words<9> words(const Candidate& candidate) {
    Words<9> words{};
    std::copy_n(std::begin(candidate.algorithm.data), 8, words.begin());
    words[8] = candidate.workspace_bytes;
    return words;
  }
  static Candidate from(const Words<9>& words) {
    Candidate candidate{.workspace_bytes = words[8]};
    std::copy_n(words.begin(), 8, std::begin(candidate.algorithm.data));
    return candidate;
  }

  bool launch(const Candidate& candidate, const KernelArguments& arguments, bool adds = false) const {
    const float one = 1, share_of_y = adds ? 1 : 0;
    const Descriptors& d = descriptors_;
    void* y = arguments.outputs[0];
    // With a factor of zero the output is not read; where it is also the addend, both must be described alike.
    const cublasStatus_t status =
        cublasLtMatmul(handle_, d.product.get(), &one, arguments.inputs[b_], d.first.get(), arguments.inputs[a_],
                       d.second.get(), &share_of_y, y, d.result.get(), y, d.result.get(), &candidate.algorithm,
                       arguments.workspace, candidate.workspace_bytes, static_cast<cudaStream_t>(arguments.queue));
    if (is_refusal(status)) return false;
    check_cublas(status, "cublasLtMatmul");
    return true;
  }

 private:
  cublasLtHandle_t handle_;
  Descriptors descriptors_;
  Numbers numbers_;
  std::size_t a_, b_;
};

/// All that the choice depends on.
inline std::string problem_of(const Gemm& gemm, const Numbers& numbers, const CudaDevice& device) {
  const auto text_of_matrix = [](const ColumnMatrix& matrix) {
    const std::string pitch = matrix.pitch == 0 ? "" : text_of(" at steps of ", matrix.pitch);
    return text_of(matrix.rows, "x", matrix.columns, pitch, matrix.transposed ? " transposed" : "");
  };
  const char* const type = numbers.is_bf16 ? "bf16" : numbers.allow_tf32 ? "f32 as tf32" : "f32";
  return text_of(device.cublas_problem(), gemm.batch, " products of ", type, ", column by column, ",
                 text_of_matrix(gemm.first), " by ", text_of_matrix(gemm.second), " to ", text_of_matrix(gemm.result),
                 ", scratch up to ", kMostLibraryWorkspace);
}

inline std::string name_of(const cublasLtMatmulAlgo_t& algorithm) {
  const std::int32_t id = id_of(algorithm);
  std::int32_t pieces = 1;
  std::size_t written = 0;
  (void)cublasLtMatmulAlgoConfigGetAttribute(&algorithm, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &pieces, sizeof(pieces),
                                             &written);
  return pieces > 1 ? text_of("cublaslt algorithm ", id, ", sums in ", pieces, " pieces")
                    : text_of("cublaslt algorithm ", id);
}

}  // namespace sectionflow::gpu::cublas
