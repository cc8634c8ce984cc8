#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "device/cuda/cuda_device.h"
#include "graph/nodes/convolution.h"
#include "graph/op_def.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/library/choice.h"
#include "kernels/cuda/library/cublas_product.h"
#include "kernels/cuda/library/gemm.h"
#include "kernels/cuda/library/library_kernels.h"
#include "kernels/cuda/library/padded_product.h"

namespace sectionflow {
namespace {

using gpu::Gemm;
using namespace gpu::cublas;

/// One cublasLtMatmul.
class CublasKernel : public Kernel {
 public:
  explicit CublasKernel(gpu::RunnableAlgorithm<CublasProduct> algorithm) : algorithm_(std::move(algorithm)) {}

  std::string implementation() const override { return name_of(algorithm_.candidate().algorithm); }
  std::size_t workspace_bytes() const override { return algorithm_.planned_bytes(); }

  void launch(const KernelArguments& arguments) override { multiply(arguments, false); }

 protected:
  void multiply(const KernelArguments& arguments, bool adds) {
    algorithm_.run([&](const CublasProduct& product, const CublasCandidate& candidate) {
      return product.launch(candidate, arguments, adds);
    });
  }

 private:
  gpu::RunnableAlgorithm<CublasProduct> algorithm_;
};

/// The same for y = x + a b, inputs x, a, b: x is copied to y first, unless it lies there.
class AddedCublasKernel final : public CublasKernel {
 public:
  AddedCublasKernel(gpu::RunnableAlgorithm<CublasProduct> algorithm, std::size_t y_bytes)
      : CublasKernel(std::move(algorithm)), y_bytes_(y_bytes) {}

  std::vector<InPlace> in_place() const override { return {{0, 0}}; }
  void launch(const KernelArguments& arguments) override {
    gpu::copy_bytes(arguments.queue, arguments.outputs[0], arguments.inputs[0], y_bytes_);
    KernelArguments factors = arguments;
    factors.inputs = arguments.inputs.subspan(1);
    multiply(factors, true);
  }

