#include "graph/nodes/convolution.h"
#include "kernels/cuda/library/library_kernels.h"

#if defined(SF_HAS_CUDNN)
#include <cudnn.h>
#include <glog/logging.h>

#include <array>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/dtype.h"
#include "device/cuda/cuda_device.h"
#include "kernels/cuda/cuda_kernels.h"
#include "kernels/cuda/library/choice.h"
#include "kernels/cuda/library/convolution_numbers.h"
#include "kernels/cuda/library/cudnn_directions.h"
#include "kernels/cuda/library/padded_convolution.h"

// All calls go through the process's handle, which CudaDevice::cudnn gives to one thread at a time.

namespace sectionflow {
namespace {

using gpu::ConvolutionNumbers;
using namespace gpu::cudnn;

/// Whether the library says that it has no such convolution: what follows from the question alone. All else is a
/// failure of the moment, and throws: another algorithm would give other bits.
bool is_refusal(cudnnStatus_t status) {
  const int category = CUDNN_STATUS_CATEGORY(static_cast<int>(status));
  return category == CUDNN_STATUS_NOT_SUPPORTED || category == CUDNN_STATUS_BAD_PARAM;
}

/// What is convolved, and how exactly. Sums are f32 in every case, and each is rounded once.
struct Arithmetic {
  bool is_bf16 = false;
  bool allow_tf32 = false;  ///< of f32 operands

