#include "graph/ops/group_norm.h"

#include <omp.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "device/parallel.h"
#include "kernels/cpu/channel_norm.h"
#include "kernels/formulas/batch_norm.h"
#include "kernels/function_kernel.h"
#include "kernels/kernel_registry.h"
#include "kernels/stored_element.h"

// An image is taken as a batch of one whose channels batch_norm's loops sum; the groups add the numbers of theirs.

namespace sectionflow {
namespace {

Shape one_image(const Shape& x) {
  std::vector<std::int64_t> dims = x.dims();
  dims[0] = 1;
  return Shape(std::move(dims));
}

/// The images of a batch, and the channels of a group.
struct Images {
  Images(const Shape& x, const GroupNormOptions& options)
      : count(x[0]),
        elements(one_image(x).num_elements()),
        channels(x[channel_axis(options.format)]),
        groups(options.groups),
        group_channels(channels / groups) {}

  /// Elements of a group, at least 1.
  double group_count() const { return static_cast<double>(std::max<std::int64_t>(1, elements / groups)); }
  /// Calls `body(image)`: side by side where there are enough for the compute team, else one after the other, each with
  /// the team's loops inside. No bit depends on which.
  template <class Body>
  void for_each(const Body& body) const {
    const bool side_by_side = count >= omp_get_max_threads();
    parallel_for(count, side_by_side ? 1 : std::max<std::int64_t>(1, count), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t image = begin; image < end; ++image) body(image);
    });
  }
  /// Calls `body(group, first channel, end)`.
  template <class Body>
  void for_each_group(const Body& body) const {
    for (std::int64_t g = 0; g < groups; ++g) body(g, g * group_channels, (g + 1) * group_channels);
  }
  /// Numbers of the groups of an image as those of its channels.
  void spread(const float* mean, const float* rstd, const float* scale, float* means, float* factors) const {
    for_each_group([&](std::int64_t g, std::int64_t first, std::int64_t end) {
      for (std::int64_t c = first; c < end; ++c) {
        means[c] = mean[g];
        factors[c] = scale[c] * rstd[g];
      }
    });
  }

  std::int64_t count, elements, channels, groups, group_channels;
};

template <class T, class Loops>
struct GroupForward {
  Images images;
  Loops loops;  // of one image
  float epsilon;
  bool has_statistics;  // the outputs behind y are already there
  WorkspaceLayout of_image{};
  ChannelStatistics<Loops> statistics;
  std::size_t means_at, factors_at;  // f32 [C] each

  GroupForward(const Images& images, const Loops& loops, float epsilon, bool has_statistics)
      : images(images),
        loops(loops),
        epsilon(epsilon),
        has_statistics(has_statistics),
        statistics(loops, of_image),
        means_at(add_per_channel(of_image, images.channels)),
        factors_at(add_per_channel(of_image, images.channels)) {}

  std::size_t workspace_bytes() const { return of_image.num_bytes() * static_cast<std::size_t>(images.count); }

  void operator()(const KernelArguments& arguments) const {
    const auto* scale = static_cast<const float*>(arguments.inputs[1]);  // [C]
    const auto* shift = static_cast<const float*>(arguments.inputs[2]);  // [C]
    images.for_each([&](std::int64_t image) {
      const T* x = static_cast<const T*>(arguments.inputs[0]) + image * images.elements;
      T* y = static_cast<T*>(arguments.outputs[0]) + image * images.elements;
      float* mean = static_cast<float*>(arguments.outputs[1]) + image * images.groups;
      float* rstd = static_cast<float*>(arguments.outputs[2]) + image * images.groups;
      void* workspace = workspace_part(arguments.workspace, of_image.num_bytes() * static_cast<std::size_t>(image));
      auto* means = static_cast<float*>(workspace_part(workspace, means_at));
      auto* factors = static_cast<float*>(workspace_part(workspace, factors_at));
      if (!has_statistics) {
        statistics.run(x, workspace, means, factors);  // the variances, until the groups have read them
        combine(means, factors, mean, rstd);
      }
      images.spread(mean, rstd, scale, means, factors);
      normalize_channels<false>(loops, x, means, factors, shift, y);
    });
  }

 private:
  /// All channels have the same number of elements.
  void combine(const float* means, const float* variances, float* mean, float* rstd) const {
    images.for_each_group([&](std::int64_t g, std::int64_t first, std::int64_t end) {
      const auto count = static_cast<double>(end - first);
      double sum = 0, variance = 0;
      for (std::int64_t c = first; c < end; ++c) sum += means[c];
      for (std::int64_t c = first; c < end; ++c) {
        const double apart = means[c] - sum / count;
        variance += variances[c] + apart * apart;
      }
      mean[g] = static_cast<float>(sum / count);
      rstd[g] = formulas::batch_norm_rstd(static_cast<float>(variance / count), epsilon);
    });
  }
};

/// Two passes over dy and x of each image: sums, then dx.
template <class T, class Loops>
struct GroupGradient {
  Images images;
  Loops loops;  // of one image
  WorkspaceLayout of_image{};
  ChannelGradientSums<Loops> sums;
  std::size_t means_at, factors_at, offsets_at, x_factors_at;  // f32 [C] each
  std::size_t dscales_at, dshifts_at, images_at;               // f32 [N, C] each; then what is of an image
  std::size_t num_bytes;