 private:
  std::size_t y_bytes_;
};

/// The factors of a product among a request's inputs, and whether it is added to another input, which is not among
/// them.
struct Factors {
  std::size_t a = 0, b = 1;
  bool adds = false;
};

std::unique_ptr<Kernel> make_gemm(const KernelRequest& request, const Gemm& gemm, const Numbers& numbers,
                                  const Factors& factors) {
  auto& device = static_cast<CudaDevice&>(request.device);
  CublasProduct product(device.cublas(), gemm, numbers, factors.a, factors.b);
  std::string text = problem_of(gemm, numbers, device);
  const auto choice = gpu::choose_algorithm(request, text, product);
  if (!choice) return nullptr;
  gpu::RunnableAlgorithm<CublasProduct> algorithm(std::move(text), std::move(product), *choice);
  if (factors.adds) return std::make_unique<AddedCublasKernel>(std::move(algorithm), request.outputs[0].bytes());
  return std::make_unique<CublasKernel>(std::move(algorithm));
}

/// With rows that are copied to where tensor cores take them.
std::unique_ptr<Kernel> make_padded(const KernelRequest& request, const gpu::PaddedProduct& product,
                                    const Numbers& numbers, const Factors& factors) {
  const auto of_part = [&](std::int64_t count) -> std::unique_ptr<Kernel> {
    const std::optional<Gemm> gemm = product.gemm_of(count);
    if (!gemm) return nullptr;
    return make_gemm(gpu::request_of_part(request, product, count, factors.a, factors.b), *gemm, numbers, factors);
  };
  auto kernel = of_part(product.part);
  if (!kernel) return nullptr;
  std::unique_ptr<Kernel> last;
  const std::int64_t left = product.count_of(product.num_parts() - 1);
  if (left != product.part) {
    last = of_part(left);
    if (!last) return nullptr;
  }
  return std::make_unique<gpu::PaddedProductKernel>(product, factors.adds, factors.a, factors.b, std::move(kernel),
                                                    std::move(last));
}

std::unique_ptr<Kernel> make_product(const KernelRequest& request, const MatmulProblem& problem,
                                     const Factors& factors = {}, const gpu::PaddingRule& rule = {}) {
  const std::optional<Gemm> gemm = gpu::column_gemm(problem);
  if (!gemm) return nullptr;
  const Numbers numbers{.is_bf16 = request.outputs[0].dtype == Dtype::bf16,
                        .allow_tf32 = static_cast<CudaDevice&>(request.device).allow_tf32()};
  if (numbers.are_for_tensor_cores()) {
    const auto padded = gpu::PaddedProduct::of(problem, dtype_bytes(request.outputs[0].dtype), rule);
    if (padded) {
      if (auto kernel = make_padded(request, *padded, numbers, factors)) return kernel;
    }
  }
  return make_gemm(request, *gemm, numbers, factors);
}

ConvolutionGeometry geometry_of(const KernelRequest& request, const Shape& x, const Shape& w) {
  return convolution_geometry(x, w, request.node.options<ConvolutionOptions>(), request.node.label());
}

std::unique_ptr<Kernel> make_pointwise(const KernelRequest& request) {
  const auto g = geometry_of(request, request.inputs[0].shape, request.inputs[1].shape);
  return gpu::is_pointwise(g) ? make_product(request, gpu::pointwise_forward(g)) : nullptr;
}
std::unique_ptr<Kernel> make_pointwise_backward_input(const KernelRequest& request) {
  const auto g = geometry_of(request, request.outputs[0].shape, request.inputs[1].shape);
  return gpu::is_pointwise(g) ? make_product(request, gpu::pointwise_backward_input(g)) : nullptr;
}
// Inputs: dy, x.
std::unique_ptr<Kernel> make_pointwise_backward_filter(const KernelRequest& request) {
  const auto g = geometry_of(request, request.inputs[1].shape, request.outputs[0].shape);
  return gpu::is_pointwise(g) ? make_product(request, gpu::pointwise_backward_filter(g), {.a = 1, .b = 0}) : nullptr;
}

}  // namespace

std::unique_ptr<Kernel> make_cublas_matmul(const KernelRequest& request, const gpu::PaddingRule& rule) {
  return make_product(request, matmul_problem(request), {}, rule);
}
std::unique_ptr<Kernel> make_cublas_add_matmul(const KernelRequest& request, const gpu::PaddingRule& rule) {
  KernelRequest of_factors = request;
  of_factors.inputs.erase(of_factors.inputs.begin());
  return make_product(of_factors, matmul_problem(request), {.adds = true}, rule);
}
std::unique_ptr<Kernel> make_cublas_matmul_over_rows(const KernelRequest& request, const gpu::PaddingRule& rule) {
  return make_product(request, matmul_over_rows_problem(request), {}, rule);
}

void add_cublas_kernels(KernelRegistry& registry) {
  const auto add = [&](const char* op, KernelFactory make) { registry.add(op, make, Bf16::native); };
  add("matmul", [](const KernelRequest& request) { return make_cublas_matmul(request, {}); });
  add("add_matmul", [](const KernelRequest& request) { return make_cublas_add_matmul(request, {}); });
  add("matmul_over_rows", [](const KernelRequest& request) { return make_cublas_matmul_over_rows(request, {}); });
  for (const char* rank : {"2d", "3d"}) {
    registry.add(text_of("conv", rank), make_pointwise, Bf16::native);
    registry.add(text_of("conv", rank, "_backward_input"), make_pointwise_backward_input, Bf16::native);
    registry.add(text_of("conv", rank, "_backward_filter"), make_pointwise_backward_filter, Bf16::native);
    registry.add(text_of("conv_transpose", rank), make_pointwise_backward_input, Bf16::native);
  }
}

}  // namespace sectionflow