  cudnnDataType_t element() const { return is_bf16 ? CUDNN_DATA_BFLOAT16 : CUDNN_DATA_FLOAT; }
  std::size_t element_bytes() const { return is_bf16 ? sizeof(BFloat16) : sizeof(float); }
  /// What the library may choose from: of bf16, tensor cores that take the factors as they are; of f32, kernels of
  /// fused multiply-adds in f32 alone, or the library's default, which rounds to TF32.
  cudnnMathType_t math() const {
    if (is_bf16) return CUDNN_TENSOR_OP_MATH;
    return allow_tf32 ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
  }
  /// Whether an algorithm's own kind is part of the choice, or math() all that there is.
  bool has_kinds() const { return is_bf16 || allow_tf32; }
  bool takes(cudnnMathType_t kind) const {
    if (kind == CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION) return false;  // to f16, too
    return is_bf16 || allow_tf32 || kind != CUDNN_TENSOR_OP_MATH;
  }
  const char* text() const { return is_bf16 ? "bf16" : allow_tf32 ? "f32 as tf32" : "f32"; }
};

/// Fills in the numbers. Dimensions stand in the order N, C, sizes whatever the format says of the memory. For bf16 it
/// is the configuration that the library calls PSEUDO_BFLOAT16: tensors and filter of bf16, computed in f32.
cudnnStatus_t describe(const ConvolutionNumbers& n, const Arithmetic& arithmetic, const Descriptors& d) {
  const cudnnDataType_t element = arithmetic.element();
  const cudnnTensorFormat_t format = n.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
  const auto rank = static_cast<int>(n.x.size());
  cudnnStatus_t status = cudnnSetTensorNdDescriptorEx(d.x.get(), format, element, rank, n.x.data());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnSetTensorNdDescriptorEx(d.y.get(), format, element, rank, n.y.data());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnSetFilterNdDescriptor(d.filter.get(), element, format, rank, n.filter.data());
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnSetConvolutionNdDescriptor(d.convolution.get(), rank - 2, n.padding.data(), n.stride.data(),
                                           n.dilation.data(), CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  status = cudnnSetConvolutionGroupCount(d.convolution.get(), n.groups);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  return cudnnSetConvolutionMathType(d.convolution.get(), arithmetic.math());
}

constexpr float kOne = 1, kZero = 0;  // y = one result + zero y, which is not read then

/// An algorithm with its arithmetic and scratch.
template <class Direction>
struct Choice {
  typename Direction::Algorithm algorithm{};
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  std::size_t workspace_bytes = 0;
};

/// One convolution as choose_algorithm asks for it, and as kernels run it.
template <class Direction>
class CudnnConvolution {
 public:
  using Candidate = Choice<Direction>;

  CudnnConvolution(CudaDevice& device, Descriptors descriptors, const Arithmetic& arithmetic,
                   std::size_t most_workspace)
      : device_(&device),
        descriptors_(std::move(descriptors)),
        arithmetic_(arithmetic),
        most_workspace_(most_workspace) {}

  /// Those of the heuristic's, fastest first, that sum alike every time, exactly, and in little memory; behind them
  /// those that need about as much as the operands have. These are for what has no others, and to be timed: f32 without
  /// TF32 of channels-last images may run on copies with channels first, and our own kernel is four times as slow. A
  /// rule of shapes alone, as algorithms that followed a budget would give other bits under another.
  std::vector<Candidate> candidates(gpu::LeftOut& left_out) const {
    std::array<typename Direction::Candidate, Direction::kNumAlgorithms> found{};
    int num_found = 0;
    const auto [first, second, third] = Direction::descriptors(descriptors_);
    select(arithmetic_.math());
    const LibraryHandles::Cudnn cudnn = device_->cudnn();
    const cudnnStatus_t status = Direction::kFind(cudnn.handle(), first, second, descriptors_.convolution.get(), third,
                                                  Direction::kNumAlgorithms, &num_found, found.data());
    if (is_refusal(status)) {
      left_out.add(-1, text_of("of any kind: ", cudnnGetErrorString(status)));
      return {};
    }
    check_cudnn(status, "choice of an algorithm");
    std::vector<Candidate> sound, large;
    for (int i = 0; i < num_found; ++i) {
      const auto& offered = found[static_cast<std::size_t>(i)];
      Candidate choice{.algorithm = offered.algo, .math = offered.mathType};
      std::string fault = fault_of(offered);
      if (fault.empty()) fault = ask_workspace(cudnn.handle(), choice);
      if (!fault.empty()) {
        left_out.add(static_cast<std::int64_t>(offered.algo), fault);
      } else if (choice.workspace_bytes <= gpu::kMostLibraryWorkspace) {
        sound.push_back(choice);
      } else if (choice.workspace_bytes <= most_workspace_) {
        large.push_back(choice);
      } else {
        left_out.add(static_cast<std::int64_t>(offered.algo), text_of("wants ", bytes_text(choice.workspace_bytes)));
      }
    }
    sound.insert(sound.end(), large.begin(), large.end());
    return sound;
  }

  static gpu::Words<3> words(const Candidate& candidate) {
    return {static_cast<std::uint64_t>(candidate.algorithm), static_cast<std::uint64_t>(candidate.math),
            candidate.workspace_bytes};
  }
  static Candidate from(const gpu::Words<3>& words) {
    return {.algorithm = static_cast<typename Direction::Algorithm>(words[0]),
            .math = static_cast<cudnnMathType_t>(words[1]),
            .workspace_bytes = words[2]};
  }

  /// False when the library refuses it.
  bool run(const Candidate& candidate, const KernelArguments& arguments, void* filter, void* scratch) const {
    select(candidate.math);
    const auto [first, second, third] = Direction::descriptors(descriptors_);
    const Operands operands = Direction::operands(arguments, filter);
    const LibraryHandles::Cudnn cudnn = device_->cudnn();
    const cudnnStatus_t status = Direction::kRun(cudnn.handle(), &kOne, first, operands.first, second, operands.second,
                                                 descriptors_.convolution.get(), candidate.algorithm,
                                                 candidate.workspace_bytes == 0 ? nullptr : scratch,
                                                 candidate.workspace_bytes, &kZero, third, operands.third);
    if (is_refusal(status)) return false;
    check_cudnn(status, Direction::kName);
    return true;
  }
  /// To be tried: where the filter lies, its layout does not matter.
  bool launch(const Candidate& candidate, const KernelArguments& arguments) const {
    return run(candidate, arguments, Direction::filter_of(arguments), arguments.workspace);
  }

 private:
  /// A candidate is an algorithm with its kind of arithmetic, which is the descriptor's to say.
  void select(cudnnMathType_t kind) const {
    if (arithmetic_.has_kinds()) {
      check_cudnn(cudnnSetConvolutionMathType(descriptors_.convolution.get(), kind), "arithmetic");
    }
  }
  /// Why an algorithm is not taken; empty where it may be.
  std::string fault_of(const typename Direction::Candidate& offered) const {
    if (offered.status != CUDNN_STATUS_SUCCESS) return cudnnGetErrorString(offered.status);
    if (offered.determinism != CUDNN_DETERMINISTIC) return "sums in the order of arrival";
    if (!Direction::sums_products(offered.algo, arithmetic_.is_bf16)) return "does not sum products as they are";
    if (!arithmetic_.takes(offered.mathType)) return "takes other numbers";
    // 25 times as slow as on copies in f32, for ResNet's first convolution by cuDNN 9.19 on an H100.
    if (Direction::kWritesFilter && arithmetic_.is_bf16 && offered.mathType != CUDNN_TENSOR_OP_MATH) {
      return "has no tensor cores";
    }
    return {};
  }
  /// Fills in the candidate's workspace; returned is why that cannot be had, empty where it can. The question moves
  /// nothing, so that any failure is the algorithm's. A line of the log says so: the library has offered it.
  std::string ask_workspace(cudnnHandle_t handle, Candidate& candidate) const {
    const auto [first, second, third] = Direction::descriptors(descriptors_);
    select(candidate.math);
    const cudnnStatus_t asked = Direction::kScratch(handle, first, second, descriptors_.convolution.get(), third,
                                                    candidate.algorithm, &candidate.workspace_bytes);
    if (asked == CUDNN_STATUS_SUCCESS) return {};
    LOG(WARNING) << "cudnn offers algorithm " << static_cast<int>(candidate.algorithm) << " for a " << Direction::kName
                 << " and does not say its workspace, the next is taken: " << cudnnGetErrorString(asked);
    return text_of("has no workspace: ", cudnnGetErrorString(asked));
  }

  CudaDevice* device_;
  Descriptors descriptors_;
  Arithmetic arithmetic_;
  std::size_t most_workspace_;
};

template <class Direction>
class CudnnKernel final : public Kernel {
 public:
  CudnnKernel(gpu::RunnableAlgorithm<CudnnConvolution<Direction>> algorithm, const ConvolutionNumbers& numbers,
              std::size_t element_bytes)
      : algorithm_(std::move(algorithm)), copy_(numbers.filter_copy), element_bytes_(element_bytes) {
    if (!copy_.is_identity()) {
      filter_bytes_ = round_up(static_cast<std::size_t>(numbers.filter_elements()) * element_bytes);
    }
  }

  std::string implementation() const override {
    return text_of("cudnn algorithm ", static_cast<int>(algorithm_.candidate().algorithm));
  }
  /// The filter in cuDNN's layout, behind it the algorithm's own.
  std::size_t workspace_bytes() const override { return filter_bytes_ + algorithm_.planned_bytes(); }

  void launch(const KernelArguments& arguments) override {
    auto* workspace = static_cast<std::byte*>(arguments.workspace);
    void* ours = Direction::filter_of(arguments);
    void* theirs = filter_bytes_ == 0 ? ours : workspace;
    const bool copies = filter_bytes_ > 0;
    if (copies && !Direction::kWritesFilter) {
      gpu::transpose_matrices(arguments.queue, copy_, element_bytes_, ours, theirs);
    }
    algorithm_.run([&](const auto& convolution, const Choice<Direction>& choice) {
      return convolution.run(choice, arguments, theirs, workspace + filter_bytes_);
    });
    if (copies && Direction::kWritesFilter) {
      gpu::transpose_matrices(arguments.queue, copy_.inverse(), element_bytes_, theirs, ours);
    }
  }

 private:
  gpu::RunnableAlgorithm<CudnnConvolution<Direction>> algorithm_;
  gpu::MatrixTranspose copy_;
  std::size_t element_bytes_;
  std::size_t filter_bytes_ = 0;
};

/// All that the choice depends on.
std::string problem_of(const char* what, const ConvolutionNumbers& n, const Arithmetic& arithmetic,
                       std::size_t most_workspace, const CudaDevice& device) {
  const auto listed = [](const std::vector<int>& numbers) {
    std::string text;
    for (int number : numbers) text += text_of(text.empty() ? "" : "x", number);
    return text;
  };
  return text_of(device.cudnn_problem(), what, " of ", arithmetic.text(), ", channels ",
                 n.channels_last ? "last" : "first", ", x ", listed(n.x), ", y ", listed(n.y), ", filter ",
                 listed(n.filter), ", padding ", listed(n.padding), ", stride ", listed(n.stride), ", dilation ",
                 listed(n.dilation), ", ", n.groups, " groups, scratch up to ", gpu::kMostLibraryWorkspace, " or else ",
                 most_workspace);
}

/// Copies of all operands, and a quarter more for how algorithms lay them out.
std::size_t most_workspace(const KernelRequest& request) {
  const std::size_t operands = request.inputs[0].bytes() + request.inputs[1].bytes() + request.outputs[0].bytes();
  return operands + operands / 4;
}

/// Our own kernel where it may be the faster one: of filters' gradients in f32 the library has a single algorithm that
/// sums in order, which for few channels is slow. Null elsewhere.
template <class Direction>
std::unique_ptr<Kernel> rival_of(const KernelRequest& request, const Arithmetic& arithmetic) {
  if (!Direction::kWritesFilter || arithmetic.has_kinds()) return nullptr;
  static const KernelRegistry own = [] {
    KernelRegistry registry;
    add_convolution_cuda_kernels(registry);
    return registry;
  }();
  return own.make(request);
}

template <class Direction>
std::unique_ptr<Kernel> make_evenly_padded(const KernelRequest& request, const ConvolutionGeometry& geometry) {
  const auto numbers = gpu::convolution_numbers(geometry);
  if (!numbers) return nullptr;
  auto& device = static_cast<CudaDevice&>(request.device);
  const Arithmetic arithmetic{.is_bf16 = request.outputs[0].dtype == Dtype::bf16, .allow_tf32 = device.allow_tf32()};
  Descriptors descriptors = make_descriptors();
  const cudnnStatus_t described = describe(*numbers, arithmetic, descriptors);
  if (is_refusal(described)) return nullptr;
  check_cudnn(described, "description of a convolution");
  const std::size_t most = most_workspace(request);
  CudnnConvolution<Direction> convolution(device, std::move(descriptors), arithmetic, most);
  std::string problem = problem_of(Direction::kName, *numbers, arithmetic, most, device);
  const auto own = rival_of<Direction>(request, arithmetic);
  const auto choice = gpu::choose_algorithm(request, problem, convolution, own.get());
  if (!choice) return nullptr;
  return std::make_unique<CudnnKernel<Direction>>(
      gpu::RunnableAlgorithm<CudnnConvolution<Direction>>(std::move(problem), std::move(convolution), *choice),
      *numbers, arithmetic.element_bytes());
}

/// x and w: the shapes of the convolution's image and filter, wherever the request has them.
template <class Direction>
std::unique_ptr<Kernel> make_kernel(const KernelRequest& request, const Shape& x, const Shape& w) {
  const auto geometry = convolution_geometry(x, w, request.node.options<ConvolutionOptions>(), request.node.label());
  if (gpu::pads_evenly(geometry)) return make_evenly_padded<Direction>(request, geometry);
  // The filter's gradient is a sum over the batch, which the library is to take at once.
  const auto images = gpu::padded_images(geometry, request.outputs[0].dtype, !Direction::kWritesFilter);
  if (!images) return nullptr;
  const KernelRequest of_part = gpu::request_of_part(request, *images, Direction::kImage);
  auto kernel = make_evenly_padded<Direction>(of_part, images->geometry);
  if (!kernel) return nullptr;
  return std::make_unique<gpu::PaddedConvolution>(request, *images, Direction::kImage, std::move(kernel));
}

std::unique_ptr<Kernel> make_forward(const KernelRequest& request) {
  return make_kernel<Forward>(request, request.inputs[0].shape, request.inputs[1].shape);
}
// A transposed convolution is this gradient: its w is the filter of the convolution that it transposes.
std::unique_ptr<Kernel> make_backward_input(const KernelRequest& request) {
  return make_kernel<BackwardInput>(request, request.outputs[0].shape, request.inputs[1].shape);
}
std::unique_ptr<Kernel> make_backward_filter(const KernelRequest& request) {
  return make_kernel<BackwardFilter>(request, request.inputs[1].shape, request.outputs[0].shape);
}

}  // namespace

void add_cudnn_kernels(KernelRegistry& registry) {
  for (const char* rank : {"2d", "3d"}) {
    registry.add(text_of("conv", rank), make_forward, Bf16::native);
    registry.add(text_of("conv", rank, "_backward_input"), make_backward_input, Bf16::native);
    registry.add(text_of("conv", rank, "_backward_filter"), make_backward_filter, Bf16::native);
    registry.add(text_of("conv_transpose", rank), make_backward_input, Bf16::native);
  }
}

}  // namespace sectionflow

#endif