  GroupGradient(const Images& images, const Loops& loops) : images(images), loops(loops), sums(loops, of_image) {
    for (std::size_t* at : {&means_at, &factors_at, &offsets_at, &x_factors_at}) {
      *at = add_per_channel(of_image, images.channels);
    }
    WorkspaceLayout all;
    for (std::size_t* at : {&dscales_at, &dshifts_at}) *at = add_per_channel(all, images.count * images.channels);
    images_at = all.add(of_image.num_bytes() * static_cast<std::size_t>(images.count));
    num_bytes = all.num_bytes();
  }

  void operator()(const KernelArguments& arguments) const {
    const std::int64_t channels = images.channels;
    auto* dscales = static_cast<float*>(workspace_part(arguments.workspace, dscales_at));
    auto* dshifts = static_cast<float*>(workspace_part(arguments.workspace, dshifts_at));
    images.for_each(
        [&](std::int64_t image) { run(arguments, image, dscales + image * channels, dshifts + image * channels); });
    const auto combine = [&](const float* of_images, void* output) {
      auto* total = static_cast<float*>(output);  // [C]
      combine_blocks(
          images.count, channels, [=](std::int64_t image, std::int64_t c) { return of_images[image * channels + c]; },
          [=](std::int64_t c, double sum) { total[c] = static_cast<float>(sum); });
    };
    combine(dscales, arguments.outputs[1]);
    combine(dshifts, arguments.outputs[2]);
  }

 private:
  void run(const KernelArguments& arguments, std::int64_t image, float* dscale, float* dshift) const {
    const auto of = [&](int index) { return static_cast<const T*>(arguments.inputs[index]) + image * images.elements; };
    const auto numbers = [&](int index) { return static_cast<const float*>(arguments.inputs[index]); };
    const float *scale = numbers(group_norm_grad_input::scale),
                *mean = numbers(group_norm_grad_input::mean) + image * images.groups,
                *rstd = numbers(group_norm_grad_input::rstd) + image * images.groups;
    void* workspace =
        workspace_part(arguments.workspace, images_at + of_image.num_bytes() * static_cast<std::size_t>(image));
    const auto part = [&](std::size_t at) { return static_cast<float*>(workspace_part(workspace, at)); };
    float *means = part(means_at), *factors = part(factors_at), *offsets = part(offsets_at),
          *x_factors = part(x_factors_at);
    images.spread(mean, rstd, scale, means, factors);
    const typename Loops::Values lane_means(loops, means), lane_factors(loops, factors);
    const ArrivingGradient<false, T> arriving{of(group_norm_grad_input::dy), of(group_norm_grad_input::x),
                                              lane_means.data(), lane_factors.data(), nullptr};
    sums.run(arriving, workspace, dshift, dscale);  // until here the sum of dy (x - mean)
    images.for_each_group([&](std::int64_t g, std::int64_t first, std::int64_t end) {
      double dy_sum = 0, product_sum = 0;
      for (std::int64_t c = first; c < end; ++c) {
        dy_sum += static_cast<double>(scale[c]) * dshift[c];
        product_sum += static_cast<double>(scale[c]) * dscale[c];
        dscale[c] *= rstd[g];
      }
      const formulas::GroupNormTerms terms =
          formulas::group_norm_terms(dy_sum, product_sum, images.group_count(), rstd[g]);
      std::fill(offsets + first, offsets + end, terms.offset);
      std::fill(x_factors + first, x_factors + end, terms.x_factor);
    });
    write_channel_dx<formulas::GroupNormDx>(loops, arriving, offsets, x_factors,
                                            static_cast<T*>(arguments.outputs[0]) + image * images.elements);
  }
};

/// `make(images, loops, T{})` for x, the input of that number, stored as T.
template <class Make>
std::unique_ptr<Kernel> with_images(const KernelRequest& request, int number, const Make& make) {
  const auto& options = request.node.options<GroupNormOptions>();
  const TensorType& x = request.inputs[static_cast<std::size_t>(number)];
  return with_channel_loops(one_image(x.shape), options.format, [&](const auto& loops) {
    return with_stored_type(x.dtype, [&](auto element) -> std::unique_ptr<Kernel> {
      return make(Images(x.shape, options), loops, element);
    });
  });
}

std::unique_ptr<Kernel> make_group_norm(const KernelRequest& request) {
  return with_images(request, 0, [&](const Images& images, const auto& loops, auto element) {
    using Forward = GroupForward<decltype(element), std::decay_t<decltype(loops)>>;
    const Forward forward(images, loops, request.node.options<GroupNormOptions>().epsilon, request.replay);
    return function_kernel(forward,
                           {.workspace_bytes = forward.workspace_bytes(), .in_place = {{.input = 0, .output = 0}}});
  });
}

std::unique_ptr<Kernel> make_group_norm_grad(const KernelRequest& request) {
  return with_images(request, group_norm_grad_input::x, [](const Images& images, const auto& loops, auto element) {
    using Gradient = GroupGradient<decltype(element), std::decay_t<decltype(loops)>>;
    const Gradient gradient(images, loops);
    return function_kernel(gradient, {.workspace_bytes = gradient.num_bytes,
                                      .in_place = {{.input = group_norm_grad_input::dy, .output = 0},
                                                   {.input = group_norm_grad_input::x, .output = 0}}});
  });
}

}  // namespace

void add_group_norm_cpu_kernels(KernelRegistry& registry) {
  registry.add("group_norm", make_group_norm, Bf16::native);
  registry.add("group_norm_grad", make_group_norm_grad, Bf16::native);
}

}  // namespace sectionflow
